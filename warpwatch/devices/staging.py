"""Copies large arrays to and from the GPU by way of page-locked memory, which several threads fill and empty.

The driver's own copies go through such memory too, but by a single thread: inputs of the whole list, 37 GB, took 7 s of
two minutes (H100).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.threads import copy_bytes

LARGE_BYTES = 2**25  # of arrays for which threads pay
CHUNK_BYTES = 2**26  # a chunk is filled while the last one is on its way


class Staging:
    """Page-locked memory of two chunks."""

    def __init__(self, driver: Any, stream: Any) -> None:
        self._driver, self._stream = driver, stream
        self._chunks = [(driver.pagelocked_empty(CHUNK_BYTES, np.uint8), driver.Event()) for _ in range(2)]

    def write(self, address: int, array: Array) -> None:
        """Queue the copy of a contiguous array; the array may change once this returns."""
        source = array.reshape(-1).view(np.uint8)
        for number, first in enumerate(range(0, source.size, CHUNK_BYTES)):
            part = source[first : first + CHUNK_BYTES]
            chunk, sent = self._chunks[number % len(self._chunks)]
            sent.synchronize()  # at once, where it was never recorded
            copy_bytes(chunk[: part.size], part)
            self._driver.memcpy_htod_async(address + first, chunk[: part.size], self._stream)
            sent.record(self._stream)

    def read(self, address: int, array: Array) -> None:
        """Copy to a contiguous array, which is complete once this returns."""
        target, chunks = array.reshape(-1).view(np.uint8), len(self._chunks)
        starts = range(0, target.size, CHUNK_BYTES)

        def ask(number: int) -> None:
            chunk, sent = self._chunks[number % chunks]
            first = starts[number]
            self._driver.memcpy_dtoh_async(chunk[: target.size - first], address + first, self._stream)
            sent.record(self._stream)

        for number in range(min(chunks, len(starts))):
            ask(number)
        for number, first in enumerate(starts):
            chunk, sent = self._chunks[number % chunks]
            sent.synchronize()
            part = target[first : first + CHUNK_BYTES]
            copy_bytes(part, chunk[: part.size])
            if number + chunks < len(starts):
                ask(number + chunks)
