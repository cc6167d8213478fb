"""Reasons why a slowdown may not be the kernel's: clocks, throttling, others' work, unchanged machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpwatch.runs.identity import Difference, difference
from warpwatch.runs.launched import LAUNCHES, Launched
from warpwatch.runs.record import Facts
from warpwatch.timing.nvml import STEADY_CLOCK

UNCHANGED = "its machine code, launches, arguments and inputs are the baseline's: GPU, driver or memory, not the kernel"

# Five microseconds of printf, in kernels of 45 to 150, depend on how many GPUs the machine has (H100 and H200).
PRINTS = "it prints, and how long that takes depends on the machine: pairs alone judge its time"


def is_unchanged(facts: Facts, past: Sequence[Facts]) -> bool:
    """Tell whether all of the past are known to have done the same work."""
    return not change_of_work(facts, past)


def change_of_work(facts: Facts, past: Sequence[Facts]) -> Difference:
    """Say what differs from the work of the past, from that of its newest first. All of the past must be the same."""
    differences = (_between(other, facts) for other in reversed(past))
    return next(filter(None, differences), Difference()) if past else difference(None, facts.identity)


def _between(old: Facts, new: Facts) -> Difference:
    """Compare two works, and what calls launched: library and source may be the same where machine code is not."""
    declared, launches = difference(old.identity, new.identity), launched_in(old).changes(launched_in(new))
    return replace(declared, changed={**declared.changed, LAUNCHES: (launches,)}) if launches else declared


def launched_in(facts: Facts) -> Launched:
    """Return what a call launched."""
    return Launched(words=facts.launches, kernels=facts.kernels)


def disturbance(facts: Facts) -> str:
    """Return a sentence about others' work, throttling, or a clock that changed meanwhile, or an empty text."""
    if facts.other_processes:
        return f"another process was at work on the GPU: {', '.join(facts.other_processes)}"
    throttled = sorted({reason for side in facts.throttle for reason in side})
    if throttled:
        return f"clock throttled: {', '.join(throttled)}"
    clocks = [mhz for mhz in facts.sm_clock_mhz if mhz]
    if clocks and min(clocks) < STEADY_CLOCK * max(clocks):
        return f"SM clock between {min(clocks):,} and {max(clocks):,} MHz while it was measured"
    return ""
