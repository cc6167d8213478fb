"""The process in which kernels run.

After an illegal address the driver refuses every further CUDA call of the process, a new context too
(measured: driver 580, H200), and a kernel that never ends can only be stopped with its process. So GPU and
serial kernels run in a child: when a kernel breaks it, its case fails, and the next case gets a new one.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ParamSpec, TypeVar

from kernels import FAMILIES
from kernels.catalogue import Array, BadCase, Build, Shape, find_case, make_case
from kernels.check import WrongResult
from kernels.compiler import ROOT, CompileError, Image
from kernels.device import Device, DeviceInfo, NoDevice, Settings, open_device
from kernels.host import Host
from kernels.machine import DeviceError, Machine
from kernels.placement import PLAIN, Placement
from kernels.runner import Outcome, run

_P = ParamSpec("_P")
_T = TypeVar("_T")
PATIENCE = 120.0  # seconds that a call may take beyond the launch limit: inputs, references, copies


class Worker:
    """Calls functions in a child process, which it starts when needed and replaces when it is lost."""

    def __init__(self, settings: Settings = Settings()) -> None:  # noqa: B008  # frozen
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self.started = 0  # how many processes so far

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """``function``, of a module's top level, run in the child. Its exceptions are raised here.

        DeviceError, ``lost``, when the child died, did not answer in time, or lost its device: the next
        call has a new child.
        """
        connection = self._connection or self._start()
        connection.send((function.__module__, function.__qualname__, args, kwargs))
        try:
            patience = self.settings.launch_timeout + PATIENCE
            if not connection.poll(patience):
                raise DeviceError(f"no answer within {patience:g} s; process killed", lost=True)
            value, error = connection.recv()
        except (EOFError, ConnectionError):
            error = DeviceError(f"the process in which kernels run died: {self._epitaph()}", lost=True)
        except DeviceError as silence:
            error = silence
        if getattr(error, "lost", False):
            self.stop()
        if error:
            raise error
        return value  # type: ignore[no-any-return]

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "kernels.worker", str(theirs.fileno()), json.dumps(asdict(self.settings))]
        path = os.pathsep.join(filter(None, (str(ROOT), *sys.path)))
        environment = os.environ | {"PYTHONPATH": path}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()
        self._connection = Connection(ours.detach())
        self.started += 1
        return self._connection

    def _epitaph(self) -> str:
        assert self._process
        code = self._process.wait(10)
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def stop(self) -> None:
        """End the child, whatever it is doing."""
        if self._connection:
            self._connection.close()
        if self._process:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None


_machines: dict[bool, Machine] = {}
_settings = [Settings()]


def machine(on_host: bool) -> Machine:
    """In the child: the device, opened at the first call, or the host."""
    if on_host not in _machines:
        _machines[on_host] = Host() if on_host else open_device(_settings[0])
    return _machines[on_host]


def gpu() -> Device:
    """In the child: the device. Raises NoDevice where there is none."""
    device = machine(on_host=False)
    assert isinstance(device, Device)
    return device


def describe_device() -> DeviceInfo:
    """In the child: what the device says of itself. Raises NoDevice where there is none."""
    return gpu().info


def run_case(case_id: str, image: Path, operands: Sequence[Array], placement: Placement) -> Outcome:
    """In the child: one launch of a case, by kernels.runner.run."""
    case = find_case(FAMILIES, case_id)
    return run(machine(case.variant.on_host), case, image, operands, placement)


@dataclass(frozen=True)
class Kernel:
    """A compiled build that runs in a worker: what the fixture ``kernel`` gives to a test."""

    worker: Worker
    build: Build
    image: Image

    def run(self, shape: Shape, operands: Sequence[Array], placement: Placement = PLAIN) -> Outcome:
        """Launch once on these operands; ``placement`` says how arrays and blocks are laid out."""
        case = make_case(self.build.family, self.build.variant, self.build.block, shape, self.build.dtype)
        return self.worker.call(run_case, case.id, self.image.path, operands, placement)


def serve(connection: Connection) -> None:
    """Answer calls until the parent hangs up."""
    while True:
        try:
            module, name, args, kwargs = connection.recv()
        except EOFError:
            return
        value, error = None, None
        try:
            value = getattr(importlib.import_module(module), name)(*args, **kwargs)
        except Exception as caught:  # whatever it is, the parent must hear of it
            error = _portable(caught)
        connection.send((value, error))


def _portable(error: Exception) -> Exception:
    """The exception itself if it can travel, with its traceback as a note. PyCUDA's needs a driver to be read."""
    foreign = type(error).__module__.partition(".")[0] == "pycuda"
    with contextlib.suppress(Exception):
        if not foreign and type(pickle.loads(pickle.dumps(error))) is type(error):
            if not isinstance(error, DeviceError | NoDevice | BadCase | CompileError | WrongResult):
                error.add_note(traceback.format_exc())
            return error
    return RuntimeError(traceback.format_exc())


def main() -> None:
    """The child: ``python -m kernels.worker FD SETTINGS``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _settings[0] = Settings(**json.loads(sys.argv[2]))
    serve(Connection(int(sys.argv[1])))
    # Not through the interpreter's own end: PyCUDA aborts there when a context is left.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    # This module again, under the name by which the functions that are called here import it.
    from kernels.worker import main as serve_parent

    serve_parent()
