"""Judges the processes of a run by those of saved runs: noise floors, what a process does to all, who decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import exp, log
from statistics import fmean, median

from warpwatch.compare.confirmation import counted
from warpwatch.compare.doubts import PRINTS, UNCHANGED, change_of_work, disturbance
from warpwatch.runs.anchors import DAY
from warpwatch.runs.record import LONG_AGO, Facts, RunRecord, typed
from warpwatch.timing.measurement import Measured
from warpwatch.verdict.process_effects import ProcessEffect, aligned, mean_of, process_effect
from warpwatch.verdict.rule import (
    BETWEEN_DAYS,
    MAX_FLOOR,
    MIN_CONTROLS,
    SAME_WORK,
    SAVED_TIMES,
    Decision,
    Effect,
    Prior,
    Verdict,
    conformal_floor_factor,
    decide,
    expected_unsure,
    learn,
    unpaired,
)

ENOUGH_RUNS = 5  # of a baseline: more leave hardly fewer cases unsure
MIN_OWN_RUNS = 3  # with this many runs of the same GPU in the baseline, only these are compared with
MIN_GPUS = 3  # a baseline of fewer GPUs does not show how far two of them differ
# Two H200s with the same machine code: 478 of 484 cases within 4.5 %, the other six up to 24 % apart. That is the least
# floor on a GPU that the baseline does not have, unless three others and enough unchanged cases show a smaller one: of
# ten H200s, each against four of the others, the furthest of 845 cases was up to 12 floors off, in half of them 1.8.
FLOOR_BETWEEN_GPUS = 0.25
MAX_PROCESSES = 6  # the processes that measure a case that is hard to decide
# The processes of a run that measure cases whose machine code is the baseline's: these can only be the same or unsure.
# On an H200 that the baseline does not have, three processes left 26 of 867 cases unsure, and six left 22. Noise floors
# change with each process, so that other cases become unsure: one of two H200s went on to six processes for two cases.
PROCESSES_OF_UNCHANGED = 3
# The longest median, and the most bytes moved, of the unchanged cases that are measured again beside undecided ones.
CONTROL_SECONDS, CONTROL_BYTES = 1e-3, 2**29


def relevant_runs(runs: Sequence[RunRecord], gpu_uuid: str) -> list[RunRecord]:
    """Select the runs of a baseline that a GPU is compared with: its own where there are enough, else all."""
    own = [run for run in runs if run.gpu_uuid == gpu_uuid]
    return own if len(own) >= MIN_OWN_RUNS else list(runs)


def _same_day(run: RunRecord, when: datetime | None) -> bool:
    """Tell whether a run of the baseline lies within DAY of a moment; of an unknown moment, it does."""
    return when is None or (run.when is not None and abs(when - run.when) <= DAY)


@dataclass(frozen=True)
class SampledCase:
    """Case of this run or of a saved one: its facts, and samples in seconds of each process, the run's own first."""

    facts: Facts
    processes: Sequence[Sequence[float]]

    @classmethod
    def of(cls, measured: Measured) -> SampledCase:
        """Return a case that was measured now as it would be read from a saved run."""
        return cls(typed(measured.facts, Facts), measured.processes)


