"""Tells from the clocks beside a pair's samples whether the SM clock was kept down while they were taken.

NVML says that a power cap is at work for 0.36 to 0.46 s after the last launch that drew too much, while the SM clock is
back within 1.5 % of its highest after 0.05 to 0.13 s (an H100; 0.25 to 1 s of float64 products, see
tests/timing/after_a_cap.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from warpwatch.timing.clocks import LEAST_CLOCK, POWER_CAP, STEADY_CLOCK, Clock
from warpwatch.timing.pair_samples import PairSamples

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
