"""Runs programs in process groups of their own, pytest above all, and ends them with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn, Self

from warpwatch.catalogue.leaving import Ended
from warpwatch.devices.foreign_text import plain
from warpwatch.runs.record import BadRun, RunRecord, read_run

ENDING = (signal.SIGTERM, signal.SIGHUP)  # a program in a process group of its own would outlive these
SECONDS_TO_END = 2.0  # pytest ends its compilers and its worker process, which are groups of their own


class Program:
    """A module of Python that runs as a program, in a process group of its own and without input.

    A context manager: at its end, the program and all that it started have ended.
    """

    def __init__(self, words: Sequence[str], folder: Path, output: IO[bytes] | None = None) -> None:
        """Start ``python -m`` with these words. ``output``: takes what it prints; None: a file, for ``lines``."""
        self._output = output or tempfile.TemporaryFile()  # noqa: SIM115  # __exit__ closes it
        asked: list[int] = []  # to end, while it is not known yet which program is to be ended first
        heeded = [n for n in (signal.SIGINT, *ENDING) if signal.getsignal(n) not in (None, signal.SIG_IGN)]
        try:
            with _handled(heeded, lambda number, frame: asked.append(number)):
                self._process = subprocess.Popen(
                    [sys.executable, "-m", *words],
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                )
        except BaseException:
            self._output.close()
            raise
        if asked:
            self._kill()
            signal.raise_signal(asked[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, as a scheduler would, and kill what is left of its group soon after."""
        try:
            if not self.wait(0):
                self._process.terminate()
                self.wait(SECONDS_TO_END)
        finally:
            self._kill()

    def _kill(self) -> None:
        """Kill what is left of its group, and wait for its end."""
        with contextlib.suppress(ProcessLookupError):  # nobody is left
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._output.close()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, at most for a time; tells whether it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll() is not None

    @property
    def status(self) -> int | None:
        """Exit status, or None while it runs."""
        return self._process.poll()

    def lines(self) -> list[str]:
        """Return what it has printed so far, as plain lines, without empty ones."""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").splitlines()
        return [plain(line) for line in lines if line.strip()]


def pytest_words(arguments: Sequence[str], record: Path) -> list[str]:
    """Return the words that run pytest and have it write its record, also where the plugin is not installed."""
    return ["pytest", "-p", "warpwatch.plugin", *arguments, f"--warpwatch-record={record}"]


def record_of(path: Path) -> RunRecord | None:
    """Read the record of a run of pytest; None where the run ended before it wrote one."""
    try:
        return read_run(path, tolerant=True)
    except BadRun:
        return None


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Leave by Ended where another program ends this one, so that what is under way is ended too."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise Ended(128 + number)

    with _handled(ENDING, leave):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[int], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Have signals handled in another way for a while."""
    earlier = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in earlier.items():
            signal.signal(number, before)
