"""Tells the parent of a worker process what it is waiting for, while a declaration's own Python runs.

A stage is a reference or the drawing of inputs. It may take minutes, and it may never end: the parent says what is
waited for, and ends the process where the stage passes the limit. Where a process has no parent that listens, such as
that of ``warpwatch run``, the stage is named on its standard error.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from warpwatch.devices.transfer import send

PATIENCE = 2.0  # seconds after which a stage is named
_listener: list[Connection] = []
_sending = threading.Lock()
_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a process's work. ``text``: in words. ``limit``: seconds that it may take."""

    text: str
    limit: float
    since: float = field(default_factory=time.monotonic)

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.since


def report_to(connection: Connection) -> None:
    """Name the stages of this process on a connection from now on."""
    _listener[:] = [connection]


def is_heard() -> bool:
    """Tell whether a parent listens."""
    return bool(_listener)


def tell(connection: Connection, head: object, contents: object) -> None:
    """Send a message, which no stage's beginning or end in another thread comes between."""
    with _sending:
        send(connection, head, contents)


@contextlib.contextmanager
def stage(text: str, share: float = 1.0) -> Iterator[None]:
    """Name what runs in the body, such as ``the reference of matmul``, to whoever waits for this process.

    ``share``: of the time that a stage may take.
    """
    if not _listener:
        timer = threading.Timer(PATIENCE, print, [f"waiting for {text}"], {"file": sys.stderr, "flush": True})
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
        return
    number = next(_numbers)
    _name(number, text, share)
    try:
        yield
    finally:
        _name(number, "", share)


def _name(number: int, text: str, share: float) -> None:
    with contextlib.suppress(OSError):  # the parent has ended, which this process sees when it answers
        tell(_listener[0], ("stage", number, text, share), None)
