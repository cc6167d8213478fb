"""Holds the samples of a pair from one process, and the ratio of their times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from warpwatch.timing.nvml import LEAST_CLOCK, POWER_CAP, STEADY_CLOCK, Clock

Sides: TypeAlias = tuple[Sequence[float], Sequence[float]]  # of the old and of the new


@dataclass(frozen=True)
class Fingerprints:
    """Fingerprints of a right result of each side (warpwatch/timing/checks.py)."""

    old: int
    new: int

    def of(self, is_new: bool) -> int:
        """Return that of one side."""
        return self.new if is_new else self.old


@dataclass(frozen=True, kw_only=True)
class PairSamples:
    """Samples of both sides from one process in seconds, two of each side a turn, and what is recorded beside them.

    ``cycles``: the wait of the new side. ``thrown_away``: samples that were discarded because the hold timed out.
    ``old_mhz``, ``new_mhz``: the mean SM clock of each sample (timing/clock_stamps.py); empty where it was not read.
    ``old_joules``, ``new_joules``: energy of a launch (timing/worker_energy.py); empty where it was not measured.
    ``clocks``: before and after the samples, as ``record_clocks`` says. ``keeps_clock_down``: the SM clock fell during the
    samples, or was kept down after them by what is not an earlier pair's. False where it was not read beside them.
    """

    old: tuple[float, ...]
    new: tuple[float, ...]
    clocks: tuple[Clock, Clock]
    cycles: int = 0
    thrown_away: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    fingerprints: Fingerprints | None = None
    old_mhz: tuple[float, ...] = ()
    new_mhz: tuple[float, ...] = ()
    old_joules: tuple[float, ...] = ()
    new_joules: tuple[float, ...] = ()
    keeps_clock_down: bool = False

    @property
    def has_clocks(self) -> bool:
        """True where the SM clock was read beside each sample."""
        return (len(self.old_mhz), len(self.new_mhz)) == (len(self.old), len(self.new))

    @property
    def log_cycles(self) -> float | None:
        """Natural logarithm of the ratio of cycles new/old in this process; None where the clock was not read."""
        return log_ratio_in_cycles((self.old, self.new), (self.old_mhz, self.new_mhz))

    @property
    def log_energy(self) -> float | None:
        """Natural logarithm of the ratio of energies new/old in this process; None where they were not measured."""
        if not self.old_joules:
            return None
        return math.fsum(map(math.log, self.new_joules)) / len(self.new_joules) - math.fsum(
            map(math.log, self.old_joules)
        ) / len(self.old_joules)

    @property
    def log(self) -> float:
        """Natural logarithm of the time ratio new/old in this process."""
        return log_ratio(self.old, self.new)


def log_ratio(old: Sequence[float], new: Sequence[float]) -> float:
    """Return the natural logarithm of new/old from samples in seconds, two of each side a turn.

    Each turn is balanced against drift.

    It is the median of the means of all pairs of turns (Hodges and Lehmann 1963), which outliers move little. Below
    20 µs its variance is six tenths of that of the plain median, on the same recorded pairs of an H200.
    """
    a, b, c, d = (np.array(side[i::2]) for side in (old, new) for i in (0, 1))
    turns = np.log(c * d / (a * b)) / 2
    first, second = np.triu_indices(len(turns))
    return float(np.median((turns[first] + turns[second]) / 2))


def log_ratio_in_cycles(times: Sides, clocks: Sides) -> float | None:
    """Return as ``log_ratio``, of cycles: samples of the old and the new side times the clocks in MHz beside them.

    None where clocks are missing.
    """
    if any(len(own) != len(samples) for own, samples in zip(clocks, times, strict=True)):
        return None
    old, new = ([t * mhz for t, mhz in zip(*side, strict=True)] for side in zip(times, clocks, strict=True))
    return log_ratio(old, new)


# What the mean clocks of the two sides may differ by, a fifth of the smallest noise floor: the side that draws more
# power has the lower clock under a cap.
SIDES_APART = 0.001
END_SAMPLES = 2  # of each side, whose clocks tell what the clock is at the beginning, and at the end


def record_clocks(pairs: PairSamples, later: Clock, highest: int) -> PairSamples:
    """Return a pair with its clocks as they are recorded, and whether it keeps the clock down.

    ``pairs``: with NVML's clocks before and after the samples. Those are recorded, with one exception: NVML may tell
    before the first sample of a power cap that is over. Where it did, and the clocks beside the samples were high and
    steady, the clocks are those of the first and the last samples, and the cap is not among their reasons. ``later``:
    NVML's clock after the last results were checked, because NVML says up to 0.1 s late that the clock is kept down.
    ``highest``: the GPU's highest SM clock in MHz.
    """
    if not pairs.has_clocks:
        return pairs
    before, after = pairs.clocks
    first, last = (_median(pairs, part) for part in (slice(END_SAMPLES), slice(-END_SAMPLES, None)))
    down = _is_kept_down(before, after, later) or (not before.throttle and last < LEAST_CLOCK * before.mhz)
    if POWER_CAP not in before.throttle:
        return replace(pairs, keeps_clock_down=down)
    down = down or (POWER_CAP in later.throttle and last < STEADY_CLOCK * highest)
    if is_steady(pairs.old_mhz, pairs.new_mhz, highest):
        before, after = _measured(before, first), _measured(after, last)
    return replace(pairs, clocks=(before, after), keeps_clock_down=down)


def is_steady(old: Sequence[float], new: Sequence[float], highest: int) -> bool:
    """Tell whether the clocks in MHz beside the samples of both sides were high, steady, and alike on both sides."""
    both, apart = [*map(round, old), *map(round, new)], statistics.fmean(new) / statistics.fmean(old) - 1
    return min(both) >= STEADY_CLOCK * max(*both, highest) and abs(apart) <= SIDES_APART


def _is_kept_down(before: Clock, after: Clock, later: Clock) -> bool:
    """Tell whether NVML says of a pair that it keeps the clock down.

    A power cap that NVML told of before the pair, and tells of without a break, says nothing of the pair.
    """
    inherited = {POWER_CAP} if POWER_CAP in before.throttle and POWER_CAP in after.throttle else set()
    return bool({*after.throttle, *later.throttle} - inherited)


def _median(pairs: PairSamples, part: slice) -> float:
    return statistics.median((*pairs.old_mhz[part], *pairs.new_mhz[part]))


def _measured(clock: Clock, megahertz: float) -> Clock:
    """Return a clock as it was measured, without the power cap that NVML still tells of."""
    throttle = tuple(reason for reason in clock.throttle if reason != POWER_CAP)
    return replace(clock, mhz=round(megahertz), throttle=throttle)
