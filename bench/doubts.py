"""Why a slowdown would not be the kernel's: clocks, throttling, and machine code that did not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

SLOW_CLOCK = 0.985  # lowest over highest clock of a case: more of a change and its times are not of one kind
SAME_CODE = "its machine code and launch are the baseline's: GPU, driver or memory, not the kernel"
CODE = ("image_hash", "grid", "dynamic_shared_bytes", "library")  # the same in all of these is the same work

Facts = Mapping[str, Any]


def same_code(facts: Facts, past: Sequence[Facts]) -> bool:
    """The machine code and the launch of the newest of the past, as far as that says what they were."""
    return bool(past) and "image_hash" in past[-1] and all(facts.get(key) == past[-1].get(key) for key in CODE)


def slow_clock(facts: Facts) -> str:
    """What throttled this case, or how its clock changed while it was measured, or nothing."""
    throttled = sorted({reason for side in facts.get("throttle", ()) for reason in side})
    if throttled:
        return f"clock throttled: {', '.join(throttled)}"
    clocks = [mhz for mhz in facts.get("sm_clock_mhz", ()) if mhz]
    if clocks and min(clocks) < SLOW_CLOCK * max(clocks):
        return f"SM clock between {min(clocks):,} and {max(clocks):,} MHz while it was measured"
    return ""


def clock_ratio(facts: Facts, past: Sequence[Facts]) -> float:
    """SM clock now over that of the past, by NVML; 1 where either is unknown."""
    then = [mhz for other in past for mhz in other.get("sm_clock_mhz", ()) if mhz]
    now = [mhz for mhz in facts.get("sm_clock_mhz", ()) if mhz]
    return median(now) / median(then) if then and now else 1.0


def doubt(facts: Facts, past: Sequence[Facts]) -> str:
    """The reason to doubt a slowdown of this case, or nothing."""
    if same_code(facts, past):
        return slow_clock(facts) or SAME_CODE
    return slow_clock(facts)
