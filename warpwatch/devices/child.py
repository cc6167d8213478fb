"""Starts a worker process and talks to it: what a parent does with one child (warpwatch/devices/worker.py)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from warpwatch.catalogue.project import Project
from warpwatch.catalogue.table import Setting
from warpwatch.devices.compile.compiler import ENGINE
from warpwatch.devices.foreign_text import Printed
from warpwatch.devices.gpu import Settings
from warpwatch.devices.machine import LATE, DeviceError
from warpwatch.devices.stages import PATIENCE, Stage
from warpwatch.devices.transfer import Message, connected_pair, receive, send

# The first code of the child. It sends a failed import to the parent, because nothing else is loaded that could.
BOOT = """
import contextlib, os, pickle, sys
from multiprocessing.connection import Connection
try:
    sys.path += [path for path in sys.argv[3].split(os.pathsep) if path not in sys.path]
    with contextlib.suppress(ImportError):  # in another revision, which asks later
        from warpwatch.devices.ask_driver import begin_for
        begin_for(sys.argv[2])
    from warpwatch.devices.worker import load, main
    load(sys.argv[2], sys.argv[4], sys.argv[5])
except BaseException as error:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        failure = pickle.dumps((None, f"{type(error).__name__}: {error}"))
        Connection(int(sys.argv[1])).send((0, failure, ()))  # as ``transfer.send`` does
    sys.exit(1)
main()
"""
# What a kernel or a reference prints in a call is printed here after it, its begin and end as plain text: where pytest
# captures what this process prints, it belongs to the test.
MOST_PRINTED, REST = 2**15, "`python -m warpwatch run` of the case prints all of them"
PIPE_BYTES = 2**16  # that the system keeps
CLEAN_UP_SECONDS = 0.7  # seconds for a child to remove its temporary files before it is killed
LOOK_SECONDS = 0.002


@dataclass
class Child:
    """A child process. ``questions``: sent to it so far; each answer carries the number of its question.

    ``printed``: what it has printed on stdout and on stderr, by the file descriptor that this is read from.
    ``stages``: those of the declaration's Python that run, by number. ``stage_seconds``: what each may take.
    ``waiting``: is told each second for which stage an answer is waited for.
    """

    process: subprocess.Popen[bytes]
    connection: Connection
    printed: dict[int, tuple[str, Printed]]
    questions: int = 0
    stages: dict[int, Stage] = field(default_factory=dict)
    stage_seconds: float = 300.0
    waiting: Callable[[Stage], object] = lambda stage: None

    @property
    def oldest(self) -> Stage | None:
        """The stage that began first of those that have not ended, or None."""
        return min(self.stages.values(), key=lambda stage: stage.since, default=None)

    def await_answer(self, seconds: float) -> bool:
        """Wait for an answer while the child prints; tells whether one came within this time."""
        ready, latest = select.poll(), time.monotonic() + seconds
        for number in (self.connection.fileno(), *self.printed):
            ready.register(number, select.POLLIN)
        while (left := latest - time.monotonic()) > 0:
            numbers = [number for number, _ in ready.poll(1000 * left)]
            for number in numbers:
                if number in self.printed and not self._read(number):
                    ready.unregister(number)  # the child has closed it
            if self.connection.fileno() in numbers:
                return True
        return False

    def _read(self, number: int) -> bytes:
        """Keep what the child has printed, as much as a pipe holds; empty where nothing is printed there any more."""
        try:
            part = os.read(number, PIPE_BYTES)
        except BlockingIOError:
            return b"."
        self.printed[number][1].add(part)
        return part

    def show_printed(self) -> None:
        """Print what the child has printed."""
        for number, (name, printed) in self.printed.items():
            self._read(number)
            if text := printed.take():
                print(text, end="", file=getattr(sys, name), flush=True)

    def close(self) -> None:
        """Hang up."""
        self.connection.close()
        while self.printed:
            os.close(self.printed.popitem()[0])


def launch(project: Project | Setting, settings: Settings) -> Child:
    """Start a child that finds the same modules in any working folder; its answer 0 says whether it is ready."""
    ours, theirs = connected_pair()
    root = project.root
    known = os.pathsep.join([str(ENGINE), *filter(os.path.isabs, sys.path)])  # searched after Python's own folders
    command = [sys.executable, "-P", "-c", BOOT, str(theirs.fileno()), json.dumps(asdict(settings)), known]
    command += [str(root), project.module]
    out, err = os.pipe(), os.pipe()
    with theirs, open(out[1], "wb") as stdout, open(err[1], "wb") as stderr:
        # A process group of its own, so that the compilers that it calls can be ended with it.
        process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=_environment(root),
            cwd=root,
            process_group=0,
            stdout=stdout,
            stderr=stderr,
        )
    printed = {number: (name, Printed(MOST_PRINTED, REST)) for name, (number, _) in (("stdout", out), ("stderr", err))}
    for number in printed:
        os.set_blocking(number, False)
    return Child(process, Connection(ours.detach()), printed, stage_seconds=settings.reference_timeout)


def ask(child: Child, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Send a call of ``function``, of a module's top level, to a child. Raises OSError where the child has ended."""
    child.questions += 1
    send(child.connection, (child.questions, function.__module__, function.__qualname__), (args, kwargs))


