"""Tests of devices/staging.py beside a stream that copies as late as it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from warpwatch.devices import staging
from warpwatch.devices.staging import Staging

CHUNK = 4096


class Late:
    """A driver and a stream: what is queued happens when something waits for it."""

    def __init__(self) -> None:
        self.memory = np.zeros(6 * CHUNK, np.uint8)
        self.queue: list[Callable[[], None]] = []
        self.done = 0  # so many copies have happened

    def pagelocked_empty(self, size: int, dtype: Any) -> Any:
        return np.empty(size, dtype)

    def Event(self) -> Sent:  # noqa: N802 (the driver's name)
        return Sent(self)

    def memcpy_htod_async(self, address: int, array: Any, stream: Late) -> None:
        stream.queue.append(lambda: self.memory.__setitem__(slice(address, address + array.nbytes), array))

    def memcpy_dtoh_async(self, array: Any, address: int, stream: Late) -> None:
        stream.queue.append(lambda: array.__setitem__(slice(None), self.memory[address : address + array.nbytes]))

    def finish(self, count: int | None = None) -> None:
        ready = self.queue[:count]
        self.queue = self.queue[len(ready) :]
        self.done += len(ready)
        for copy in ready:
            copy()


class Sent:
    """An event: it waits for what was queued before it was recorded."""

    def __init__(self, late: Late) -> None:
        self.late, self.after = late, 0

    def record(self, stream: Late) -> None:
        self.after = stream.done + len(stream.queue)

    def synchronize(self) -> None:
        self.late.finish(max(0, self.after - self.late.done))


SIZES = pytest.mark.parametrize("elements", [1, CHUNK // 8, CHUNK // 8 + 1, 5 * CHUNK // 8 + 5])


@SIZES
def test_a_large_array_arrives_whole(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_BYTES", CHUNK)
    late = Late()
    array = np.random.default_rng(elements).normal(size=(elements, 1))
    sent = array.copy()
    Staging(late, late).write(64, sent)
    sent[:] = 0
    late.finish()
    np.testing.assert_array_equal(late.memory[64 : 64 + array.nbytes], array.reshape(-1).view(np.uint8))
    assert not late.memory[64 + array.nbytes :].any()


@SIZES
def test_a_large_array_comes_back_whole(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_BYTES", CHUNK)
    late = Late()
    late.memory[:] = np.random.default_rng(elements).integers(256, size=late.memory.size, dtype=np.uint8)
    array = np.zeros((elements, 1))
    Staging(late, late).read(64, array)
    np.testing.assert_array_equal(array.reshape(-1).view(np.uint8), late.memory[64 : 64 + array.nbytes])
