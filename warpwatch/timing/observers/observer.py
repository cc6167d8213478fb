"""Observers, which are plug-ins of sampling as in Kernel Tuner: their base, and those that always observe."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from warpwatch.catalogue.arrays import Role
from warpwatch.catalogue.cases import Case
from warpwatch.devices.runner import Loaded
from warpwatch.devices.worker import gpu, has_opened_gpu
from warpwatch.timing import nvml
from warpwatch.timing.pair_samples import Sides
from warpwatch.timing.timer import measure_overhead

Facts: TypeAlias = Mapping[str, Any]
FEWEST_READINGS, LEAST_GROWTH = 3, 2**21  # of free memory; bytes, of which CUDA takes memory from a GPU


class Observer:
    """Records facts beside the samples of a case, at the moments that it overrides. It runs in the worker process.

    One more is an entry of OBSERVERS (__init__.py), with a field of ``Facts`` for each of its facts, and of ``Sides``
    for what both sides of a pair have (runs/record.py). One that is asked for has an option (plugin/options.py).

    Attributes
    ----------
    option
        Name of the option that asks for it; empty where it always observes.
    units
        Unit of each fact that it records, by the fact's name; empty for one that is not a number.
    missing
        Why a case that it was to observe has none of its facts.
    is_apart
        It compares calls too, whose sides are in two processes.
    """

    option: ClassVar[str] = ""
    is_apart: ClassVar[bool] = False
    missing: ClassVar[str] = "its test failed before"
    units: ClassVar[Mapping[str, str]] = {}

    def objection(self) -> str:
        """Say why this device cannot be observed; empty where it can."""
        return ""

    def leaves_out(self, case: Case) -> str:
        """Say why a case is not observed; empty where it is."""
        return ""

    def constants(self, *, on_host: bool) -> Facts:
        """Return the facts that hold for all cases of this process, of those on the host or of the others."""
        return {}

    def begin(self) -> None:
        """Observe what is there before the first sample of a case, after the warm-up."""

    def look(self) -> None:
        """Observe what is there before and after some of its samples."""

    def end(self) -> Facts:
        """Return the facts after its last sample."""
        return {}

    def launch(self, copies: Sequence[Loaded]) -> Facts:
        """Return the facts of launches of its own, after the samples were checked. ``copies``: the prepared case."""
        return {}

    def launch_sides(self, both: Sequence[tuple[Loaded, Loaded]]) -> Mapping[str, Sides]:
        """Return the same of the old and the new side of a pair."""
        return {}

    def turn(self, copies: Sequence[Loaded], core: int) -> float | None:
        """Return a value of what it compares in turns of two processes, on one core, where ``is_apart``, or None."""
        raise NotImplementedError

    def release(self) -> None:
        """Forget the prepared case, which is not launched any more."""


def no_repetition(case: Case) -> str:
    """Say why launches of a case cannot follow each other with nothing restored between; empty where they can."""
    counters = (array for array in case.arrays if array.role is Role.SCRATCH and array.initial is not None)
    if any(counters) or any(array.role is Role.IN_OUT for array in case.arrays):
        return "a launch changes what the next one begins with"
    return ""


class Clock(Observer):
    """Reads NVML's clock before the first sample and after the last."""

    units: ClassVar = {"sm_clock_mhz": "MHz", "throttle": "", "other_processes": ""}
    _before = nvml.UNKNOWN

    def begin(self) -> None:
        self._before = nvml.clocks().read()

    def end(self) -> Facts:
        return nvml.clock_facts([self._before, nvml.clocks().read()])


class Outside(Observer):
    """Remarks what a call does outside its launches: memory that it keeps, and what it changes of its surroundings."""

    units: ClassVar = {"remarks": ""}

    def __init__(self) -> None:
        self._free: list[int] = []

    def begin(self) -> None:
        self._free.clear()
        self.look()

    def look(self) -> None:
        if (
            has_opened_gpu() and gpu().has_call and gpu().info.has_gpu_clock
        ):  # else free memory is the host's, which others take too
            self._free.append(gpu().free_memory)

    def end(self) -> Facts:
        self.look()
        remarks = (*(gpu().remarks_on_call() if has_opened_gpu() else ()), *filter(None, [growth(self._free)]))
        return {"remarks": remarks} if remarks else {}


def growth(free: Sequence[int]) -> str:
    """Say that memory is kept from launch to launch, by what was free before, between and after launches."""
    falls = len(free) >= FEWEST_READINGS and all(later < earlier for earlier, later in itertools.pairwise(free))
    if not falls or free[0] - free[-1] < LEAST_GROWTH:
        return ""
    taken = (free[0] - free[-1]) / 1e6
    return f"free memory of the GPU falls from launch to launch, by {taken:,.0f} MB so far: free what each allocates"


class Overhead(Observer):
    """Measures what events read with nothing between them, once in a process."""

    units: ClassVar = {"overhead": "s"}

    @functools.cached_property
    def seconds(self) -> float:
        """Fixed overhead of a reading of this process's GPU, in seconds."""
        return measure_overhead(gpu())

    def constants(self, *, on_host: bool) -> Facts:
        return {"overhead": 0.0 if on_host else self.seconds}
