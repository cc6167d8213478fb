"""Measures the GPU's own time of a launch, by CUDA events around it on a held stream, after a scrub of L2.

The launch happens in the worker process, where a ``GpuTimer`` or a ``HostTimer`` takes the sample. pytest-benchmark
calls ``read`` before and after a round and subtracts, which plays back a sample. The events themselves are the device's
(``Device.time`` in devices/gpu.py), because that module alone calls PyCUDA.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError

SHORTEST_ROUNDS = 200
ROUNDS = 101  # of the overhead
SHORTEST = 32e-9  # seconds: the resolution of CUDA events, so that no kernel takes no time
_samples: list[float] = []


@dataclass(frozen=True)
class Reading:
    """Number of samples at a moment. The difference of two readings is the sum of the samples between, in seconds.

    A difference of times since a far epoch would lose the precision of CUDA's float32 milliseconds.
    """

    count: int

    def __sub__(self, earlier: Reading) -> float:
        return math.fsum(_samples[earlier.count : self.count])


def read() -> Reading:
    """Return a reading: the timer function that pytest-benchmark is given."""
    return Reading(len(_samples))


def note(seconds: float) -> None:
    """Advance the timer by one sample."""
    _samples.append(seconds)


def nothing() -> None:
    """Do nothing: a kernel that changes none of its arrays needs nothing restored."""


class Timer(Protocol):
    """A timer that takes samples. ``timeouts``: samples that were discarded because the hold ran into its limit."""

    timeouts: int

    def sample(self, start: Callable[[], None], restore: Callable[[], None] = nothing) -> float:
        """Return the seconds that one launch takes. ``restore`` is called before it, and is not timed."""


class HostTimer:
    """Wall clock, for the serial variants. Caches are as ``restore`` leaves them."""

    timeouts = 0

    def sample(self, start: Callable[[], None], restore: Callable[[], None] = nothing) -> float:
        restore()
        begin = time.perf_counter()
        start()
        return time.perf_counter() - begin


class GpuTimer:
    """Takes samples by ``Device.time``. Before each launch L2 is scrubbed (cold) or left as it is (warm).

    ``scrub`` starts the kernel that replaces what L2 holds.
    """

    TRIES = 10

    def __init__(self, device: Device, cold: bool) -> None:
        self.timeouts = 0
        self._device = device
        self._cold = cold
        self._image = compile_file(Path(__file__).with_name("timer.cu"), {}, device.info.timing_target)
        size = 2 * device.info.l2_bytes // 16 * 16
        self._buffer = self.zeros(max(size, 16))
        self.scrub = self._scrubber(self._buffer, size)

    def zeros(self, size: int) -> int:
        """Allocate ``size`` bytes of zeros and return their address."""
        address = self._device.allocate(size)
        self._device.write(address, np.zeros(size, np.uint8))
        return address

    def kernel(self, name: str, launch: Launch, *arguments: np.generic) -> Callable[[], None]:
        """Return a function that starts a kernel of timer.cu."""
        return self._device.launcher(self._device.load(self._image.path, name), launch, arguments)

    def _scrubber(self, buffer: int, size: int) -> Callable[[], None]:
        launch = Launch((4 * self._device.info.multiprocessors, 1, 1), (512, 1, 1))
        return self.kernel("scrub", launch, np.uint64(buffer), np.uint64(size // 16), np.uint64(self._buffer))

    def sample(self, start: Callable[[], None], restore: Callable[[], None] = nothing) -> float:
        for _ in range(self.TRIES):
            restore()
            if self._cold:
                self.scrub()
            seconds = self._device.time(start)
            if seconds is not None:
                return round(seconds, 10)  # events do not resolve a tenth of a nanosecond; more digits only fill files
            self.timeouts += 1
        raise DeviceError(f"the hold ran into its limit {self.TRIES} times in a row: the host is too busy to time on")

    def coldness(self) -> float:
        """Return the ratio of the times to read half of L2's size after a scrub and directly after a read.

        A ratio of 1 would mean that the scrub has no effect. L2 is two to four times as fast as memory.
        """
        size = self._device.info.l2_bytes // 32 * 16
        buffer = self.zeros(max(size, 16))
        probe, cold, warm = self._scrubber(buffer, size), [], []
        for _ in range(10):
            self.scrub()
            cold.append(self._device.time(probe) or math.nan)
            warm.append(self._device.time(probe) or math.nan)
        self._device.free(buffer)
        return statistics.median(cold) / statistics.median(warm)


def shortest_times(timer: GpuTimer, side: int = 256) -> dict[str, Sequence[float]]:
    """Sample the shortest times there are: an empty kernel, and a float32 copy of ``side`` squared elements."""
    one, count = (1, 1, 1), side * side
    to, source = timer.zeros(4 * count), timer.zeros(4 * count)
    arguments = (np.uint64(to), np.uint64(source), np.uint64(count))
    launches = {
        "empty kernel": timer.kernel("empty", Launch(one, one)),
        f"copy {side}x{side}": timer.kernel("copy", Launch((-(-count // 256), 1, 1), (256, 1, 1)), *arguments),
    }
    taken: dict[str, Sequence[float]] = {}
    for name, start in launches.items():
        for _ in range(20):
            timer.sample(start)
        taken[name] = [timer.sample(start) for _ in range(SHORTEST_ROUNDS)]
    return taken


def measure_overhead(device: Device) -> float:
    """Return the median time in seconds between two events with nothing between them; 0 without a GPU's clock.

    On a held stream that is 1.3 µs on hosts of one H200 and 2.9 µs on hosts of two, whatever runs between the events.
    Samples are saved as they were read; only rates and shares are worked out without it.
    """
    if not device.info.has_gpu_clock:
        return 0.0
    readings = [seconds for _ in range(ROUNDS) if (seconds := device.time(nothing)) is not None]
    return round(statistics.median(readings), 10) if readings else 0.0


def kernel_seconds(seconds: float, overhead: float) -> float:
    """Return the kernel's own share of a reading, both in seconds."""
    return max(seconds - overhead, min(seconds, SHORTEST))
