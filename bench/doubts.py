"""Why a slowdown would not be the kernel's: clocks, throttling, and machine code that did not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SLOW_CLOCK = 0.985  # of the clock before: a clock this much lower explains what it makes slower
SAME_CODE = "its machine code and launch are the baseline's: GPU, driver or memory, not the kernel"
CODE = ("image_hash", "grid", "dynamic_shared_bytes", "library")  # the same in all of these is the same work

Facts = Mapping[str, Any]


def same_code(facts: Facts, past: Sequence[Facts]) -> bool:
    """The machine code and the launch of the newest of the past, as far as that says what they were."""
    return bool(past) and "image_hash" in past[-1] and all(facts.get(key) == past[-1].get(key) for key in CODE)


def slow_clock(facts: Facts, past: Sequence[Facts]) -> str:
    """What the clock says against a slowdown of this case, or nothing."""
    throttled = sorted({reason for side in facts.get("throttle", ()) for reason in side})
    if throttled:
        return f"clock throttled: {', '.join(throttled)}"
    then = [mhz for other in past for mhz in other.get("sm_clock_mhz", ()) if mhz]
    now = [mhz for mhz in facts.get("sm_clock_mhz", ()) if mhz]
    if then and now and min(now) < SLOW_CLOCK * min(then):
        return f"SM clock {min(now):,} MHz, where the baseline had {min(then):,}"
    return ""


def doubt(facts: Facts, past: Sequence[Facts]) -> str:
    """The reason to doubt a slowdown of this case, or nothing."""
    if same_code(facts, past):
        return slow_clock(facts, past) or SAME_CODE
    return slow_clock(facts, past)
