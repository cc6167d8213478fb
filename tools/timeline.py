"""Draws when each process of a run does what: ``python -m tools.timeline OUT.svg bench -n 2 --benchmark-compare``.

What follows the picture's name is given to pytest. Each process of pytest has a row for what it does by itself, and
one for what it asks of its kernel process. Prints for each row when it begins to run tests, when it ends, and what it
spends most on. A span of less than a millisecond is not recorded.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from warpwatch.devices.child import Child
from warpwatch.devices.worker import Worker

FOLDER = "WARPWATCH_TIMELINE"  # where each process writes its spans, a file each
SHORTEST = 1e-3  # seconds
SHOWN = 10  # names of a row that have colours of their own


def started() -> float:
    """Return when this process was started, in seconds since the epoch."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    boot = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - boot + ticks / os.sysconf("SC_CLK_TCK")


class Recorder:
    """Writes what one process of pytest does."""

    def __init__(self, folder: Path, process: str) -> None:
        self._process = process
        self._file = (folder / f"{process}-{os.getpid()}.jsonl").open("w", buffering=1)

    def write(self, row: str, name: str, begin: float, end: float) -> None:
        if end - begin >= SHORTEST:
            self._file.write(json.dumps([f"{self._process} {row}".strip(), name, begin, end]) + "\n")

    @contextlib.contextmanager
    def span(self, name: str, row: str = "") -> Iterator[None]:
        begin = time.time()
        try:
            yield
        finally:
            self.write(row, name, begin, time.time())

    def calls(self, owner: type, method: str, name: Callable[..., str]) -> None:
        """Record calls of a method, too, by the name that ``name`` makes of its arguments."""
        whole = getattr(owner, method)

        @functools.wraps(whole)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with self.span(name(*args), "kernels"):
                return whole(*args, **kwargs)

        setattr(owner, method, recorded)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        with self.span("collection"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_finish(self) -> Generator[None, object, object]:
        with self.span("after collection"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        with self.span("test " + item.name.partition("[")[2].partition("-")[0]):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        with self.span("end"):
            return (yield)


def pytest_configure(config: pytest.Config) -> None:
    if FOLDER in os.environ:
        recorder = Recorder(Path(os.environ[FOLDER]), getattr(config, "workerinput", {}).get("workerid", "pytest"))
        recorder.write("", "start", started(), time.time())
        recorder.calls(Worker, "call", lambda worker, function, *_: function.__name__)
        recorder.calls(Worker, "await_spares", lambda *_: "await spares")
        recorder.calls(Child, "await_start", lambda *_: "await start")
        config.pluginmanager.register(recorder)


def draw(spans: list[tuple[str, str, float, float]], picture: Path) -> None:
    """Draw a row for each process, and print what is in it."""
    from matplotlib import patches, pyplot  # noqa: PLC0415  # of the group "pictures"

    rows = sorted({row for row, *_ in spans}, key=lambda row: (not row.startswith("pytest"), row))
    zero = min(begin for _, _, begin, _ in spans)
    seconds = Counter[str]()
    for _, name, begin, end in spans:
        seconds[name] += end - begin  # type: ignore[assignment]  # which are no counts
    colours = {name: f"C{number}" for number, (name, _) in enumerate(seconds.most_common(SHOWN))}
    figure, axes = pyplot.subplots(figsize=(14, 1.5 + 0.4 * len(rows)), layout="constrained")
    for place, row in enumerate(rows):
        own = [(name, begin - zero, end - zero) for other, name, begin, end in spans if other == row]
        for name, begin, end in own:
            axes.barh(place, end - begin, left=begin, height=0.8, color=colours.get(name, "lightgrey"))
        tests = [begin for name, begin, _ in own if name.startswith("test ")]
        most = Counter[str]()
        for name, begin, end in own:
            most[name] += end - begin  # type: ignore[assignment]
        first = f"tests from {min(tests):.1f} s" if tests else ""
        spent = ", ".join(f"{name} {length:.1f}" for name, length in most.most_common(6))
        print(f"{row:16} {first:18} ends at {max(end for *_, end in own):6.1f} s: {spent}")
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("seconds since the first process began")
    handles = [patches.Patch(color=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=handles, loc="outside right upper")
    figure.savefig(picture)


def main(arguments: list[str]) -> int:
    """Run pytest, and draw what its processes did. Returns its exit status."""
    picture, *options = arguments
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-p", "tools.timeline", *options]
        status = subprocess.run(command, env=os.environ | {FOLDER: folder}, check=False).returncode
        draw([json.loads(line) for file in Path(folder).glob("*.jsonl") for line in file.open()], Path(picture))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
