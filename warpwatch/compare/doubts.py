"""Finds reasons why a slowdown would not be the kernel's: clocks, throttling, others' work, unchanged machine code."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from warpwatch.runs.saved import Facts
from warpwatch.timing.clocks import STEADY_CLOCK

SAME_CODE = "its machine code and launch are the baseline's: GPU, driver or memory, not the kernel"


def same_code(facts: Facts, past: Sequence[Facts]) -> bool:
    """True where machine code and launch are those of the newest of the past; False where it does not record them."""
    return bool(past) and past[-1].image_hash is not None and _work(facts) == _work(past[-1])


def _work(facts: Facts) -> tuple[object, ...]:
    """Facts that are equal for two launches that do the same work."""
    return facts.image_hash, facts.grid, facts.dynamic_shared_bytes, facts.library


def disturbance(facts: Facts) -> str:
    """Sentence about others' work, throttling, or a clock that changed while a case was measured, or nothing."""
    if facts.other_processes:
        return f"another process was at work on the GPU: {', '.join(facts.other_processes)}"
    throttled = sorted({reason for side in facts.throttle for reason in side})
    if throttled:
        return f"clock throttled: {', '.join(throttled)}"
    clocks = [mhz for mhz in facts.sm_clock_mhz if mhz]
    if clocks and min(clocks) < STEADY_CLOCK * max(clocks):
        return f"SM clock between {min(clocks):,} and {max(clocks):,} MHz while it was measured"
    return ""


def clock_ratio(facts: Facts, past: Sequence[Facts]) -> float:
    """Ratio of the SM clock now to that of the past, by NVML; 1 where either is unknown."""
    then = [mhz for other in past for mhz in other.sm_clock_mhz if mhz]
    now = [mhz for mhz in facts.sm_clock_mhz if mhz]
    return median(now) / median(then) if then and now else 1.0


def doubt(facts: Facts, past: Sequence[Facts]) -> str:
    """Reason to doubt a slowdown of this case, or nothing."""
    if same_code(facts, past):
        return disturbance(facts) or SAME_CODE
    return disturbance(facts)
