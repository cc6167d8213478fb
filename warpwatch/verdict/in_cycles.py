"""Decides about a case whose clock was kept down on both sides: by time and by cycles.

A power cap lowers the clock of both sides of a pair alike, but not to the last per cent: the side that draws more power
has the lower clock. So the time may differ where the work does not, and the work where the time does not. Both must
agree. Each alone keeps its probability of error, and to ask for both at once can only lower it (Berger 1982).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from warpwatch.verdict.rule import Decision, Verdict


def in_time_and_cycles(time: Decision, cycles: Decision, why: str) -> Decision:
    """Combine what times and cycles say of a case. ``why``: what kept its clock down."""
    if math.isnan(cycles.ratio):
        return time
    change = f"in cycles {100 * (cycles.ratio - 1):+.1f} %; {why}"
    if time.verdict == cycles.verdict:
        reason = "" if time.verdict == Verdict.SAME else "; ".join(filter(None, [time.reason, change]))
        return replace(time, reason=reason)
    said = time.reason or cycles.reason or "time and cycles do not agree"
    return replace(time, verdict=Verdict.UNSURE, reason=f"{said}; {change}")


def combine(
    times: Mapping[str, Decision], cycles: Mapping[str, Decision], reasons: Mapping[str, str]
) -> dict[str, Decision]:
    """Combine the decisions about cases. ``reasons``: what kept the clock down, by case; others stay as they are."""
    return {
        name: in_time_and_cycles(decision, cycles[name], reasons[name]) if name in reasons else decision
        for name, decision in times.items()
    }
