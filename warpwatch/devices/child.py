"""One child process as its parent sees it: how it is started, asked, waited for and ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from warpwatch.catalogue.project import Project
from warpwatch.catalogue.setting import Setting
from warpwatch.devices.compile.compiler import ENGINE
from warpwatch.devices.foreign_text import Printed
from warpwatch.devices.isolated import FIND_ENGINE, packages
from warpwatch.devices.machine import LATE, DeviceError
from warpwatch.devices.opening import Settings
from warpwatch.devices.transfer import BUILD, PATIENCE, Stage, receive, send

# The first code of the child. It sends a failed import to the parent, because nothing else is loaded that could.
BOOT = """
import contextlib, os, pickle, sys
from multiprocessing.connection import Connection
try:
    sys.path[:] = [path for path in sys.path if not path.endswith(("site-packages", "dist-packages"))]  # in their order
    sys.path += [path for path in sys.argv[3].split(os.pathsep) if path not in sys.path]
    with contextlib.suppress(ImportError):  # in another revision, which asks later
        from warpwatch.devices.gpus import begin_for
        begin_for(sys.argv[2])
    from warpwatch.devices.worker import load, main
    load(sys.argv[2], sys.argv[4], sys.argv[5])
except BaseException as error:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        failure = pickle.dumps((None, f"{type(error).__name__}: {error}"))
        Connection(int(sys.argv[1])).send((0, failure, ()))  # as ``transfer.serve`` does
    sys.exit(1)
