"""Lists kernels that take more energy than another revision's. The rule for times decides, on joules."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from warpwatch.verdict.rule import Decision, Verdict

WORDS = {Verdict.SLOWER: "more", Verdict.FASTER: "less", Verdict.SAME: "same", Verdict.UNSURE: "unsure"}


def line(decision: Decision) -> str:
    """Line on a case's energy: ``more energy: 51.20 -> 53.40 mJ a launch, +4.3 % (95 %: +4.1 to +4.5), ...``."""
    joules = f"{millijoules(decision.before)} -> {millijoules(decision.after)} mJ a launch"
    figures = f"{WORDS[decision.verdict]} energy: {joules}, {decision.change}, floor {100 * decision.floor:.1f} %"
    return "; ".join(filter(None, [figures, decision.reason]))


def millijoules(joules: float) -> str:
    """Write joules as millijoules with four digits."""
    value = 1e3 * joules
    return f"{value:,.{max(0, 3 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def lines(decisions: Mapping[str, Decision]) -> list[str]:
    """Return counts of the verdicts, then a line for each case whose energy is not the same."""
    if not decisions:
        return []
    counts = Counter(WORDS[decision.verdict] for decision in decisions.values())
    summary = ", ".join(f"{counts[word]} {word}" for word in WORDS.values() if counts[word])
    differ = [(name, decision) for name, decision in decisions.items() if decision.verdict != Verdict.SAME]
    differ.sort(key=lambda pair: -pair[1].ratio)
    return [f"energy of {len(decisions)} kernels: {summary}", *(f"{name}: {line(other)}" for name, other in differ)]
