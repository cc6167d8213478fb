"""Compares with the anchors of a baseline: how far from them its next runs are, and whether a slower case is too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from warpwatch.compare.doubts import disturbance
from warpwatch.compare.reference import on_gpu
from warpwatch.runs.anchors import read_anchors, same_work
from warpwatch.runs.record import CaseRecord, RunRecord, by_gpu
from warpwatch.verdict.process_effects import ProcessEffect, process_effect
from warpwatch.verdict.rule import BETWEEN_DAYS, Decision, Verdict, decide, learn, unpaired

MOST_NAMED = 10
FEWEST = 3  # processes of an anchor's day beside which a case is not slower


@dataclass(frozen=True)
class Distance:
    """Distance of the runs of a GPU from one of its anchors, by case: new over old."""

    anchor: RunRecord
    effects: Sequence[ProcessEffect]
    decisions: Mapping[str, Decision]

    @classmethod
    def of(cls, runs: Sequence[RunRecord], anchor: RunRecord) -> Distance:
        """Compare runs with an anchor of their GPU, over the cases of the same work."""
        cases = {
            name: timed
            for name, timed in on_gpu(anchor).items()
            if all(same_work(timed.facts, run.cases[name].facts) for run in runs if name in run.cases)
        }
        old = {name: median(_processes(timed)) for name, timed in cases.items()}
        new = [{name: median(run.cases[name].samples) for name in old if name in run.cases} for run in runs]
        effects = [process_effect(old, times) for times in new]
        aligned = [{n: own.remove(t) for n, t in times.items()} for own, times in zip(effects, new, strict=True)]
        swapped = {}  # so that floors are of the new side, whose processes are those that will be compared with
        for name, timed in cases.items():
            if own := [times[name] for times in aligned if name in times]:
                effect = unpaired(own, _processes(timed))
                swapped[name] = replace(effect, floor=BETWEEN_DAYS, processes=min(len(own), effect.processes))
        found = decide(swapped, learn(swapped.values())) if swapped else {}
        return cls(anchor, effects, {name: _turned(decision) for name, decision in found.items()})

    def lines(self) -> Iterator[str]:
        """Yield what differs: what all cases do, then the cases that differ, the slowest first."""
        day, path = self.anchor.day, self.anchor.path.name
        factor = math.exp(fmean(math.log(effect.factor) for effect in self.effects))
        if abs(factor - 1) > BETWEEN_DAYS:
            change = f"{100 * (factor - 1):+.1f} %"
            yield f"{self.anchor.gpu_uuid}: all cases {change} from the anchor of {day} ({path}), at the same work"
        far = [name for name, each in self.decisions.items() if each.verdict in (Verdict.SLOWER, Verdict.FASTER)]
        far.sort(key=lambda name: -self.decisions[name].ratio)
        for name in far[:MOST_NAMED]:
            yield f"{name}: {self.decisions[name].change} from its anchor of {day} ({path}), at the same work"
        if far[MOST_NAMED:]:
            yield f"... and {len(far) - MOST_NAMED} more cases that differ from the anchor of {day} ({path})"


def _processes(timed: CaseRecord) -> list[float]:
    """Return the median of each process of an anchor's day."""
    return [median(timed.samples), *map(median, timed.facts.again)]


def _turned(decision: Decision) -> Decision:
    """Return the decision as if old were new."""
    verdict = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}.get(decision.verdict, decision.verdict)
    ratio, low, high = 1 / decision.ratio, 1 / decision.high, 1 / decision.low
    before, after = decision.after, decision.before
    return replace(decision, verdict=verdict, before=before, after=after, ratio=ratio, low=low, high=high)


def distances(runs: Sequence[RunRecord], anchors: Sequence[RunRecord]) -> list[Distance]:
    """Compare runs with the anchors of their GPUs; anchors of other GPUs say nothing of them."""
    parts = [part for run in runs for part in by_gpu(run)]
    own = [(anchor, [part for part in parts if part.gpu_uuid == anchor.gpu_uuid]) for anchor in anchors]
    return [Distance.of(parts, anchor) for anchor, parts in own if parts]


def beside_anchors(
    decisions: Mapping[str, Decision], reference: Mapping[str, float], past: Sequence[RunRecord], gpu_uuid: str
) -> dict[str, Decision]:
    """Return decisions in which a case is slower only if it is slower than its anchor too, beyond what days differ by.

    Of a baseline that was recorded in a fast night, everything later is slower. ``reference``: the baseline's times,
    from its runs ``past``. Fewer than FEWEST processes of a day tell nothing: one in twenty shows a slower mode.
    """
    decided = dict(decisions)
    slower = [name for name, each in decisions.items() if each.verdict == Verdict.SLOWER]
    present = {name: timed.facts for run in past for name, timed in run.cases.items()}
    for anchor in read_anchors(past[0].path.parent) if slower else ():
        same = {n: t for n, t in on_gpu(anchor).items() if n in reference and same_work(t.facts, present[n])}
        cases = {n: t for n, t in same.items() if len(_processes(t)) >= FEWEST and not disturbance(t.facts)}
        if anchor.gpu_uuid != gpu_uuid or cases.keys().isdisjoint(slower):
            continue
        times = {name: median(_processes(timed)) for name, timed in cases.items()}
        effect = process_effect({name: reference[name] for name in times}, times)
        for name in times.keys() & slower:
            each = decisions[name]
            change = each.after / effect.remove(times[name]) - 1
            if change < max(each.floor, BETWEEN_DAYS):
                reason = f"{100 * change:+.1f} % from its anchor of {anchor.day}: the baseline's runs were faster"
                decided[name] = replace(each, verdict=Verdict.UNSURE, reason=reason)
    return decided
