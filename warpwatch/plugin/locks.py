"""Locks of a run: on a GPU, so that one run at a time measures there, and on the machine, for exclusive tests.

The lock of a GPU counts among all users of the machine. It is advisory: programs other than Warpwatch do not ask for
it. The lock of the machine counts within a run of xdist, and compilers share it too: ``machine`` is held while a test
runs, and ``queue`` while a test waits for it, so that no other can start before a test that waits to be exclusive.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from warpwatch.devices.file_lock import open_lock_file, take_lock
from warpwatch.plugin.options import spelled, value_of
from warpwatch.plugin.xdist.processes import hand, handed

WAIT = "gpu-wait"  # our option
LONGEST_NOTE = 200  # bytes of the file that are shown: other users write it
FOLDER = pytest.StashKey[str]()
FOLDER_INPUT = "warpwatch_locks"  # handed to xdist's processes


class GpuBusy(RuntimeError):
    """Raised when another run still measures on the GPU; names that run."""


def hold_gpu(config: pytest.Config, title: str, name: str) -> list[str]:
    """Take the lock of a GPU until pytest ends, by ``take``.

    Returns
    -------
    list of str
        Lines to print at the end of the run: why there is no lock.

    Raises
    ------
    pytest.UsageError
        Another run holds it, for longer than the option says to wait.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    try:
        lock = take(title, name, value_of(config, WAIT), reporter.write_line if reporter else lambda text: None)
    except GpuBusy as busy:
        raise pytest.UsageError(f"{busy}, or give a longer {spelled(config, WAIT)}=SECONDS") from None
    except OSError as error:
        return [f"no lock keeps other runs from {title} meanwhile: {error}"]
    config.add_cleanup(lock.close)
    return []


def take(title: str, name: str, seconds: float, say: Callable[[str], None], folder: Path | None = None) -> ExitStack:
    """Take the lock of a GPU, which lasts until the returned stack is closed or the process ends.

    Parameters
    ----------
    title, name : str
        GPU in words, and name of the lock.
    seconds : float
        Longest time to wait for another run.
    say : callable
        Called once with a line on the run that is waited for.
    folder : Path, optional
        Folder of lock files. By default the system's for temporary files, which all users can write to.

    Raises
    ------
    GpuBusy
        Another run, or another process of this run of xdist, has the lock.
    OSError
        The lock file cannot be opened.
    """
    path = (folder or Path(tempfile.gettempdir())) / f"warpwatch-{name.replace('/', '-')}.lock"
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    descriptor = open_lock_file(path, 0o666)
    with ExitStack() as held:
        held.callback(os.close, descriptor)
        waited = list[str]()

        def wait() -> None:
            holder = _holder(descriptor)
            if run and run in holder:
                raise _busy(title, holder, "give each process of this run a GPU of its own")
            if seconds and not waited:
                waited.append(holder)
                say(f"waiting for {title}, on which {holder} measures (at most {seconds:g} s)")

        if not take_lock(descriptor, seconds=seconds, waiting=wait):
            raise _busy(title, _holder(descriptor), "run this one later")
        text = f"{getpass.getuser()} (process {os.getpid()}, since {time.strftime('%H:%M:%S')}{run and f', run {run}'})"
        _sign(descriptor, text)
        held.callback(_sign, descriptor, "")
        return held.pop_all()


def _busy(title: str, holder: str, cure: str) -> GpuBusy:
    return GpuBusy(f"{holder} measures on {title}, and two runs would time each other: {cure}")


def _sign(descriptor: int, text: str) -> None:
    """Write who holds the lock. It only serves others' messages, so a full disk is no reason to stop."""
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


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of xdist the folder of this run's lock files, which no other user can write to."""
    config: pytest.Config = node.config
    if FOLDER not in config.stash:
        config.stash[FOLDER] = tempfile.mkdtemp(prefix="warpwatch-")
        config.add_cleanup(functools.partial(shutil.rmtree, config.stash[FOLDER], ignore_errors=True))
    hand(node, FOLDER_INPUT, config.stash[FOLDER])


@pytest.fixture(autouse=True)
def _warpwatch_machine_lock(request: pytest.FixtureRequest) -> Generator[None]:
    """Hold the machine lock during a test: shared, or exclusive for a test that is marked ``exclusive``."""
    with ExitStack() as held:
        if is_locked(request.config):
            with ExitStack() as queueing:
                take_lock(_open(request.config, "queue", queueing))
                exclusive = request.node.get_closest_marker("exclusive") is not None
                take_lock(_open(request.config, "machine", held), shared=not exclusive)
        yield


def permit_to_compile(config: pytest.Config) -> ExitStack | None:
    """Take the machine lock, shared, for a compiler; None while a test holds it exclusively or waits for it."""
    with ExitStack() as held, ExitStack() as queueing:
        if is_locked(config):
            queue, machine = _open(config, "queue", queueing), _open(config, "machine", held)
            if not (take_lock(queue, seconds=0) and take_lock(machine, shared=True, seconds=0)):
                return None
        return held.pop_all()


def is_locked(config: pytest.Config) -> bool:
    """Tell whether tests and compilers of this process share a machine lock: those of xdist's processes do."""
    return bool(handed(config, FOLDER_INPUT))


def _open(config: pytest.Config, name: str, until: ExitStack) -> int:
    """Open a lock file of this run until a context ends, and return its descriptor."""
    descriptor = open_lock_file(Path(handed(config, FOLDER_INPUT)) / name)
    until.callback(os.close, descriptor)
    return descriptor
