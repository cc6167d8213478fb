"""Lists kernels that take more energy, or more of the host's time, than another revision's.

The rule for times decides, on joules and on the host's seconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from warpwatch.verdict.rule import Decision, Verdict

WORDS = {Verdict.SLOWER: "more", Verdict.FASTER: "less", Verdict.SAME: "same", Verdict.UNSURE: "unsure"}


def millijoules(joules: float) -> str:
    """Write joules as millijoules with four digits."""
    value = 1e3 * joules
    return f"{value:,.{max(0, 3 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def microseconds(seconds: float) -> str:
    """Write seconds as microseconds."""
    return f"{1e6 * seconds:,.2f}"


@dataclass(frozen=True)
class Quantity:
    """Quantity that is measured beside times. ``write``: writes a figure in the ``unit``."""

    name: str
    unit: str
    write: Callable[[float], str]


ENERGY, HOST_TIME = Quantity("energy", "mJ", millijoules), Quantity("host time", "µs", microseconds)


def line(decision: Decision, quantity: Quantity = ENERGY) -> str:
    """Line on a case's energy: ``more energy: 51.20 -> 53.40 mJ a launch, +4.3 % (95 %: +4.1 to +4.5), ...``."""
    figures = f"{quantity.write(decision.before)} -> {quantity.write(decision.after)} {quantity.unit} a launch"
    verdict = f"{WORDS[decision.verdict]} {quantity.name}: {figures}, {decision.change}"
    return "; ".join(filter(None, [f"{verdict}, floor {100 * decision.floor:.1f} %", decision.reason]))


def lines(decisions: Mapping[str, Decision], quantity: Quantity = ENERGY) -> list[str]:
    """Return counts of the verdicts, then a line for each case whose energy or host time is not the same."""
    if not decisions:
        return []
    counts = Counter(WORDS[decision.verdict] for decision in decisions.values())
    summary = ", ".join(f"{counts[word]} {word}" for word in WORDS.values() if counts[word])
    differ = [(name, decision) for name, decision in decisions.items() if decision.verdict != Verdict.SAME]
    differ.sort(key=lambda pair: -pair[1].ratio)
    own = [f"{name}: {line(other, quantity)}" for name, other in differ]
    return [f"{quantity.name} of {len(decisions)} kernels: {summary}", *own]
