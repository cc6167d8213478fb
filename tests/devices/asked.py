"""Functions that tests have a worker process run."""

from __future__ import annotations

import ctypes
import os
import signal


def add(a: int, b: int) -> int:
    return a + b


def process_id() -> int:
    return os.getpid()


def ignore_sigterm() -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return os.getpid()


def die() -> None:
    os._exit(1)


def die_with_words() -> None:
    os.write(2, b"the last words\n")
    os.abort()


def print_by_c() -> None:
    ctypes.CDLL(None).printf(b"by C\n")
