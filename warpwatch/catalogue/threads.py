"""Spreads work on pieces of NumPy arrays over the cores: NumPy releases the interpreter's lock while it computes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def for_each(function: Callable[[_T], _R], pieces: Iterable[_T]) -> list[_R]:
    """Call a function for each piece, in threads where there are several, and return what it returns, in order."""
    pieces = list(pieces)
    if len(pieces) < 2:  # to start threads takes longer than a small piece
        return list(map(function, pieces))
    with ThreadPoolExecutor(min(len(pieces), len(os.sched_getaffinity(0)))) as pool:
        return list(pool.map(function, pieces))
