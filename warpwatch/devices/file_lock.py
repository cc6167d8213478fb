"""Locks on files among processes, with a limit on the time to wait.

A lock belongs to an open descriptor: it ends when that is closed, and when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

SECONDS_TO_ASK = 0.2  # between two requests for a lock


def open_lock_file(path: Path, mode: int = 0o600) -> int:
    """Open a lock file, and create it with these permissions if it is missing; return its descriptor.

    Raises OSError where it cannot be opened, or is a symbolic link.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Without O_CREAT, with which Linux refuses another user's file in a folder that all users can write to.
        return os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, mode)
        with contextlib.suppress(PermissionError):  # another user was quicker
            os.fchmod(descriptor, mode)  # whatever the umask is
        return descriptor


def take_lock(
    descriptor: int,
    *,
    shared: bool = False,
    seconds: float = math.inf,
    waiting: Callable[[], object] | None = None,
) -> bool:
    """Lock an open file or folder, and return whether that succeeded within ``seconds``.

    Parameters
    ----------
    shared : bool
        Others may hold the lock too, if theirs is shared.
    seconds : float
        How long to wait for others; 0 asks once.
    waiting : callable, optional
        Called after each refusal; what it raises ends the waiting.

    Raises
    ------
    OSError
        The file system has no locks.
    """
    kind, end = fcntl.LOCK_SH if shared else fcntl.LOCK_EX, time.monotonic() + seconds
    if seconds == math.inf and not waiting:
        fcntl.flock(descriptor, kind)
        return True
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                waiting()
            if time.monotonic() >= end:
                return False
            time.sleep(SECONDS_TO_ASK)
        else:
            return True