class Processes:
    """Comparison of the processes of this run with those of ``past``, over the cases that both have.

    ``when``: the moment of this run; None where it is unknown, and taken for that of ``past``. ``unspanned`` says why
    times of ``past`` do not show how far this run may differ from them, ``few_controls`` that cases of unchanged work
    are too few; both may be empty. ``by_pairs``: names of the cases that pairs decide then, all whose work is not known
    to be the same; elsewhere those of them that print. ``decide`` leaves them out; what no pair can decide is taken out
    of ``by_pairs``. ``controls``: names of the cases of unchanged work that show what this run does to all.
    """

    def __init__(
        self,
        past: Sequence[RunRecord],
        cases: Mapping[str, SampledCase],
        gpu_uuid: str,
        doubt: str,
        parts: int = 1,
        when: datetime | None = None,
    ) -> None:
        self.cases, self.doubt, self.parts = cases, doubt, parts
        self.recorded = {name: case.facts for name, case in cases.items()}  # beside the samples that count
        runs = [{name: median(t.samples) for name, t in run.cases.items() if name in cases} for run in past]
        self.gpu_uuids = dict.fromkeys(run.gpu_uuid for run in past)
        self.own = set(self.gpu_uuids) == {gpu_uuid}
        self.past = aligned(runs)
        if not self.own:  # each GPU counts once, however many runs it has
            self.past = [
                mean_of([own for own, run in zip(self.past, past, strict=True) if run.gpu_uuid == uuid])
                for uuid in self.gpu_uuids
            ]
        self.facts = {name: [run.cases[name].facts for run in past if name in run.cases] for name in cases}
        self.reference = mean_of(self.past)
        self.baseline_effects = [process_effect(self.reference, run) for run in runs]
        self.changed = {name: change_of_work(facts, self.facts[name]) for name, facts in self.recorded.items()}
        self.unchanged = {name for name, changed in self.changed.items() if not changed}
        self._prints = {name for name, facts in self.recorded.items() if facts.prints}
        self.controls = self.unchanged - self._prints
        self._own_runs = [run for run in past if run.gpu_uuid == gpu_uuid]
        self._recent = [run for run in self._own_runs if _same_day(run, when)]
        self.unspanned, self.few_controls = self._why_unspanned(), self._why_few()
        decisive = not (self.unspanned or self.few_controls)
        pairs = self._prints if decisive else self.cases.keys()
        self.by_pairs: set[str] = set() if doubt else pairs - self.unchanged
        self._disturbed = {name for name, facts in self.recorded.items() if facts.other_processes}
        self.prior: Prior | None = None
        self.floor_factor = 1.0
        self.effects: list[ProcessEffect] = []
        self._new: list[dict[str, float]] = []
        self.absorb({name: case.processes[0] for name, case in cases.items() if name not in self._disturbed})

    def _why_unspanned(self) -> str:
        """Say why the baseline does not show how far this GPU may differ from it today; empty where it does."""
        if len(self._recent) >= MIN_OWN_RUNS:
            return ""
        which, count = " of this GPU", len(self._own_runs)
        if count >= MIN_OWN_RUNS:
            newest = max(self._own_runs, key=lambda run: run.when or LONG_AGO)
            day = f" (the newest: {newest.day})" * bool(newest.when)
            which, count = f"{which} of the last day{day}", len(self._recent)
        return f"the baseline has {count or 'no'} run{'s' * (count != 1)}{which}, and {MIN_OWN_RUNS} show its noise"

    def _why_few(self) -> str:
        """Say that too few cases show what this run does to all of them; empty where there are enough."""
        count = len(self.controls)
        if count >= MIN_CONTROLS:
            return ""
        return f"{counted(count)} of the baseline's work, and it takes {MIN_CONTROLS} to see what this run does to all"

    def absorb(self, samples: Mapping[str, Sequence[float]]) -> None:
        """Add one more process of this run, without what it does to every case."""
        medians = {name: median(values) for name, values in samples.items()}
        effect = process_effect(self.reference, {name: medians[name] for name in self.controls if name in medians})
        self.effects.append(effect)
        self._new.append({name: effect.remove(seconds) for name, seconds in medians.items()})

    def wanted(self, decisions: Mapping[str, Decision]) -> list[str]:
        """List the cases that another process should measure: undecided ones, and controls beside them."""
        todo = [name for name, each in decisions.items() if each.verdict == Verdict.UNSURE and self._may_change(name)]
        return list(dict.fromkeys([*todo, *self._controls()])) if todo and not self.doubt else []

    def disturbed(self) -> list[str]:
        """List the cases that others' work disturbed, and controls beside them, for a fresh process to measure.

        Pairs are measured in fresh processes anyway; unchanged work is excused where nothing shows this GPU's noise.
        """
        excused = self.by_pairs | (self.unchanged if self.unspanned else set())
        disturbed = sorted(self._disturbed - excused)
        return list(dict.fromkeys([*disturbed, *self._controls()])) if disturbed else []

    def settle(self, undisturbed: Collection[str]) -> None:
        """Take note which cases a fresh process measured undisturbed; of the other disturbed ones the first counts."""
        for name in self._disturbed:
            if name in undisturbed:
                self.recorded[name] = replace(self.recorded[name], other_processes=())
            else:
                self._new[0][name] = self.effects[0].remove(median(self.cases[name].processes[0]))

    def _may_change(self, name: str) -> bool:
        """Tell whether another process could decide about an unsure case."""
        excused = name in self.unchanged or name in self._prints or bool(self.few_controls)
        enough = excused and len(self._new) >= PROCESSES_OF_UNCHANGED
        return not (enough or disturbance(self.recorded[name]))

    def _controls(self) -> list[str]:
        """List short cases of unchanged code, evenly over their sizes: they show what a process does to all."""
        short = sorted((self.reference[n], n) for n in self.controls if self.reference[n] < CONTROL_SECONDS)
        # Those that are measured in a tenth of a second: without a library that is loaded, or large arrays.
        facts = self.recorded
        quick = [(t, n) for t, n in short if facts[n].bytes <= CONTROL_BYTES and not facts[n].library]
        short = quick if len(quick) >= MIN_CONTROLS else short
        return [name for _, name in short[:: max(1, len(short) // (MIN_CONTROLS + MIN_CONTROLS // 3))]]

    def decide(self) -> dict[str, Decision]:
        """Decide from the processes so far about all cases but those of ``by_pairs``."""
        effects = {name: self._effect(name) for name in self.cases}
        if self.prior is None:
            self.prior = learn(list(effects.values()))
        steady = [effects[name] for name in self.controls if not disturbance(self.recorded[name])]
        if steady and not (self.own or self._least_floor()):
            self.floor_factor = conformal_floor_factor(steady, self.prior)
        decided = {name: effect for name, effect in effects.items() if name not in self.by_pairs}
        decisions = decide(decided, self.prior, MAX_PROCESSES, self.floor_factor, self.parts)
        return {name: self._excused(name, decision) for name, decision in decisions.items()}

    def _excused(self, name: str, decision: Decision) -> Decision:
        """Call unchanged work identical, not unsure, where times of this GPU or of such a kernel cannot tell."""
        settles = not (self.unspanned or name in self._prints or decision.floor >= MAX_FLOOR)
        if settles or self.doubt or name not in self.unchanged or decision.verdict != Verdict.UNSURE:
            return replace(decision, decided_by=SAVED_TIMES)
        why = PRINTS if name in self._prints else UNCHANGED if self.unspanned else decision.reason
        return replace(decision, verdict=Verdict.IDENTICAL, reason=why, suspect=False, decided_by=SAME_WORK)

    def _least_floor(self) -> float:
        enough = self.own or (len(self.gpu_uuids) >= MIN_GPUS and not self.few_controls)
        return 0.0 if enough else FLOOR_BETWEEN_GPUS

    def _allowance(self) -> float:
        """Return by how much floors are wider because this GPU's runs in the baseline are of another day."""
        return BETWEEN_DAYS if self.own and len(self._recent) < min(MIN_OWN_RUNS, len(self._own_runs)) else 0.0

    def floor_note(self) -> str:
        """Say what keeps saved times from calling a case slower, or why floors are wider than their spread; or nothing.

        Nothing where saved times decide about unchanged work alone.
        """
        if not self.cases.keys() - self.unchanged - self.by_pairs:
            return ""
        if self.few_controls:
            return f"saved times call no case slower or faster: {self.few_controls}"
        if self._least_floor():
            return (
                f"nothing below {100 * FLOOR_BETWEEN_GPUS:.0f} % is called slower by saved times: it takes {MIN_GPUS} "
                "GPUs in the baseline to tell how this GPU differs"
            )
        if self._allowance():
            return f"noise floors of saved times are {100 * BETWEEN_DAYS:.1f} % wider: {self.unspanned}"
        widened = f"noise floors widened {self.floor_factor:.1f}×: an unchanged kernel differs by that much on this GPU"
        return widened if self.floor_factor > 1 else ""

    def outlook(self) -> str:
        """Say how many unchanged cases this GPU's baseline leaves unsure, and how many more runs would, or nothing."""
        runs = len(self.past)
        if self.unspanned or runs >= ENOUGH_RUNS or self.doubt or self.prior is None:
            return ""
        effects = [self._effect(name) for name in self.cases]
        counts = [runs, ENOUGH_RUNS]
        left = {n: round(expected_unsure(effects, self.prior, n, PROCESSES_OF_UNCHANGED)) for n in counts}
        if left[runs] == left[ENOUGH_RUNS]:
            return ""
        now, then = f"about {left[runs]} stay unsure with a baseline of {runs} runs", f"about {left[ENOUGH_RUNS]}"
        return f"of {len(effects)} unchanged cases, {now}, {then} with {ENOUGH_RUNS}"

    def _effect(self, name: str) -> Effect:
        old, new = ([process[name] for process in side if name in process] for side in (self.past, self._new))
        facts = self.recorded[name]
        if self.own:
            effect = replace(unpaired(old, new), allowance=self._allowance())
        else:
            one = unpaired(old, [exp(fmean(map(log, new)))])
            effect = replace(one, floor=self._least_floor(), processes=len(new))
        excuse = UNCHANGED if name in self.unchanged else PRINTS if name in self._prints else self.few_controls
        then, now = ([mhz for each in side for mhz in each.sm_clock_mhz if mhz] for side in (self.facts[name], [facts]))
        return replace(
            effect,
            doubt=self.doubt or disturbance(facts) or excuse,
            no_gain=self.doubt or excuse,
            floor=max(effect.floor, facts.threshold),
            clock=median(now) / median(then) if then and now else 1.0,
        )
