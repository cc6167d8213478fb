"""Gives the verdicts of a saved run: those that it recorded, or worked out again from the samples of an older one.

Runs of version 0 recorded the words of their verdicts alone. Ratio, interval and noise floor are worked out by the same
rule, with the baseline of now; no kernel runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from warpwatch.compare.doubts import disturbance
from warpwatch.compare.pairs import LOOKS, combined
from warpwatch.compare.processes import Processes, SampledCase, relevant_runs
from warpwatch.compare.reference import difference, on_gpu
from warpwatch.compare.with_baseline import sort_out, taken_out
from warpwatch.runs.record import RunRecord, Sides, by_gpu
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.verdict.rule import Decision, Effect, combine, decide, learn


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


def against_baseline(run: RunRecord, baseline: Sequence[RunRecord]) -> Verdicts:
    """Compare a saved run with a baseline, without the run itself."""
    others = [other for other in baseline if (other.when, other.gpu_uuid) != (run.when, run.gpu_uuid)]
    if not others:
        return Verdicts()
    parts = by_gpu(run)
    verdicts = [_part(part, others, len(parts)) for part in parts]
    past = set().union(*map(on_gpu, others))
    return Verdicts(
        decisions={name: each for part in verdicts for name, each in part.decisions.items()},
        past=list({id(other): other for part in verdicts for other in part.past}.values()),
        notes=list(dict.fromkeys(note for part in verdicts for note in part.notes)),
        alarm="; ".join(part.alarm for part in verdicts if part.alarm),
        missing=sorted(past - run.cases.keys() - set(run.failed)) if run.whole else (),
    )


def _part(run: RunRecord, baseline: Sequence[RunRecord], parts: int) -> Verdicts:
    """Compare the cases that one GPU measured."""
    cases = {name: SampledCase(timed.facts, [timed.samples, *timed.facts.again]) for name, timed in on_gpu(run).items()}
    past = relevant_runs(baseline, run.gpu_uuid)
    reason = difference(baseline, msgspec.to_builtins(run.gpu))
    decisions, names = sort_out(cases, baseline, past, reason)
    if not names:
        return Verdicts(decisions=decisions, past=past, notes=[reason] if reason else [])
    processes = Processes(past, {name: cases[name] for name in names}, run.gpu_uuid, run.gpu.note, parts)
    for number in range(1, max(len(cases[name].processes) for name in names)):
        processes.absorb({n: cases[n].processes[number] for n in names if len(cases[n].processes) > number})
    processes.by_pairs.clear()  # runs of version 0 measured none
    processes.settle([name for name in names if len(cases[name].processes) > 1])
    decisions |= processes.decide()
    effect = processes.effects[0]
    return Verdicts(
        decisions=decisions,
        past=past,
        notes=list(filter(None, [taken_out(effect), processes.floor_note()])),
        alarm=effect.alarm(processes.baseline_effects),
    )


def side_by_side(run: RunRecord) -> Verdicts:
    """Decide about the pairs of a run that was measured side by side with another revision."""
    effects, in_cycles, reasons, note = dict[str, Effect](), dict[str, Effect](), dict[str, str](), run.gpu.note
    for name, timed in on_gpu(run).items():
        if not (sides := timed.facts.pairs) or not sides.old:
            continue
        taken, why = _processes(sides), disturbance(timed.facts)
        cycles = [samples.log_cycles for samples in taken]
        known = [log for log in cycles if log is not None]
        if why and len(known) == len(taken) and not timed.facts.other_processes:
            in_cycles[name] = replace(combined(taken, known), doubt=note, no_gain=note)
            reasons[name], why = why, ""
        effects[name] = replace(combined(taken, [each.log for each in taken]), doubt=why or note, no_gain=note)
    prior = learn(list(effects.values()))
    by_cycles = decide(effects | in_cycles, prior, looks=LOOKS)
    return Verdicts(decisions=combine(decide(effects, prior, looks=LOOKS), by_cycles, reasons))


def _processes(sides: Sides) -> list[PairSamples]:
    """Return the samples of each process, with the clocks beside them where they were read."""
    unread = ((),) * len(sides.old)
    clocks = zip(sides.old_mhz or unread, sides.new_mhz or unread, strict=True)
    return [
        PairSamples(old=old, new=new, beside={"mhz": mhz})
        for old, new, mhz in zip(sides.old, sides.new, clocks, strict=True)
    ]
