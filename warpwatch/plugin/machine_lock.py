"""Lets tests of an xdist run share the machine, but for those marked ``exclusive``, and compilers beside them.

Two lock files in a private folder: whoever waits at the entrance for an empty machine keeps others from filling it
again; who holds the machine's own lock runs.
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
    """Tell a worker process of xdist's where the locks of this run are: in a folder that nobody else can write to."""
    config: pytest.Config = node.config
    if FOLDER not in config.stash:
        config.stash[FOLDER] = tempfile.mkdtemp(prefix="warpwatch-")
        config.add_cleanup(functools.partial(shutil.rmtree, config.stash[FOLDER], ignore_errors=True))
    node.workerinput[FOLDER_INPUT] = config.stash[FOLDER]


@pytest.fixture(autouse=True)
def _machine_lock(request: pytest.FixtureRequest) -> Generator[None]:
    """Share the machine with the other tests of an xdist run, or have it alone for a test that is marked so."""
    folder = _folder(request.config)
    if not folder:
        yield
        return
    with lock_file(folder / "entrance") as entrance, lock_file(folder / "machine") as machine:
        fcntl.flock(entrance, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if request.node.get_closest_marker("exclusive") else fcntl.LOCK_SH)
        fcntl.flock(entrance, fcntl.LOCK_UN)
        yield


def permit_to_compile(config: pytest.Config) -> AbstractContextManager[object] | None:
    """A share of the machine for a compiler, as a test has it; None while a test is alone there, or waits to be."""
    folder = _folder(config)
    if not folder:
        return contextlib.nullcontext()
    with contextlib.ExitStack() as held, lock_file(folder / "entrance") as entrance:
        machine = held.enter_context(lock_file(folder / "machine"))
        try:
            fcntl.flock(entrance, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(machine, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return held.pop_all()


def _folder(config: pytest.Config) -> Path | None:
    """The folder of the lock files in a worker process of xdist's; None elsewhere."""
    folder = getattr(config, "workerinput", {}).get(FOLDER_INPUT)
    return Path(folder) if folder else None


def lock_file(path: Path) -> IO[bytes]:
    """Open a lock file, which is made if need be. Raises OSError where a symbolic link is in its place."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
