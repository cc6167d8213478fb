"""Lets one run at a time measure on a GPU, over all users of the machine, by a lock file for each GPU.

The lock is advisory: programs other than Warpwatch do not ask for it. The operating system releases it when the process
that holds it ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import getpass
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from warpwatch.plugin.options import spelled, value_of
from warpwatch.plugin.xdist.processes import hand, handed

WAIT = "gpu-wait"  # our option
SECONDS_TO_ASK = 0.2  # between two requests for the lock
LONGEST_NOTE = 200  # bytes of the file that are shown: other users write it


class GpuBusy(RuntimeError):
    """Says that another run still measures on the GPU, and which."""


@dataclass(frozen=True, kw_only=True)
class GpuLock:
    """A GPU that this process alone measures on, until ``release`` or the end of the process."""

    descriptor: int

    def release(self) -> None:
        """Let another run measure."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)


def hold_during(config: pytest.Config, uuid: str) -> list[str]:
    """Take the lock of a GPU until pytest ends. Returns lines to print at its end; raises UsageError."""
    return _hold(config, f"GPU {uuid}", uuid)


def hold_for_several(config: pytest.Config) -> list[str]:
    """Let one run on several GPUs at a time start on this machine, as ``hold_during``.

    Two of them that each hold one GPU and want the other's would wait for one another.
    """
    return _hold(config, "several GPUs", "several-gpus")


def _hold(config: pytest.Config, what: str, name: str) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    try:
        lock = take(what, name, value_of(config, WAIT), reporter.write_line if reporter else lambda text: None)
    except GpuBusy as busy:
        raise pytest.UsageError(f"{busy}, or give a longer {spelled(config, WAIT)}=SECONDS") from None
    except OSError as error:
        return [f"no lock keeps other runs from {what} meanwhile: {error}"]
    config.add_cleanup(lock.release)
    return []


def take(what: str, name: str, seconds: float, say: Callable[[str], None], folder: Path | None = None) -> GpuLock:
    """Take the lock of a GPU, or wait for it at most ``seconds``.

    ``what`` is locked, in words; ``name``: the lock's own. ``say`` is told once whom this run waits for. ``folder``:
    where lock files are, if not the system's folder for temporary files, which all users can write to. Raises GpuBusy
    where the time is over, or another process of the same run of xdist has the lock; OSError where the lock file cannot
    be opened.
    """
    path = (folder or Path(tempfile.gettempdir())) / f"warpwatch-{name.replace('/', '-')}.lock"
    descriptor, end, told = _open(path), time.monotonic() + seconds, False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            if why := _why_not_to_wait(holder, time.monotonic() >= end):
                os.close(descriptor)
                raise GpuBusy(f"{holder} measures on {what}, and two runs would time each other: {why}") from None
            if not told:
                say(f"waiting for {what}, on which {holder} measures (at most {seconds:g} s)")
            told = True
            time.sleep(SECONDS_TO_ASK)
        else:
            _sign(descriptor)
            return GpuLock(descriptor=descriptor)


def _why_not_to_wait(holder: str, is_over: bool) -> str:
    """Say what to do where waiting ends, or would never end; empty where it goes on."""
    if _run() and _run() in holder:
        return "give each process of this run a GPU of its own"
    return "run this one later" if is_over else ""


def _run() -> str:
    """Return the name of the run of xdist that this process belongs to; empty where there is none."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID", "")


def _open(path: Path) -> int:
    """Open a lock file that every user may open, and create it if it is missing. A symbolic link is refused."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)  # without O_CREAT, with which Linux refuses another user's file in such a folder
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(PermissionError):  # another user was quicker
            os.fchmod(descriptor, 0o666)  # whatever the umask is
        return descriptor


def _sign(descriptor: int) -> None:
    """Write who holds the lock. It only serves others' messages, so a full disk is no reason to stop."""
    run = f", run {_run()}" if _run() else ""
    text = f"{getpass.getuser()} (process {os.getpid()}, since {time.strftime('%H:%M:%S')}{run})"
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def _holder(descriptor: int) -> str:
    """Return who holds the lock, as the holder has written it."""
    with contextlib.suppress(OSError):
        text = os.pread(descriptor, LONGEST_NOTE, 0).decode(errors="replace")
        if shown := "".join(letter for letter in text if letter.isprintable()):
            return shown
    return "another run"


FOLDER = pytest.StashKey[str]()
FOLDER_INPUT = "warpwatch_locks"  # in the input of xdist's worker processes


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker process of xdist the folder of this run's lock files, which no other user can write to."""
    config: pytest.Config = node.config
    if FOLDER not in config.stash:
        config.stash[FOLDER] = tempfile.mkdtemp(prefix="warpwatch-")
        config.add_cleanup(functools.partial(shutil.rmtree, config.stash[FOLDER], ignore_errors=True))
    hand(node, FOLDER_INPUT, config.stash[FOLDER])


@pytest.fixture(autouse=True)
def _warpwatch_machine_lock(request: pytest.FixtureRequest) -> Generator[None]:
    """Hold the machine lock during a test: shared, or exclusive for a test that is marked ``exclusive``."""
    folder = _folder(request.config)
    if not folder:
        yield
        return
    with lock_file(folder / "queue") as queue, lock_file(folder / "machine") as machine:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if request.node.get_closest_marker("exclusive") else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


def permit_to_compile(config: pytest.Config) -> AbstractContextManager[object] | None:
    """Take the machine lock, shared, for a compiler; None while a test holds it exclusively or waits for it."""
    folder = _folder(config)
    if not folder:
        return contextlib.nullcontext()
    with contextlib.ExitStack() as held, lock_file(folder / "queue") as queue:
        machine = held.enter_context(lock_file(folder / "machine"))
        try:
            fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(machine, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return held.pop_all()


def is_locked(config: pytest.Config) -> bool:
    """Tell whether tests and compilers of this process share a machine lock: those of xdist's processes do."""
    return _folder(config) is not None


def _folder(config: pytest.Config) -> Path | None:
    """Return the folder of the lock files in a worker process of xdist; None in other processes."""
    folder = handed(config, FOLDER_INPUT)
    return Path(folder) if folder else None


def lock_file(path: Path) -> IO[bytes]:
    """Open a lock file, and create it if it is missing. Raises OSError where it is a symbolic link."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
