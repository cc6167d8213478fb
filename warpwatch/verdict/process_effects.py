"""Finds what a process does to every case, and takes it out: a factor, as by the clock, and a later start."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from warpwatch.verdict.rule import MIN_CONTROLS, RELEVANT

# Smallest factor and offset that raise an alarm. Offsets of ten H200 processes were within 0.08 µs.
ALARM_FACTOR, ALARM_OFFSET = RELEVANT, 0.4e-6
LARGE, SMALL = 100e-6, 30e-6  # seconds: medians above the first show the factor, medians below the second the offset


@dataclass(frozen=True)
class ProcessEffect:
    """Effect of one process on every case: seconds become ``factor`` * seconds + ``offset``."""

    factor: float = 1.0
    offset: float = 0.0
    controls: int = 0

    def remove(self, seconds: float) -> float:
        """Time of a case without this effect, in seconds."""
        # A kernel is not shorter than a tenth of what was read, whatever the offset.
        return max(seconds - self.offset, seconds / 10) / self.factor

    def alarm(self, baseline: Sequence[ProcessEffect] = ()) -> str:
        """Sentence about an effect that is large enough to be an alarm, or nothing.

        ``baseline``: process effects of the baseline; one within their range raises no alarm. On H200s in pairs every
        kernel starts 1.5 µs later.
        """
        factors, offsets = (
            [1.0, *(effect.factor for effect in baseline)],
            [0.0, *(effect.offset for effect in baseline)],
        )
        parts = []
        if self.factor > max(factors) + ALARM_FACTOR or self.factor < min(factors) - ALARM_FACTOR:
            longer = "longer" if self.factor > 1 else "less time"
            parts.append(f"takes {100 * abs(self.factor - 1):.1f} % {longer}")
        if self.offset > max(offsets) + ALARM_OFFSET or self.offset < min(offsets) - ALARM_OFFSET:
            later = "later" if self.offset > 0 else "sooner"
            parts.append(f"starts {abs(self.offset) * 1e6:.2f} µs {later}")
        if not parts:
            return ""
        return (
            f"everything {' and '.join(parts)}, by {self.controls} cases of unchanged machine code: "
            "driver, clock or cooling, not a kernel"
        )


def process_effect(reference: Mapping[str, float], seconds: Mapping[str, float]) -> ProcessEffect:
    """Estimate the effect of one process against a reference, over the cases of both.

    Long kernels show the factor and short ones the offset. Both are medians, so up to half of the cases may have
    changed. With too few cases the effect is none.
    """
    names = [name for name in seconds if name in reference]
    if len(names) < MIN_CONTROLS:
        return ProcessEffect()
    old, new = (np.array([times[name] for name in names]) for times in (reference, seconds))
    large, small = old >= LARGE, old < SMALL
    if not large.any():
        large = ~small if (~small).any() else np.ones(len(names), bool)
    factor, offset = 1.0, 0.0
    for _ in range(3):
        factor = float(np.median((new[large] - offset) / old[large]))
        if small.sum() >= MIN_CONTROLS / 3:
            offset = float(np.median(new[small] - factor * old[small]))
    return ProcessEffect(factor, offset, len(names))


def aligned(processes: Iterable[Mapping[str, float]]) -> list[dict[str, float]]:
    """Medians of several processes by case, each without its effect against the mean of all."""
    runs = list(processes)
    shared = set.intersection(*map(set, runs)) if runs else set()
    centre = mean_of([{name: run[name] for name in run if name in shared} for run in runs])
    effects = [process_effect(centre, run) for run in runs]
    return [{name: own.remove(time) for name, time in run.items()} for own, run in zip(effects, runs, strict=True)]


def mean_of(processes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Geometric mean of each case over the processes that have it."""
    names = dict.fromkeys(name for process in processes for name in process)
    logs = {name: [math.log(process[name]) for process in processes if name in process] for name in names}
    return {name: math.exp(math.fsum(values) / len(values)) for name, values in logs.items()}
