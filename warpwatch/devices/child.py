"""Starts a worker process and talks to it: what a parent does with one child (warpwatch/devices/worker.py)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from warpwatch.catalogue.project import Project
from warpwatch.catalogue.table import Setting
from warpwatch.devices.compiler import ENGINE
from warpwatch.devices.gpu import Settings
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.transfer import connected_pair, receive, send

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
CLEAN_UP_SECONDS = 0.7  # seconds for a child to remove its temporary files before it is killed
LOOK_SECONDS = 0.002


@dataclass
class Child:
    """A child process. ``questions``: sent to it so far; each answer carries the number of its question."""

    process: subprocess.Popen[bytes]
    connection: Connection
    questions: int = 0


def launch(project: Project | Setting, settings: Settings) -> Child:
    """Start a child that finds the same modules in any working folder; its answer 0 says whether it is ready."""
    ours, theirs = connected_pair()
    root = project.root
    known = os.pathsep.join([str(ENGINE), *filter(os.path.isabs, sys.path)])  # searched after Python's own folders
    command = [sys.executable, "-P", "-c", BOOT, str(theirs.fileno()), json.dumps(asdict(settings)), known]
    command += [str(root), project.module]
    with theirs:
        # A process group of its own, so that the compilers that it calls can be ended with it.
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], env=_environment(root), cwd=root, process_group=0
        )
    return Child(process, Connection(ours.detach()))


def ask(child: Child, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Send a call of ``function``, of a module's top level, to a child. Raises OSError where the child has ended."""
    child.questions += 1
    send(child.connection, (child.questions, function.__module__, function.__qualname__), (args, kwargs))


def answer(child: Child, seconds: float, expected: int | None = None) -> tuple[Any, Exception | None]:
    """Return what a call returned in a child, and the exception that it raised.

    ``expected``: the number of the question, if it is not the last one. Raises DeviceError with ``lost`` where no
    answer comes within ``seconds``, or another one; EOFError or ConnectionError where the child has ended.
    """
    if not child.connection.poll(seconds):
        raise DeviceError(f"no answer within {seconds:g} s; process killed", lost=True)
    message = receive(child.connection)
    number, (value, error) = message.head, message.contents()
    wanted = child.questions if expected is None else expected
    if number != wanted:
        raise DeviceError(
            f"the process in which kernels run gave answer {number} to question {wanted}; process killed", lost=True
        )
    return value, error


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
            child.connection.close()
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