def answer(child: Child, seconds: float, expected: int | None = None) -> tuple[Any, Exception | None]:
    """Return what a call returned in a child, and the exception that it raised.

    ``expected``: the number of the question, if it is not the last one. Raises DeviceError with ``lost`` where no
    answer comes within ``seconds``, or another one; EOFError or ConnectionError where the child has ended.
    """
    try:
        message = _await_answer(child, seconds)
    finally:
        child.show_printed()
    number, (value, error) = message.head, message.contents()
    wanted = child.questions if expected is None else expected
    if number != wanted:
        raise DeviceError(
            f"the process in which kernels run gave answer {number} to question {wanted}; process killed", lost=True
        )
    return value, error


def _await_answer(child: Child, seconds: float) -> Message:
    """Return the next message that is no stage's. The time of stages does not count; each has a limit of its own."""
    latest = time.monotonic() + seconds
    while True:
        begin, stage = time.monotonic(), child.oldest
        if child.await_answer(1.0 if stage else max(0.0, latest - begin)):
            message = receive(child.connection)
            if not isinstance(message.head, tuple):
                return message
            _, number, text, share = message.head
            child.stages.pop(number, None)
            if text:
                child.stages[number] = Stage(text=text, limit=share * child.stage_seconds)
        elif stage is None:
            raise DeviceError(f"no answer within {seconds:g} s; process killed", lost=LATE)
        if stage is None:
            continue
        latest += time.monotonic() - begin
        if stage.age > stage.limit:
            cure = "let it end, or allow more with --reference-timeout SECONDS"
            late = f"{stage.text} did not end within {stage.limit:g} s"
            raise DeviceError(f"{late}; process killed: {cure}", lost=LATE)
        if child.oldest is stage and stage.age >= PATIENCE:
            child.waiting(stage)


def await_start(child: Child, seconds: float) -> None:
    """Wait until a child is ready. Raises DeviceError where it does not start, otherwise as ``answer``."""
    _, failure = answer(child, seconds, 0)
    if failure:
        raise DeviceError(f"the process in which kernels run does not start: {failure}", lost=True)


def exit_reason(child: Child) -> str:
    """Return the signal or exit status with which a child ended that has closed its connection."""
    try:
        code = child.process.wait(10)
    except subprocess.TimeoutExpired:  # it closed the connection and still runs
        code = -signal.SIGKILL
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def end(*children: Child) -> None:
    """End children and the processes that they have started, whatever they are doing, all at the same time."""
    with ending(*children):
        pass


@contextlib.contextmanager
def ending(*children: Child) -> Iterator[None]:
    """End children as ``end`` does; the body runs while they end, which takes 0.05 to 0.3 s where they hold a GPU."""
    latest = time.monotonic() + CLEAN_UP_SECONDS
    try:
        for child in children:
            child.close()
            _signal_group(child.process, signal.SIGTERM)
        yield
        for child in children:
            _await_end(child.process, latest)
    finally:
        for child in children:
            _signal_group(child.process, signal.SIGKILL)
            child.process.wait()


def _await_end(process: subprocess.Popen[bytes], latest: float) -> None:
    """Wait until a process has ended or this time is reached. ``Popen.wait`` looks every 0.05 s alone."""
    while process.poll() is None and time.monotonic() < latest:
        time.sleep(LOOK_SECONDS)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _environment(root: Path) -> dict[str, str]:
    """Return the environment for a child: modules are found in ``root``, and all paths are absolute."""
    environment = dict(os.environ)
    for name in ("WARPWATCH_CACHE", "XDG_CACHE_HOME"):
        if environment.get(name):
            environment[name] = str(Path(environment[name]).absolute())
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join([str(root), *filter(os.path.isabs, given)])
    # By default NumPy's idle threads spin for a while on the cores that compilers need; here they sleep.
    environment.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    return environment
