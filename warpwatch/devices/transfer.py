"""Sends messages between a worker process and its parent: arrays as they lie in memory, everything else pickled.

An array that is pickled with its message is copied four times on its way, and read in pieces that Python joins. Buffers
that are sent beside it (pickle protocol 5, PEP 574) are copied by the system alone.

While a worker process runs a declaration's own Python, which may take minutes or never end, it names that stage to its
parent: a reference, or the drawing of inputs. The parent says what is waited for, and ends the process where the stage
passes its limit. A process without a parent that listens, such as ``warpwatch run``, names it on its standard error.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

BUILD = "the software device, which g++ builds once"  # a stage that is no Python of the declaration
PATIENCE = 2.0  # seconds after which a stage is named
_parents: list[Connection] = []  # where the stages of this process are named
_sending = threading.Lock()
_numbers = itertools.count(1)


def send(connection: Connection, head: object, contents: object) -> None:
    """Send a message. ``head``: of Python's own types. Raises OSError where the other process has ended.

    No message of another thread comes between. Where it is interrupted, a part of the message may have been sent, and
    the connection is of no use any more.
    """
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(contents, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    with _sending:
        connection.send((head, packed, [view.nbytes for view in views]))
        for view in views:
            sent = 0
            while sent < view.nbytes:
                sent += os.write(connection.fileno(), view[sent:])


def receive(connection: Connection) -> tuple[Any, Callable[[], Any]]:
    """Return the head of the next message, and a function that returns its contents, or raises what their classes do.

    Raises EOFError or OSError where the other process has ended.
    """
    head, packed, sizes = connection.recv()
    buffers = [bytearray(size) for size in sizes]
    for buffer in buffers:
        view, there = memoryview(buffer), 0
        while there < view.nbytes:
            count = os.readv(connection.fileno(), [view[there:]])
            if not count:
                raise EOFError
            there += count
    return head, functools.partial(pickle.loads, packed, buffers=buffers)


def serve(connection: Connection, answer: Callable[[Any, Callable[[], Any]], object]) -> None:
    """Say that this process is ready, and answer each question of its parent until that hangs up.

    An answer has the number of its question. The stages of this process are named to the parent meanwhile.
    """
    send(connection, 0, (None, None))
    _parents[:] = [connection]
    while True:
        (number, *question), contents = receive(connection)
        send(connection, number, answer(question, contents))


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


@contextlib.contextmanager
def stage(text: str, share: float = 1.0) -> Iterator[None]:
    """Name what runs in the body, such as ``the reference of matmul``, to whoever waits for this process.

    ``share``: of the time that a stage may take.
    """
    number = next(_numbers)
    timer = threading.Timer(PATIENCE, print, [f"waiting for {text}"], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    if not _parents:
        timer.start()
    try:
        _name(number, text, share)
        yield
    finally:
        timer.cancel()
        _name(number, "", share)


def _name(number: int, text: str, share: float) -> None:
    """Name a stage, or its end by an empty text, to the parent, if there is one."""
    with contextlib.suppress(OSError):  # it has ended, which this process sees when it answers
        for parent in _parents:
            send(parent, (number, text, share), None)
