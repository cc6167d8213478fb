"""Gives the verdicts of a saved run: those that it recorded, or worked out again from the samples of an older one.

Runs of version 0 recorded the words of their verdicts alone. Ratio, interval and noise floor are worked out by the same
rule, with the baseline of now; no kernel runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

import msgspec

from warpwatch.compare.doubts import disturbance
from warpwatch.compare.reference import difference
from warpwatch.compare.with_baseline import Processes, relevant_runs, sort_out, taken_out
from warpwatch.runs.record import CaseRecord, Facts, RunRecord, Sides, by_gpu
from warpwatch.timing.pair_samples import log_ratio, log_ratio_in_cycles
from warpwatch.verdict.rule import (
    MAX_PAIR_PROCESSES,
    SCREENING_PROCESSES,
    Decision,
    Effect,
    combine,
    decide,
    learn,
    paired,
)


@dataclass(frozen=True, kw_only=True)
class SavedCase:
    """Case of a saved run: its facts, and the samples of each process that measured it."""

    facts: Facts
    processes: Sequence[Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """Verdicts of a saved run.

    ``past``: the runs that it was compared with; empty with another revision. ``notes``: what holds for the run as a
    whole, and ``alarm``: what changed for all cases together. ``missing``: cases that the baseline has and a whole run
    has not.
    """

    decisions: Mapping[str, Decision] = field(default_factory=dict)
    past: Sequence[RunRecord] = ()
    notes: Sequence[str] = ()
    alarm: str = ""
    missing: Sequence[str] = ()


def verdicts_of(run: RunRecord, baseline: Sequence[RunRecord]) -> Verdicts:
    """Return the verdicts of a saved run. ``baseline``: of its GPU, as it is now."""
    if run.version:
        past = [other for other in baseline if other.path.name in set(run.past)]
        return Verdicts(decisions=run.decisions, past=past, notes=run.notes, alarm=run.alarm, missing=run.missing)
    again = side_by_side(run) if run.against else against_baseline(run, baseline)
    figures = {name: _as_recorded(run, name, decision) for name, decision in again.decisions.items()}
    return replace(again, decisions={**run.decisions, **figures})


def _as_recorded(run: RunRecord, name: str, decision: Decision) -> Decision:
    """Return the figures for a verdict that a run recorded; without them where now they say something else."""
    recorded = run.decisions.get(name, decision)
    known = decision if recorded.verdict == decision.verdict else recorded
    return replace(known, explanation=run.cases[name].facts.explanation)


def on_gpu(run: RunRecord) -> Iterator[tuple[str, CaseRecord]]:
    """Yield the cases of a run that a GPU ran, not the host."""
    yield from ((name, timed) for name, timed in run.cases.items() if timed.facts.cache != "host")


def against_baseline(run: RunRecord, baseline: Sequence[RunRecord]) -> Verdicts:
    """Compare a saved run with a baseline, without the run itself."""
    others = [other for other in baseline if (other.when, other.gpu_uuid) != (run.when, run.gpu_uuid)]
    if not others:
        return Verdicts()
    parts = by_gpu(run)
    verdicts = [_part(part, others, len(parts)) for part in parts]
    past = {name for other in others for name, _ in on_gpu(other)}
    return Verdicts(
        decisions={name: each for part in verdicts for name, each in part.decisions.items()},
        past=list({id(other): other for part in verdicts for other in part.past}.values()),
        notes=list(dict.fromkeys(note for part in verdicts for note in part.notes)),
        alarm="; ".join(part.alarm for part in verdicts if part.alarm),
        missing=sorted(past - run.cases.keys() - set(run.failed)) if run.whole else (),
    )


def _part(run: RunRecord, baseline: Sequence[RunRecord], parts: int) -> Verdicts:
    """Compare the cases that one GPU measured."""
    cases = {name: _saved(timed) for name, timed in on_gpu(run)}
    past = relevant_runs(baseline, run.gpu_uuid)
    reason = difference(baseline, msgspec.to_builtins(run.gpu))
    decisions, names = sort_out(cases, baseline, past, reason)
    if not names:
        return Verdicts(decisions=decisions, past=past, notes=[reason] if reason else [])
    processes = Processes(past, {name: cases[name] for name in names}, run.gpu_uuid, run.gpu.note, parts)
    for number in range(1, max(len(cases[name].processes) for name in names)):
        processes.absorb({n: cases[n].processes[number] for n in names if len(cases[n].processes) > number})
    processes.settle([name for name in names if len(cases[name].processes) > 1])
    decisions |= processes.decide()
    effect = processes.effects[0]
    return Verdicts(
        decisions=decisions,
        past=past,
        notes=list(filter(None, [taken_out(effect), processes.floor_note()])),
        alarm=effect.alarm(processes.baseline_effects),
    )


def _saved(timed: CaseRecord) -> SavedCase:
    return SavedCase(facts=timed.facts, processes=[timed.samples, *timed.facts.again])


def side_by_side(run: RunRecord) -> Verdicts:
    """Decide about the pairs of a run that was measured side by side with another revision."""
    effects, in_cycles, reasons = dict[str, Effect](), dict[str, Effect](), dict[str, str]()
    for name, timed in on_gpu(run):
        sides, why = timed.facts.pairs, disturbance(timed.facts)
        if sides and sides.old:
            logs = [log_ratio(old, new) for old, new in zip(sides.old, sides.new, strict=True)]
            cycles = _logs_in_cycles(sides)
            before, after = (fmean(map(median, side)) for side in (sides.old, sides.new))
            if why and cycles and not timed.facts.other_processes:
                in_cycles[name] = replace(paired(before, after, cycles), doubt=run.gpu.note, no_gain=run.gpu.note)
                reasons[name], why = why, ""
            effects[name] = replace(paired(before, after, logs), doubt=why or run.gpu.note, no_gain=run.gpu.note)
    looks, prior = MAX_PAIR_PROCESSES - SCREENING_PROCESSES + 1, learn(list(effects.values()))
    by_cycles = decide(effects | in_cycles, prior, looks=looks)
    return Verdicts(decisions=combine(decide(effects, prior, looks=looks), by_cycles, reasons))


def _logs_in_cycles(sides: Sides) -> list[float]:
    """Return each process's ratio of cycles as a logarithm; empty where a clock was not read beside samples."""
    times, clocks = zip(sides.old, sides.new, strict=True), zip(sides.old_mhz, sides.new_mhz, strict=False)
    logs = [log_ratio_in_cycles(own, mhz) for own, mhz in zip(times, clocks, strict=False)]
    known = [log for log in logs if log is not None]
    return known if len(known) == len(sides.old) else []
