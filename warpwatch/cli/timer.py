"""Shows what the timer reads for the shortest work there is: ``warpwatch timer``."""

from __future__ import annotations

import argparse
import statistics

from warpwatch.catalogue.project import Project
from warpwatch.devices.opening import Settings, open_device
from warpwatch.timing.timer import SHORTEST_ROUNDS, GpuTimer, measure_overhead


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(project: Project) -> int:
    """Time an empty kernel and a small copy on the GPU; returns the exit status.

    Raises NoDevice, DeviceError or CompileError. Run under Nsight Compute (``ncu``), this command
    shows the readings of both.
    """
    device = open_device(Settings(kind="gpu"))
    overhead = measure_overhead(device)
    print(f"{device.info.name}, medians of {SHORTEST_ROUNDS} samples, µs (standard deviation in per cent)")
    for cold in (False, True):
        timer = GpuTimer(device, cold)
        for name, samples in timer.shortest_times().items():
            median, spread = statistics.median(samples), statistics.stdev(samples)
            print(f"{'cold' if cold else 'warm'}  {name:<16} {median * 1e6:6.2f}  ({100 * spread / median:.1f} %)")
    print(f"{overhead * 1e6:.2f} µs of each reading are not the kernel's: two events with nothing between read as much")
    print(f"a read of half of L2 takes {timer.coldness():.2f} times as long after a scrub")
    return 0
