"""Takes from a reading what is not the kernel's: the time between two events with nothing between them.

On a held stream that is 1.3 µs on hosts of one H200 and 2.9 µs on hosts of two, whatever runs between the events.
Samples are saved as they were read; only rates and shares are worked out without it.
"""

from __future__ import annotations

import statistics

from warpwatch.devices.gpu import Device

ROUNDS = 101
SHORTEST = 32e-9  # seconds: the resolution of CUDA events, so that no kernel takes no time


def measure_overhead(device: Device) -> float:
    """Return the median time in seconds between two events with nothing between them; 0 without a GPU's clock."""
    if not device.info.has_gpu_clock:
        return 0.0
    readings = [device.time(_nothing) for _ in range(ROUNDS)]
    known = [seconds for seconds in readings if seconds is not None]
    return round(statistics.median(known), 10) if known else 0.0


def _nothing() -> None:
    pass


def kernel_seconds(seconds: float, overhead: float) -> float:
    """Return the kernel's own share of a reading, both in seconds."""
    return max(seconds - overhead, min(seconds, SHORTEST))
