"""Tells from the clocks beside a pair's samples whether the SM clock was kept down while they were taken.

NVML says that a power cap is at work for 0.36 to 0.46 s after the last launch that drew too much, while the SM clock is
back within 1 % of its highest after 0.05 s (0.25 s of float64 products) to 0.12 s (1 s of them; an H100).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from warpwatch.timing.clocks import LEAST_CLOCK, POWER_CAP, Clock
from warpwatch.timing.pair_samples import PairSamples

STEADY_CLOCK = 0.985  # lowest over highest clock of a pair's samples, and lowest over the GPU's highest: see doubts.py
# What the mean clocks of the two sides may differ by, a fifth of the smallest noise floor: the side that draws more
# power has the lower clock under a cap.
SIDES_APART = 0.001
LAST = 2  # samples of each side whose clocks tell what the clock is at the end


def with_clocks(pairs: PairSamples, before: Clock, after: Clock, later: Clock, highest: int) -> PairSamples:
    """Return a pair with the clocks before and after its samples, and whether it keeps the clock down.

    Those are NVML's. But where NVML said before the first sample that a power cap is at work, which then is an earlier
    pair's fault, and the clocks beside the samples were high and steady, they are the clocks of the first and the last
    samples. ``later``: NVML's after the last results were checked, because it says up to 0.1 s late that the clock is
    kept down. ``highest``: the GPU's highest SM clock in MHz.
    """
    if not pairs.has_clocks:
        return replace(pairs, clocks=(before, after))
    if POWER_CAP in before.throttle and is_steady(pairs.old_mhz, pairs.new_mhz, highest):
        first, last = ((*pairs.old_mhz[part], *pairs.new_mhz[part]) for part in (slice(LAST), slice(-LAST, None)))
        return replace(pairs, clocks=(_measured(before, first), _measured(after, last)), keeps_clock_down=False)
    end = statistics.median((*pairs.old_mhz[-LAST:], *pairs.new_mhz[-LAST:]))
    fell = not before.throttle and end < LEAST_CLOCK * before.mhz
    return replace(pairs, clocks=(before, after), keeps_clock_down=fell or bool(after.throttle or later.throttle))


def is_steady(old: Sequence[float], new: Sequence[float], highest: int) -> bool:
    """Tell whether the clocks in MHz beside the samples of both sides were high, steady, and alike on both sides."""
    lowest, apart = min(*old, *new), statistics.fmean(new) / statistics.fmean(old) - 1
    return lowest >= STEADY_CLOCK * max(*old, *new, highest) and abs(apart) <= SIDES_APART


def _measured(clock: Clock, megahertz: Sequence[float]) -> Clock:
    """Return a clock as it was measured, without the power cap that NVML still tells of."""
    throttle = tuple(reason for reason in clock.throttle if reason != POWER_CAP)
    return replace(clock, mhz=round(statistics.median(megahertz)), throttle=throttle)
