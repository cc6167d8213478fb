"""Runs programs in process groups of their own, and ends them with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from warpwatch.catalogue.leaving import Ended
from warpwatch.devices.foreign_text import plain

INTERRUPTED = 130  # the exit status of what Ctrl-C ends
ENDING = (signal.SIGTERM, signal.SIGHUP)  # a program in a process group of its own would outlive these
SECONDS_TO_END = 2.0  # pytest ends its compilers and its worker process, which are groups of their own


def start(command: Sequence[str], folder: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program in a process group of its own, without input; what it prints goes to ``output``.

    Where this program is asked to end meanwhile, the other one is killed first: nobody would know of it.
    """
    with _held() as asked:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    if asked:
        kill(process)
        signal.raise_signal(asked[0])
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a program's group, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Child:
    """A program that runs in the folder ``folder``, without input; what it prints is kept."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # end() closes it
        try:
            self._process = start(command, folder, self._output)
        except BaseException:
            self._output.close()
            raise

    def wait(self, seconds: float) -> bool:
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

    def end(self) -> None:
        """End it, as a scheduler would, and kill what is left of its group soon after."""
        try:
            with contextlib.suppress(ProcessLookupError):
                if self._process.poll() is None:
                    self._process.terminate()
                    self.wait(SECONDS_TO_END)
        finally:
            kill(self._process)
            self._output.close()


@contextlib.contextmanager
def _held() -> Iterator[list[int]]:
    """Put off signals that end this program, so that a program that is being started is known before; yields them."""
    asked: list[int] = []
    heeded = [n for n in (signal.SIGINT, *ENDING) if signal.getsignal(n) not in (None, signal.SIG_IGN)]
    earlier = {number: signal.signal(number, lambda n, _: asked.append(n)) for number in heeded}
    try:
        yield asked
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Leave by Ended where another program ends this one, so that what is under way is ended too."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise Ended(128 + number)

    earlier = {number: signal.signal(number, leave) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
