"""Runs calls that are not trusted: ``isolated.py candidate_process.py SOCKET SETTINGS TREE MODULE [FOLDER ...]``.

This script is started by candidate.py, which alone judges and times. SOCKET: a file descriptor, for lines of JSON. Each
question is a list of its number, a function's name and arguments; each answer is an object of the number and an error.
SETTINGS: of the device, as JSON. MODULE: the package or module that declares the kernels of the folder TREE. FOLDER:
where packages are.

The arrays lie in memory of the worker process, which is opened here by handles. Nothing else of that process is.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpwatch.catalogue.project import Project
    from warpwatch.devices.foreign.inspection import Inside
    from warpwatch.devices.gpu import Device

SAID = 2000  # characters of an error


class Calls:
    """The calls of this process, and the memory that they are given."""

    def __init__(self, settings: str, tree: Path, module: str, packages: Sequence[str]) -> None:
        self._settings = settings
        self._tree, self._module, self._packages = tree, module, packages
        self._device: Device | None = None
        self._project: Project | None = None
        self._inside: Inside | None = None
        self._word = 0  # address of this process's memory
        self._opened: list[int] = []  # addresses of memory of the worker process
        self._sets: list[dict[str, int]] = []  # addresses of arrays by name, for each set of them
        self._queues: list[Callable[[], None]] = []  # one for each set

    def device(self) -> None:
        """Open the GPU."""
        from warpwatch.devices.opening import Settings, open_device  # noqa: PLC0415  # found by ``main``

        self._device = open_device(Settings(**json.loads(self._settings)))

    def fill(self, count: int) -> None:
        """Fill a word of this process's own memory ``count`` times, and wait for all work of the context."""
        assert self._device
        self._word = self._word or self._device.allocate(4)
        for _ in range(count):
            self._device.fill(self._word, 4, 0)
        self._device.context.synchronize()

    def load(self) -> None:
        """Import the declarations."""
        from warpwatch.catalogue.project import load_project  # noqa: PLC0415
        from warpwatch.devices.foreign.inspection import Inside  # noqa: PLC0415

        self._inside = Inside(self._tree, self._packages)
        # Declarations may have modules of the engine's names, which are imported already.
        sys.path[:] = [str(self._tree), *(p for p in sys.path if p not in self._packages), *self._packages]
        self._project = load_project(self._tree, self._module)

    def open(self, sets: Sequence[Mapping[str, tuple[str, int]]]) -> None:
        """Open the memory of arrays: of each set, a handle and an offset by the array's name."""
        from warpwatch.devices import driver_calls  # noqa: PLC0415

        self.close()
        for given in sets:
            self._sets.append({})
            for name, (handle, offset) in given.items():
                self._opened.append(driver_calls.open_handle(bytes.fromhex(handle)))
                self._sets[-1][name] = self._opened[-1] + offset

    def prepare(self, case: str) -> None:
        """Prepare a case's call for each set of arrays."""
        from warpwatch.catalogue.cases import find_case  # noqa: PLC0415

        assert self._device
        assert self._project
        found = find_case(self._project.families, case)
        self._queues = [self._device.call(found, addresses) for addresses in self._sets]
        self._device.context.synchronize()

    def go(self, count: int) -> dict[str, float]:
        """Make the call on the first sets of arrays, wait for all work of the context, and return what queuing took."""
        begin = time.perf_counter()
        for queue in self._queues[:count]:
            queue()
        queued = time.perf_counter() - begin
        assert self._device
        self._device.context.synchronize()
        return {"queued": queued}

    def look(self) -> dict[str, list[str]]:
        """Return what has changed in this process since before the declarations were imported, each in a sentence."""
        assert self._inside
        return {"found": self._inside.changes()}

    def close(self) -> None:
        """Forget the prepared case, and close the memory of its arrays."""
        from warpwatch.devices import driver_calls  # noqa: PLC0415

        self._queues, self._sets = [], []
        while self._opened:
            driver_calls.close_handle(self._opened.pop())


def serve(lines: socket.SocketIO, calls: Calls) -> None:
    """Answer questions until the worker process hangs up."""
    questions = {
        name: getattr(calls, name) for name in ("device", "fill", "load", "open", "prepare", "go", "look", "close")
    }
    while question := lines.readline():
        number, name, *arguments = json.loads(question)
        lines.write(answer(number, questions[name], arguments))


def answer(number: int, function: Callable[..., dict[str, Any] | None], arguments: Sequence[Any]) -> bytes:
    """Do what a question asks for; return the answer, a line."""
    error, fields = "", dict[str, Any]()
    try:
        fields = function(*arguments) or {}
    except (Exception, SystemExit) as caught:  # foreign code may raise anything
        error = (str(caught).strip() or type(caught).__name__)[:SAID]
    return json.dumps({"number": number, "error": error, **fields}).encode() + b"\n"


def main() -> None:
    descriptor, settings, tree, module, *packages = sys.argv[1:]
    # Whatever the engine needs is imported before the declarations, whose modules may have the same names.
    sys.path[:0] = packages[::-1]  # the engine first
    from warpwatch.catalogue import project  # noqa: F401, PLC0415
    from warpwatch.devices import gpu  # noqa: F401, PLC0415

    with socket.socket(fileno=int(descriptor)) as end, end.makefile("rwb", buffering=0) as lines:
        lines.write(json.dumps({"number": 0, "error": ""}).encode() + b"\n")
        serve(lines, Calls(settings, Path(tree), module, packages))
    os._exit(0)  # without the interpreter's own exit, where PyCUDA aborts if a context is left


if __name__ == "__main__":
    main()
