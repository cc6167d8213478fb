"""Observes the SM clock and other programs at work on the GPU, and what of a reading is not the kernel's."""

from __future__ import annotations

import functools
from typing import ClassVar

from warpwatch.devices.worker import gpu
from warpwatch.timing import nvml
from warpwatch.timing.observers.observer import Facts, Observer
from warpwatch.timing.timer import measure_overhead


class Clock(Observer):
    """Reads NVML's clock before the first sample and after the last."""

    units: ClassVar = {"sm_clock_mhz": "MHz", "throttle": "", "other_processes": ""}
    _before = nvml.UNKNOWN

    def begin(self) -> None:
        self._before = nvml.clocks().read()

    def end(self) -> Facts:
        return nvml.clock_facts([self._before, nvml.clocks().read()])


class Overhead(Observer):
    """Measures what events read with nothing between them, once in a process."""

    units: ClassVar = {"overhead": "s"}

    @functools.cached_property
    def seconds(self) -> float:
        """Fixed overhead of a reading of this process's GPU, in seconds."""
        return measure_overhead(gpu())

    def constants(self, *, on_host: bool) -> Facts:
        return {"overhead": 0.0 if on_host else self.seconds}
