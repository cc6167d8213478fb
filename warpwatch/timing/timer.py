"""What a time is: the GPU's own, by CUDA events around a launch on a held stream, after a scrub of L2.

Two halves. pytest-benchmark calls ``read`` before and after a launch and subtracts. The launch itself
happens in the process in which kernels run, where a ``GpuTimer`` or a ``HostTimer`` takes the sample.
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

from warpwatch.catalogue.declaration import Launch
from warpwatch.devices.compiler import compile_file
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError

FLOOR_ROUNDS = 200
_samples: list[float] = []


@dataclass(frozen=True)
class Reading:
    """A moment of the timer. Two of them subtract to the seconds sampled between: nothing is ever
    subtracted from a far epoch, which CUDA's float32 milliseconds would not survive."""

    count: int

    def __sub__(self, earlier: Reading) -> float:
        return math.fsum(_samples[earlier.count : self.count])


def read() -> Reading:
    """The timer that pytest-benchmark is given."""
    return Reading(len(_samples))


def note(seconds: float) -> None:
    """Let the timer advance by one sample."""
    _samples.append(seconds)


class Timer(Protocol):
    """Takes samples. ``timeouts`` counts those that were thrown away because the hold ran into its limit."""

    timeouts: int

    def sample(self, start: Callable[[], None]) -> float:
        """Seconds that one launch takes."""


class HostTimer:
    """The wall clock, for the serial variants. Caches are as the run before left them."""

    timeouts = 0

    def sample(self, start: Callable[[], None]) -> float:
        begin = time.perf_counter()
        start()
        return time.perf_counter() - begin


class GpuTimer:
    """CUDA events on a held stream; before each launch L2 is scrubbed (cold), or left alone (warm)."""

    TRIES = 10

    def __init__(self, device: Device, cold: bool) -> None:
        self.timeouts = 0
        self._device = device
        self._cold = cold
        self._image = compile_file(Path(__file__).with_name("timer.cu"), {}, device.info.timing_target)
        size = 2 * device.info.l2_bytes // 16 * 16
        self._buffer = self.zeros(max(size, 16))
        self._scrub = self._scrubber(self._buffer, size)

    def zeros(self, size: int) -> int:
        """Address of so many bytes of zeros."""
        address = self._device.allocate(size)
        self._device.write(address, np.zeros(size, np.uint8))
        return address

    def kernel(self, name: str, launch: Launch, *arguments: np.generic) -> Callable[[], None]:
        """A call that starts a kernel of timer.cu."""
        return self._device.launcher(self._device.load(self._image.path, name), launch, arguments)

    def _scrubber(self, buffer: int, size: int) -> Callable[[], None]:
        launch = Launch((4 * self._device.info.multiprocessors, 1, 1), (512, 1, 1))
        return self.kernel("scrub", launch, np.uint64(buffer), np.uint64(size // 16), np.uint64(self._buffer))

    def sample(self, start: Callable[[], None]) -> float:
        for _ in range(self.TRIES):
            if self._cold:
                self._scrub()
            seconds = self._device.time(start)
            if seconds is not None:
                return round(seconds, 10)  # events resolve no tenth of a nanosecond; it only fills files
            self.timeouts += 1
        raise DeviceError(f"the hold ran into its limit {self.TRIES} times in a row: the host is too busy to time on")

    def coldness(self) -> float:
        """How much longer a read of half of L2 takes after a scrub than when it was just read.

        1 would mean that the scrub does nothing. Reading from L2 is two to four times as fast as from memory.
        """
        size = self._device.info.l2_bytes // 32 * 16
        buffer = self.zeros(max(size, 16))
        probe, cold, warm = self._scrubber(buffer, size), [], []
        for _ in range(10):
            self._scrub()
            cold.append(self._device.time(probe) or math.nan)
            warm.append(self._device.time(probe) or math.nan)
        self._device.free(buffer)
        return statistics.median(cold) / statistics.median(warm)


def floor(timer: GpuTimer, side: int = 256) -> dict[str, Sequence[float]]:
    """Samples of what cannot be faster: an empty kernel, and a float32 copy of ``side`` squared elements."""
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
        taken[name] = [timer.sample(start) for _ in range(FLOOR_ROUNDS)]
    return taken
