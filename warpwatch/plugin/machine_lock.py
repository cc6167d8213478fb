"""Locks the machine for the tests of an xdist run: shared by most, exclusive for tests marked ``exclusive``.

Compilers share it too. There are two lock files in a private folder. ``machine`` is held while a test runs. ``queue``
is held while a test waits for ``machine``, so that no other can start before a test that waits to be exclusive.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import pytest

FOLDER = pytest.StashKey[str]()
FOLDER_INPUT = "warpwatch_locks"  # in the input of xdist's worker processes


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker process of xdist the folder of this run's lock files, which no other user can write to."""
    config: pytest.Config = node.config
    if FOLDER not in config.stash:
        config.stash[FOLDER] = tempfile.mkdtemp(prefix="warpwatch-")
        config.add_cleanup(functools.partial(shutil.rmtree, config.stash[FOLDER], ignore_errors=True))
    node.workerinput[FOLDER_INPUT] = config.stash[FOLDER]


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
    folder = getattr(config, "workerinput", {}).get(FOLDER_INPUT)
    return Path(folder) if folder else None


def lock_file(path: Path) -> IO[bytes]:
    """Open a lock file, and create it if it is missing. Raises OSError where it is a symbolic link."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
