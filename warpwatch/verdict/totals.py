"""Adds up the verdicts of cases by how often each runs: arithmetic without files, clock or pytest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from warpwatch.verdict.rule import Decision, Verdict


@dataclass(frozen=True, kw_only=True)
class Total:
    """Weighted total of cases. Times are in seconds; a ratio is new over old, with its 95 % interval.

    ``before``, ``after``: the sum of medians, each as often as its case runs. ``ratio``: theirs, to which each case
    contributes its share of the time before. ``mean``: the geometric mean of the cases' ratios, to which each
    contributes as often as it runs. ``shares``: of the time before, by case. ``reason``: why there are no figures, or
    what they lack. It fails no run.
    """

    before: float | None = None
    after: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def total(weights: Mapping[str, float], decisions: Mapping[str, Decision], untimed: int = 0) -> Total | None:
    """Add up the cases that have weights; None where none of them was measured.

    ``untimed``: how many more shapes have weights, on which the build is not timed.

    The errors of cases are not taken for independent: a process, a clock or a day moves many of them together. So each
    limit of the interval is the sum, or the mean, of the cases' own limits. Where errors are normal, it covers 95 % at
    least, however they depend on each other, and exactly 95 % where all move together. Shares count as exact.
    """
    known = {name: decisions[name] for name in weights if name in decisions and _has_figures(decisions[name])}
    if not known:
        return None
    if left := len(weights) - len(known):
        return Total(reason=f"{left} of {len(weights)} shapes with weights were not compared")
    times = {name: weights[name] * each.before for name, each in known.items()}
    before, runs = math.fsum(times.values()), math.fsum(weights.values())
    shares = {name: time / before for name, time in times.items()}

    def of_time(field: str) -> float:
        return math.fsum(share * getattr(known[name], field) for name, share in shares.items())

    def of_runs(field: str) -> float:
        return math.exp(math.fsum(weights[name] / runs * math.log(getattr(known[name], field)) for name in known))

    ratio = of_time("ratio")
    return Total(
        before=before,
        after=before * ratio,
        ratio=ratio,
        low=of_time("low"),
        high=of_time("high"),
        mean=of_runs("ratio"),
        mean_low=of_runs("low"),
        mean_high=of_runs("high"),
        shares=shares,
        reason=_reason(sum(each.verdict == Verdict.UNSURE for each in known.values()), len(known), untimed),
    )


def _reason(unsure: int, known: int, untimed: int) -> str:
    """Say what a total lacks."""
    parts = [f"{unsure} of {known} shapes are unsure"] * bool(unsure)
    parts += [f"without {untimed} of {known + untimed} shapes with weights, on which it is not timed"] * bool(untimed)
    return "; ".join(parts)


def _has_figures(decision: Decision) -> bool:
    return not math.isnan(decision.ratio) and not math.isnan(decision.before)
