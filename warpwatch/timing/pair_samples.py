"""Samples of a pair from one process: the ratio of their times, and what the SM clock was while they were taken."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from warpwatch.timing.nvml import LEAST_CLOCK, POWER_CAP, STEADY_CLOCK, UNKNOWN, Clock

Sides: TypeAlias = tuple[Sequence[float], Sequence[float]]  # of the old and of the new
# What the mean clocks of the two sides may differ by, a fifth of the smallest noise floor: the side that draws more
# power has the lower clock under a cap.
SIDES_APART = 0.001
END_SAMPLES = 2  # of each side, whose clocks tell what the clock is at the beginning, and at the end


@dataclass(frozen=True, kw_only=True)
class PairSamples:
    """Samples of both sides from one process, and what is recorded beside them.

    Attributes
    ----------
    old, new
        Seconds, two samples of each side a turn.
    clocks
        NVML's before and after the samples, with the exception of ``with_clocks``.
    cycles
        Wait of the new side.
    thrown_away
        Number of samples that were discarded because the hold timed out.
    facts
        Facts of the case, where this process checked it.
    accepted
        Fingerprints of right results of both sides, for each set of inputs (checks.py).
    beside
        Values of both sides by the fact's name (observers/), such as the mean clock of each sample in ``mhz``.
    keeps_clock_down
        The SM clock fell during the samples, or was kept down after them by what is not an earlier pair's. False where
        it was not read beside them.
    """

    old: tuple[float, ...]
    new: tuple[float, ...]
    clocks: tuple[Clock, Clock] = (UNKNOWN, UNKNOWN)
    cycles: int = 0
    thrown_away: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    accepted: tuple[tuple[int, ...], ...] | None = None
    beside: Mapping[str, Sides] = field(default_factory=dict)
    keeps_clock_down: bool = False

    @property
    def mhz(self) -> Sides:
        """Mean SM clock of each sample of both sides; empty where it was not read."""
        return self.beside.get("mhz", ((), ()))

    @property
    def has_clocks(self) -> bool:
        """True where the SM clock was read beside each sample."""
        return [*map(len, self.mhz)] == [len(self.old), len(self.new)]

    @property
    def log_cycles(self) -> float | None:
        """Natural logarithm of the ratio of cycles new/old in this process; None where the clock was not read."""
        if not self.has_clocks:
            return None
        sides = zip((self.old, self.new), self.mhz, strict=True)
        old, new = ([seconds * mhz for seconds, mhz in zip(*side, strict=True)] for side in sides)
        return log_ratio(old, new)

    @property
    def log(self) -> float:
        """Natural logarithm of the time ratio new/old in this process."""
        return log_ratio(self.old, self.new)

    def with_clocks(self, later: Clock, highest: int) -> PairSamples:
        """Return the samples with their clocks as they are recorded, and whether they keep the clock down.

        So far ``clocks`` are NVML's before and after the samples. Those are recorded, with one exception: NVML may tell
        before the first sample of a power cap that is over. Where it did, and the clocks beside the samples were high
        and steady, the clocks are those of the first and the last samples, and the cap is not among their reasons.
        ``later``: NVML's clock after the last results were checked, because NVML says up to 0.1 s late that the clock
        is kept down. ``highest``: the GPU's highest SM clock in MHz.
        """
        before, after = self.clocks
        ends = (slice(END_SAMPLES), slice(-END_SAMPLES, None))
        first, last = (statistics.median(mhz for side in self.mhz for mhz in side[end]) for end in ends)
        # A power cap that NVML told of before the pair, and tells of without a break, says nothing of the pair.
        inherited = {POWER_CAP} & {*before.throttle} & {*after.throttle}
        down = bool({*after.throttle, *later.throttle} - inherited)
        down = down or (not before.throttle and last < LEAST_CLOCK * before.mhz)
        if POWER_CAP not in before.throttle:
            return replace(self, keeps_clock_down=down)
        down = down or (POWER_CAP in later.throttle and last < STEADY_CLOCK * highest)
        if is_steady(*self.mhz, highest):
            before, after = _measured(before, first), _measured(after, last)
        return replace(self, clocks=(before, after), keeps_clock_down=down)


def log_ratio(old: Sequence[float], new: Sequence[float]) -> float:
    """Return the natural logarithm of new/old from samples in seconds, two of each side a turn.

    Each turn is balanced against drift. The ratio is the median of the means of all pairs of turns (Hodges and Lehmann
    1963), which outliers move little. Below 20 µs its variance is six tenths of that of the plain median, on the same
    recorded pairs of an H200.
    """
    a, b, c, d = (np.array(side[i::2]) for side in (old, new) for i in (0, 1))
    turns = np.log(c * d / (a * b)) / 2
    first, second = np.triu_indices(len(turns))
    return float(np.median((turns[first] + turns[second]) / 2))


def is_steady(old: Sequence[float], new: Sequence[float], highest: int) -> bool:
    """Tell whether the clocks in MHz beside the samples of both sides were high, steady, and alike on both sides."""
    both, apart = [*map(round, old), *map(round, new)], statistics.fmean(new) / statistics.fmean(old) - 1
    return min(both) >= STEADY_CLOCK * max(*both, highest) and abs(apart) <= SIDES_APART


def _measured(clock: Clock, megahertz: float) -> Clock:
    """Return a clock as it was measured, without the power cap that NVML still tells of."""
    throttle = tuple(reason for reason in clock.throttle if reason != POWER_CAP)
    return replace(clock, mhz=round(megahertz), throttle=throttle)
