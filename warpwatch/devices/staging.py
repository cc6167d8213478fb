"""Copies large arrays to the GPU by way of page-locked memory, which several threads fill.

The driver's own copy from ordinary memory goes through such memory too, but a single thread fills it: inputs of the
whole list, 37 GB, took 7 s of two minutes (H100).
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