main()
"""
RUN_SEED = "WARPWATCH_RUN_SEED"
# What a kernel or a reference prints in a call is printed here after it, its begin and end as plain text: where pytest
# captures what this process prints, it belongs to the test.
MOST_PRINTED, REST = 2**15, "`python -m warpwatch run` of the case prints all of them"
PIPE_BYTES = 2**16  # that the system keeps
CLEAN_UP_SECONDS = 0.7  # seconds for a child to remove its temporary files before it is killed
LOOK_SECONDS = 0.002
# The system copies this much between two switches to the other process: 8 MB pass at 4.4 GB/s with it, and at 2.2
# without.
SOCKET_BYTES = 2**20


@dataclass
class Child:
    """A child process, as its parent sees it.

    ``printed``: what it has printed on stdout and on stderr, by the file descriptor that this is read from.
    ``stage_seconds``: what a stage of the declaration's Python may take. ``waiting``: is called each second with the
    stage that an answer is waited for. ``opened``: whether it has opened the device, None where it has not been asked
    to. ``questions``: how many were asked. ``stages``: those that run, by number.
    """

    process: subprocess.Popen[bytes]
    connection: Connection
    printed: dict[int, tuple[str, Printed]]
    stage_seconds: float
    waiting: Callable[[Stage], object] = lambda stage: None
    opened: bool | None = None
    questions: int = 0
    stages: dict[int, Stage] = field(default_factory=dict)

    def ask(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Send a call of ``function``, of a module's top level. Raises OSError where the child has ended."""
        self.questions += 1
        send(self.connection, (self.questions, function.__module__, function.__qualname__), (args, kwargs))

    def begin(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Ask for what opens the device, without waiting for it; ``has_opened`` does, and sees whether it has ended."""
        self.opened = False
        with contextlib.suppress(OSError):
            self.ask(function, *args, **kwargs)

    def has_opened(self, seconds: float) -> bool:
        """Wait until the device is open, and return whether it could be opened. Raises as ``await_start``."""
        self.await_start(seconds)
        self.opened = self.answer(seconds)[1] is None
        return self.opened

    def answer(self, seconds: float, question: int | None = None) -> tuple[Any, Exception | None]:
        """Return what a call returned in the child, and the exception that it raised.

        ``question``: its number, if it is not the last one. Raises DeviceError with ``lost`` where no answer comes
        within ``seconds``, or that to another question, as where the declaration's Python forks and both processes
        answer; EOFError or ConnectionError where the child has ended.
        """
        wanted = self.questions if question is None else question
        try:
            number, contents = self._await_answer(seconds)
            value, error = contents()
        finally:
            for descriptor, (name, printed) in self.printed.items():
                self._read(descriptor)
                if text := printed.take():
                    print(text, end="", file=getattr(sys, name), flush=True)
        if number != wanted:
            answered = f"the process in which kernels run gave answer {number} to question {wanted}"
            raise DeviceError(f"{answered}; process killed", lost=True)
        return value, error

    def await_start(self, seconds: float) -> None:
        """Wait until the child is ready. Raises DeviceError where it does not start, otherwise as ``answer``."""
        _, failure = self.answer(seconds, question=0)
        if failure:
            raise DeviceError(f"the process in which kernels run does not start: {failure}", lost=True)

    def death(self) -> str:
        """Say of what a child died that has closed its connection: in what of the declaration's Python, if in any."""
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:  # it closed the connection and still runs
            code = -signal.SIGKILL
        reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        if (stage := self._oldest) and stage.text != BUILD:
            return f"{stage.text} ended the process in which it ran ({reason}): let it return its results, or raise"
        return f"the process in which kernels run died: {reason}"

    @property
    def _oldest(self) -> Stage | None:
        """The stage that began first of those that have not ended, or None."""
        return min(self.stages.values(), key=lambda stage: stage.since, default=None)

    def _await_answer(self, seconds: float) -> tuple[int, Callable[[], Any]]:
        """Return the number of the next answer, and what unpacks it.

        The time of stages does not count; each has its own limit.
        """
        latest = time.monotonic() + seconds
        while True:
            begin, stage = time.monotonic(), self._oldest
            if self._has_message(1.0 if stage else max(0.0, latest - begin)):
                head, contents = receive(self.connection)
                if isinstance(head, int):
                    return head, contents
                number, text, share = head
                self.stages.pop(number, None)
                if text:
                    self.stages[number] = Stage(text=text, limit=share * self.stage_seconds)
            elif stage is None:
                raise DeviceError(f"no answer within {seconds:g} s; process killed", lost=LATE)
            if stage is None:
                continue
            latest += time.monotonic() - begin
            if stage.age > stage.limit:
                cure = "let it end, or allow more with --reference-timeout SECONDS"
                late = f"{stage.text} did not end within {stage.limit:g} s"
                raise DeviceError(f"{late}; process killed: {cure}", lost=LATE)
            if self._oldest is stage and stage.age >= PATIENCE:
                self.waiting(stage)

    def _has_message(self, seconds: float) -> bool:
        """Wait for a message while the child prints; return whether one came within this time."""
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

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child and the processes that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        """Hang up."""
        self.connection.close()
        while self.printed:
            os.close(self.printed.popitem()[0])


def launch(project: Project | Setting, settings: Settings, boot: str = BOOT, under: Sequence[str] = ()) -> Child:
    """Start a child that finds the same modules in any working folder; its first answer says whether it is ready.

    ``boot``: its first code. ``under``: a program that starts it, with options.
    """
    ours, theirs = pair = socket.socketpair()
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)  # or what the system allows
    root, apart = project.root, settings.untrusted
    # Searched after Python's own folders.
    known = os.pathsep.join(packages() if apart else [str(ENGINE), *filter(os.path.isabs, sys.path)])
    command = [*under, sys.executable, *(["-I", "-c", FIND_ENGINE + boot] if apart else ["-P", "-c", boot])]
    told = json.dumps(asdict(replace(settings, run_seed=None)))  # every process can read this command line
    command += [str(theirs.fileno()), told, known, str(root), project.module]
    # Processes that are kept apart cannot read another one's environment.
    seed = {} if settings.run_seed is None else {RUN_SEED: str(settings.run_seed)}
    out, err = os.pipe(), os.pipe()
    with theirs, open(out[1], "wb") as stdout, open(err[1], "wb") as stderr:
        # A process group of its own, so that the compilers that it calls can be ended with it.
        process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=_environment(None if apart else root) | seed,
            cwd=root,
            process_group=0,
            stdout=stdout,
            stderr=stderr,
        )
    printed = {number: (name, Printed(MOST_PRINTED, REST)) for name, (number, _) in (("stdout", out), ("stderr", err))}
    for number in printed:
        os.set_blocking(number, False)
    return Child(process, Connection(ours.detach()), printed, settings.reference_timeout)


@contextlib.contextmanager
def ending(*children: Child) -> Iterator[None]:
    """End children and the processes that they have started, whatever they are doing, all at the same time.

    The body runs while they end, which takes 0.05 to 0.3 s where they hold a GPU.
    """
    latest = time.monotonic() + CLEAN_UP_SECONDS
    try:
        for child in children:
            child.close()
            child.signal(signal.SIGTERM)
        yield
        while any(child.process.poll() is None for child in children) and time.monotonic() < latest:
            time.sleep(LOOK_SECONDS)  # ``Popen.wait`` looks every 0.05 s alone
    finally:
        for child in children:
            child.signal(signal.SIGKILL)
            child.process.wait()


def _environment(root: Path | None) -> dict[str, str]:
    """Return the environment for a child: modules are found in ``root``, if in any, and all paths are absolute."""
    environment = dict(os.environ)
    for name in ("WARPWATCH_CACHE", "XDG_CACHE_HOME"):
        if environment.get(name):
            environment[name] = str(Path(environment[name]).absolute())
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join([*([str(root)] if root else []), *filter(os.path.isabs, given)])
    # By default NumPy's idle threads spin for a while on the cores that compilers need; here they sleep.
    environment.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    return environment
