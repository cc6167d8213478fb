"""Spreads work on pieces of NumPy arrays over the cores: NumPy releases the interpreter's lock while it computes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from warpwatch.catalogue.arrays import Array

PIECE_BYTES = 2**24  # that one thread copies at a time

_T = TypeVar("_T")
_R = TypeVar("_R")


def for_each(function: Callable[[_T], _R], pieces: Iterable[_T]) -> list[_R]:
    """Call a function for each piece, in threads where there are several, and return what it returns, in order."""
    pieces = list(pieces)
    if len(pieces) < 2:  # to start threads takes longer than a small piece
        return list(map(function, pieces))
    with ThreadPoolExecutor(min(len(pieces), len(os.sched_getaffinity(0)))) as pool:
        return list(pool.map(function, pieces))


def copy_bytes(to: Array, source: Array) -> None:
    """Copy an array of bytes, a large one in pieces by several threads."""

    def copy_piece(first: int) -> None:
        to[first : first + PIECE_BYTES] = source[first : first + PIECE_BYTES]

    for_each(copy_piece, range(0, source.size, PIECE_BYTES))
