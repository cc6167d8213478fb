"""Reads SM clock, throttle reasons, energy and driver version from NVML (nvidia-ml-py, the vendor's own binding)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from warpwatch.timing.other_processes import at_work
from warpwatch.timing.remarks import remarks

# Reasons of a low clock that are no fault: nothing to do, or a setting that the owner chose.
HARMLESS = {0x1: "idle", 0x2: "application clocks", 0x10: "sync boost", 0x100: "display clocks"}
POWER_CAP = "software power cap"
HARMFUL = {
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
SETTLE_SECONDS = 2.0
LEAST_CLOCK = 0.97  # of the SM clock that a kernel could have: below that the clock counts as kept down
STEADY_CLOCK = 0.985  # lowest over highest clock of a case: below that, its samples cannot be pooled


@dataclass(frozen=True)
class Clock:
    """SM clock in MHz (0 where NVML does not say), the reasons that keep it down, and processes of others at work."""

    mhz: int
    throttle: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def is_disturbed(self) -> bool:
        """True where a kernel takes longer now for a reason that is not its own."""
        return bool(self.throttle or self.others)


class Clocks:
    """Clocks of one GPU as NVML reports them; all unknown where there is no NVML."""

    def __init__(self, pci_bus_id: str) -> None:
        self._nvml: Any = None
        self._in_vain = False
        try:
            import pynvml  # noqa: PLC0415  # the import loads the driver's library

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
            self._nvml = pynvml
        except Exception:  # without NVML or the right to use it, times are measured all the same
            return

    def read(self) -> Clock:
        """Read the clock and its throttle reasons."""
        if self._nvml is None:
            return Clock(0, ())
        mhz = self._nvml.nvmlDeviceGetClockInfo(self._handle, self._nvml.NVML_CLOCK_SM)
        mask = self._nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        throttle = tuple(name for bit, name in HARMFUL.items() if mask & bit)
        return Clock(int(mhz), throttle, at_work(self._nvml, self._handle))

    def settle(self, is_up: Callable[[], bool] | None = None) -> None:
        """Wait until neither earlier launches nor others slow a kernel down, unless the last wait was in vain.

        A power cap lasts: on an H200, two seconds of float64 tensor products slowed the next eleven cases. ``is_up``:
        measures whether the SM clock is high. It is called where NVML tells of a power cap and of nothing else: that is
        not waited for if the clock is high.
        """
        begin = time.monotonic()
        while (clock := self.read()).is_disturbed:
            if is_up and clock.throttle == (POWER_CAP,) and not clock.others and is_up():
                self._in_vain = False
                return
            if self._in_vain or time.monotonic() - begin > SETTLE_SECONDS:
                break
            time.sleep(0.01)
        self._in_vain = clock.is_disturbed

    def joules(self) -> float | None:
        """Energy that the GPU has taken since its driver was loaded; None where NVML does not count it."""
        if self._nvml is None:
            return None
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) * 1e-3
        except (self._nvml.NVMLError, AttributeError):  # a GPU older than Volta, a part of one, or an older NVML
            return None

    @cached_property
    def highest(self) -> int:  # cached, because the question takes 2 ms
        """The highest SM clock in MHz, or 0 where unknown."""
        if self._nvml is None:
            return 0
        return int(self._nvml.nvmlDeviceGetMaxClockInfo(self._handle, self._nvml.NVML_CLOCK_SM))

    def remarks(self) -> list[str]:
        """Return what of the GPU's settings a reader of times must know."""
        return [] if self._nvml is None else remarks(self._nvml, self._handle)

    @property
    def uuid(self) -> str:
        """The GPU's UUID; empty where unknown."""
        return "" if self._nvml is None else str(self._nvml.nvmlDeviceGetUUID(self._handle))

    @property
    def driver(self) -> str:
        """Version of the driver, such as '580.159.04'; empty where unknown."""
        return "" if self._nvml is None else str(self._nvml.nvmlSystemGetDriverVersion())
