"""Decides which kernels take more energy than those of another revision, from pairs that were measured with --energy.

The rule is that of times (verdict/rule.py), on joules: a noise floor, a family-wise error rate over all cases, and five
processes before anything is called. More energy fails no run, unless that is asked for.
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
from warpwatch.verdict.rule import Decision, Effect, Prior, Verdict, decide, paired

# The standard deviation of a process's ratio of energies is the same for all kernels: 0.3 to 0.7 % of six on an H100.
PRIOR = Prior(0.005, 0.0, 4.0)
WORDS = {Verdict.SLOWER: "more", Verdict.FASTER: "less", Verdict.SAME: "same", Verdict.UNSURE: "unsure"}


def energy_effect(taken: Sequence[PairSamples], doubt: str) -> Effect | None:
    """Combine the processes that measured energy; None where none did. Effect.before and .after are in joules."""
    joules = [samples.beside["joules"] for samples in taken if "joules" in samples.beside]
    if not joules:
        return None
    logs = [fmean(map(math.log, new)) - fmean(map(math.log, old)) for old, new in joules]
    before, after = (fmean(map(fmean, side)) for side in zip(*joules, strict=True))
    others = clock_facts([clock for samples in taken for clock in samples.clocks]).get("other_processes", ())
    why = disturbance(Facts(other_processes=others)) or doubt
    return replace(paired(before, after, logs), doubt=why, no_gain=why)


def decide_energy(
    taken: Mapping[str, Sequence[PairSamples]], doubt: str, looks: int, parts: int
) -> dict[str, Decision]:
    """Decide about the energies of all pairs that have any, from their samples so far; as ``decide`` does of times."""
    effects = {name: effect for name, samples in taken.items() if (effect := energy_effect(samples, doubt))}
    return decide(effects, PRIOR, looks=looks, parts=parts)


def line(decision: Decision) -> str:
    """Line on a case's energy: ``more energy: 51.20 -> 53.40 mJ a launch, +4.3 % (95 %: +4.1 to +4.5), ...``."""
    joules = f"{millijoules(decision.before)} -> {millijoules(decision.after)} mJ a launch"
    figures = f"{WORDS[decision.verdict]} energy: {joules}, {decision.change}, floor {100 * decision.floor:.1f} %"
    return "; ".join(filter(None, [figures, decision.reason]))


def millijoules(joules: float) -> str:
    """Write joules as millijoules with four digits."""
    value = 1e3 * joules
    return f"{value:,.{max(0, 3 - math.floor(math.log10(value)))}f}" if value > 0 else "0"


def takes_more(decisions: Mapping[str, Decision]) -> bool:
    """Tell whether any kernel takes more energy than before."""
    return any(decision.verdict == Verdict.SLOWER for decision in decisions.values())


def lines(decisions: Mapping[str, Decision]) -> list[str]:
    """Return counts of the verdicts, then a line for each case whose energy is not the same."""
    if not decisions:
        return []
    counts = Counter(WORDS[decision.verdict] for decision in decisions.values())
    summary = ", ".join(f"{counts[word]} {word}" for word in WORDS.values() if counts[word])
    differ = [(name, decision) for name, decision in decisions.items() if decision.verdict != Verdict.SAME]
    differ.sort(key=lambda pair: -pair[1].ratio)
    return [f"energy of {len(decisions)} kernels: {summary}", *(f"{name}: {line(other)}" for name, other in differ)]
