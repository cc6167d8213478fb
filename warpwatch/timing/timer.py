"""Takes one sample: the GPU's own time of a launch, by CUDA events on a held stream, after a scrub of L2.

The way of a sample, whose steps are queued one after the other on one stream that waits for no other:

1. restore: results and scratch memory are poisoned, what an earlier launch changed in place gets its first values
   again, and CUDA arrays of textures and surfaces are copied from declared ones;
2. scrub: lines of L2 that were to persist are given back, and a kernel replaces what L2 holds, unless the cache is to
   be warm;
3. hold: a kernel waits, so that nothing after it runs before all of it is queued;
4. start: an event is recorded;
5. launch: the kernels of the case, or its call;
6. stop: a second event is recorded;
7. digest: surfaces are copied back, and a kernel reads the results, so that each sample's is proved (checks.py);
8. release: the host ends the hold;
9. synchronise: the host waits for the second event, and subtracts the first.

``GpuTimer.sample`` does 1 and 2 and asks ``Device.time`` for 3 to 9 (devices/gpu.py, because that module alone calls
PyCUDA), again where the hold ran into its limit. sampling.py chooses what is launched. Where the SM clock is read
beside a sample (``ClockStamps``), a stamp comes before the first step and one after the last.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.gpu import ONE, Device
from warpwatch.devices.machine import DeviceError, Function, GuardedArray, in_order, in_parts, nothing

WARM_UP, SHORTEST_ROUNDS = 20, 200  # launches before the samples of the shortest times, and these
ROUNDS = 101  # of the overhead
SHORTEST = 32e-9  # seconds: the resolution of CUDA events, so that no kernel takes no time
SLOT_BYTES = 16  # of a stamp: a time in nanoseconds and a count of cycles


class HostTimer:
    """Wall clock, for the serial variants. Caches are as ``restore`` leaves them."""

    timeouts = 0  # of a hold: there is none

    def sample(
        self, start: Callable[[], None], restore: Callable[[], None] = nothing, after: Callable[[], None] | None = None
    ) -> float:
        """Return the seconds that one launch takes. ``restore`` and ``after`` are called before and after it."""
        restore()
        begin = time.perf_counter()
        start()
        seconds = time.perf_counter() - begin
        if after:
            after()
        return seconds


class GpuTimer:
    """Takes samples by ``Device.time``. Before each launch L2 is scrubbed (cold) or left as it is (warm).

    ``scrub`` starts the kernel that replaces what L2 holds. ``is_cold``: it is started before each sample.
    ``timeouts``: samples that were discarded because the hold ran into its limit.
    """

    TRIES = 10

    def __init__(self, device: Device, cold: bool) -> None:
        self.timeouts = 0
        self._device = device
        self._kernels: dict[str, Function] = {}
        self._whole = Launch((4 * device.info.multiprocessors, 1, 1), (512, 1, 1))  # fills the GPU
        self.is_cold = cold
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
        if name not in self._kernels:
            self._kernels[name] = self._device.load(self._image.path, name)
        return self._device.launcher(self._kernels[name], launch, arguments)

    def exchange(self, array: GuardedArray, bits: int) -> None:
        """Exchange elements of an array whose numbers differ in these bits; the same call once more undoes it."""
        itemsize = array.dtype.itemsize
        count, size = np.uint64(array.nbytes // itemsize), np.int32(itemsize)
        self.kernel("exchange", self._whole, np.uint64(array.address), count, np.uint64(bits), size)()

    def swap(self, one: GuardedArray, other: GuardedArray) -> None:
        """Exchange the values of two arrays of one size."""
        addresses = (np.uint64(one.address), np.uint64(other.address))
        self.kernel("swap_arrays", self._whole, *addresses, np.uint64(one.nbytes))()

    def _scrubber(self, buffer: int, size: int) -> Callable[[], None]:
        return self.kernel("scrub", self._whole, np.uint64(buffer), np.uint64(size // 16), np.uint64(self._buffer))

    def sample(
        self, start: Callable[[], None], restore: Callable[[], None] = nothing, after: Callable[[], None] | None = None
    ) -> float:
        """Return the seconds that one launch takes, as ``HostTimer.sample`` does. Raises DeviceError.

        ``after``: queues what is to run behind each launch, also behind one whose time is discarded.
        """
        before, launch, behind = in_parts(start)
        behind = in_order((behind, after)) if after else behind
        for _ in range(self.TRIES):
            restore()
            before()
            if self.is_cold:
                self._device.reset_persisting_cache()
                self.scrub()
            seconds = self._device.time(launch, behind)
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

    def shortest_times(self, side: int = 256) -> dict[str, list[float]]:
        """Sample the shortest times there are: an empty kernel, and a float32 copy of ``side`` squared elements."""
        count = side * side
        arguments = (np.uint64(self.zeros(4 * count)), np.uint64(self.zeros(4 * count)), np.uint64(count))
        launches = {
            "empty kernel": self.kernel("empty", ONE),
            f"copy {side}x{side}": self.kernel("copy", Launch((-(-count // 256), 1, 1), (256, 1, 1)), *arguments),
        }
        return {
            name: [self.sample(start) for _ in range(WARM_UP + SHORTEST_ROUNDS)][WARM_UP:]
            for name, start in launches.items()
        }


Timer: TypeAlias = GpuTimer | HostTimer


class ClockStamps:
    """Reads the mean SM clock of a sample on the GPU itself, by stamps before and after it, as NVIDIA's nvbench does.

    NVML says what the clock is at a moment, and a power cap changes it many times a second. A stamp is a small kernel
    outside the events, so that it is no part of a time. On an H200 eight clocks over a millisecond differed by 0.003 %.
    """

    def __init__(self, device: Device, most: int) -> None:
        """Take up to ``most`` stamps on a device's stream."""
        self._device, self._most = device, most
        image = compile_file(Path(__file__).with_name("clock_stamps.cu"), {}, device.info.timing_target)
        self._function = device.load(image.path, "stamp")
        self._slots = device.allocate(most * SLOT_BYTES)
        self._launch = Launch((device.info.multiprocessors, 1, 1), ONE.block)
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
        used = stamps[: self._used]
        passed = (used[1::2] - used[::2]).astype(float)
        if not self._used or not used.all() or not (passed > 0).all():  # a slot that nothing was written to
            return ()
        return tuple(round(cycles / nanoseconds * 1e3, 2) for nanoseconds, cycles in passed.tolist())


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
