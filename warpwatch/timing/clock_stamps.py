"""Reads the mean SM clock of a sample on the GPU itself, by stamps before and after it, as NVIDIA's nvbench does.

NVML says what the clock is at a moment, and a power cap changes it many times a second. A stamp is a small kernel
outside the events, so that it is no part of a time. On an H200 eight clocks over a millisecond differed by 0.003 %.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.gpu import Device

SLOT_BYTES = 16  # a time in nanoseconds and a count of cycles
ONE = (1, 1, 1)


class ClockStamps:
    """Takes up to ``most`` stamps on a device's stream."""

    def __init__(self, device: Device, most: int) -> None:
        self._device, self._most = device, most
        image = compile_file(Path(__file__).with_name("clock_stamps.cu"), {}, device.info.timing_target)
        self._function = device.load(image.path, "stamp")
        self._slots = device.allocate(most * SLOT_BYTES)
        self._launch = Launch((device.info.multiprocessors, 1, 1), ONE)
        self._starts: list[Callable[[], None]] = []  # one for each slot that was ever used
        self._used = 0

    def clear(self) -> None:
        """Forget all stamps."""
        self._device.fill(self._slots, self._most * SLOT_BYTES, 0)
        self._used = 0

    def stamp(self) -> None:
        """Queue a stamp."""
        if self._used == len(self._starts):
            slot = np.uint64(self._slots + self._used * SLOT_BYTES)
            self._starts.append(self._device.launcher(self._function, self._launch, (slot,)))
        self._starts[self._used]()
        self._used += 1

    def megahertz(self) -> tuple[float, ...]:
        """Return the mean clock between the first two stamps, the next two, and so on; empty where one is missing."""
        stamps = np.zeros((self._most, SLOT_BYTES // 8), np.uint64)
        self._device.read(self._slots, stamps)
        return between(stamps[: self._used])


def between(stamps: np.ndarray[tuple[int, int], np.dtype[np.uint64]]) -> tuple[float, ...]:
    """Return the mean clocks in MHz between the stamps of each two rows: nanoseconds, and cycles."""
    if not len(stamps) or not stamps.all():  # a slot that nothing was written to
        return ()
    passed = (stamps[1::2] - stamps[::2]).astype(float)
    if not (passed > 0).all():
        return ()
    return tuple(round(cycles / nanoseconds * 1e3, 2) for nanoseconds, cycles in passed.tolist())
