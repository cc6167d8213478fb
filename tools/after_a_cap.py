"""Shows how long NVML tells of a power cap after what caused it, and how long the SM clock is low.

``python -m tools.after_a_cap`` runs a float64 product on a GPU for each of SECONDS, and then a short product of
float32 every few milliseconds. It prints until when NVML tells of a cap, and the SM clock by stamps as a share of the
highest, at several times since the float64 product ended. It says so where NVML told of no cap.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from kernels import FAMILIES
from tools.by_hand import leave, load_case
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.opening import Settings, open_device
from warpwatch.devices.runner import Loaded
from warpwatch.timing.nvml import POWER_CAP, Clocks
from warpwatch.timing.timer import ClockStamps, GpuTimer

HOT = "matmul-warptiled-128x64-4096x4096x4096-float64"
SHORT = "matmul-warptiled-128x64-2048x2048x2048-float32"
SECONDS = (0.1, 0.25, 0.5, 1.0)
PAUSES = (0.0, 0.01)  # seconds between two of the short products
LOOK_SECONDS, REST_SECONDS = 0.8, 1.0
SHOWN = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)  # seconds since the float64 product ended


@dataclass(frozen=True, kw_only=True)
class Look:
    """NVML's word and the clock in MHz by stamps, at a time in seconds since the float64 product ended."""

    seconds: float
    is_capped: bool
    mhz: float


def clock_beside(timer: GpuTimer, stamps: ClockStamps, kernel: Loaded) -> float:
    """Launch a kernel once between two stamps, and return its mean SM clock in MHz."""
    stamps.clear()
    stamps.stamp()
    timer.sample(kernel.start)
    stamps.stamp()
    return stamps.megahertz()[0]


def line(seconds: float, pause: float, looks: list[Look], highest: int) -> str:
    """Return what is printed of a float64 product that ran for so many seconds."""
    capped = [look.seconds for look in looks if look.is_capped]
    said = f"NVML tells of a power cap until {max(capped):.2f} s" if capped else "NVML told of no power cap"
    shown = [next((look for look in looks if look.seconds >= begin), looks[-1]) for begin in SHOWN]
    shares = ", ".join(f"{100 * look.mhz / highest:.1f} % at {look.seconds:.2f} s" for look in shown)
    return f"after {seconds:g} s, short products every {pause:g} s: {said}; clock {shares}"


def main() -> None:
    device = open_device(Settings(kind="gpu"))
    timer, stamps, clocks = GpuTimer(device, cold=True), ClockStamps(device, 2), Clocks(device.info.pci_bus_id)
    hot, short = (load_case(device, find_case(FAMILIES, name)) for name in (HOT, SHORT))
    if not clocks.highest:
        print("NVML does not say what this GPU's clocks are: its library is missing or refuses", file=sys.stderr)
        leave(1)
    print(f"{device.info.name}, highest SM clock {clocks.highest:,} MHz")
    for seconds in SECONDS:
        for pause in PAUSES:
            time.sleep(REST_SECONDS)
            begin = time.perf_counter()
            while time.perf_counter() - begin < seconds:
                clock_beside(timer, stamps, hot)
            end, looks = time.perf_counter(), list[Look]()
            while time.perf_counter() - end < LOOK_SECONDS:
                is_capped, since = POWER_CAP in clocks.read().throttle, time.perf_counter() - end
                looks.append(Look(seconds=since, is_capped=is_capped, mhz=clock_beside(timer, stamps, short)))
                time.sleep(pause)
            print(line(seconds, pause, looks, clocks.highest))
    leave(0)


if __name__ == "__main__":
    main()
