"""Decides which kernels take more energy than those of another revision, from pairs that were measured with --energy.

The rule is that of times (verdict/rule.py), on joules: a noise floor, a family-wise error rate over all cases, and five
processes before anything is called. What is found fails no run, unless that is asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from warpwatch.compare.doubts import disturbance
from warpwatch.runs.record import Facts
from warpwatch.timing.nvml import clock_facts
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.verdict.rule import Decision, Effect, Prior, Verdict, paired

# The standard deviation of a process's ratio of energies is the same for all kernels: 0.3 to 0.7 % of six on an H100.
PRIOR = Prior(0.005, 0.0, 4.0)
WORDS = {Verdict.SLOWER: "more", Verdict.FASTER: "less", Verdict.SAME: "same", Verdict.UNSURE: "unsure"}


def energy_effect(taken: Sequence[PairSamples], doubt: str) -> Effect | None:
    """Combine the processes that measured energy; None where none did. Effect.before and .after are in joules."""
    joules = [each.beside["joules"] for each in taken if "joules" in each.beside]
    if not joules:
        return None
    logs = [fmean(map(math.log, new)) - fmean(map(math.log, old)) for old, new in joules]
    before, after = (fmean(map(fmean, side)) for side in zip(*joules, strict=True))
    others = clock_facts([clock for each in taken for clock in each.clocks]).get("other_processes", ())
    why = disturbance(Facts(other_processes=others)) or doubt
    return replace(paired(before, after, logs), doubt=why, no_gain=why)


def line(decision: Decision) -> str:
    """Line on a case's energy: ``more energy: 51.20 -> 53.40 mJ a launch, +4.3 % (95 %: +4.1 to +4.5), ...``."""
    joules = f"{millijoules(decision.before)} -> {millijoules(decision.after)} mJ a launch"
    said = f"{WORDS[decision.verdict]} energy: {joules}, {decision.change}"
    return "; ".join(filter(None, [f"{said}, floor {100 * decision.floor:.1f} %", decision.reason]))


def millijoules(joules: float) -> str:
    """Write joules as millijoules with four digits."""
    value = 1e3 * joules
    return f"{value:,.{max(0, 3 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def takes_more(decisions: Mapping[str, Decision]) -> bool:
    """Tell whether any kernel takes more energy than before."""
    return any(decision.verdict == Verdict.SLOWER for decision in decisions.values())


def lines(decisions: Mapping[str, Decision]) -> list[str]:
    """Counts by what was found, then a line for each case whose energy is not the same."""
    if not decisions:
        return []
    counts = Counter(WORDS[decision.verdict] for decision in decisions.values())
    said = ", ".join(f"{counts[word]} {word}" for word in WORDS.values() if counts[word])
    differ = [(name, each) for name, each in decisions.items() if each.verdict != Verdict.SAME]
    differ.sort(key=lambda pair: -pair[1].ratio)
    return [f"energy of {len(decisions)} kernels: {said}", *(f"{name}: {line(each)}" for name, each in differ)]
