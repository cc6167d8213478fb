"""Comparison with saved runs (--benchmark-compare): the verdict of every case."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import median

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.names import split_id
from warpwatch.catalogue.project import Project
from warpwatch.compare.anchors import beside_anchors
from warpwatch.compare.comparison import Comparison, OldCode, listed
from warpwatch.compare.confirmation import Confirmation, build_then, run_to_build
from warpwatch.compare.doubts import PRINTS, UNCHANGED, launched_in
from warpwatch.compare.pairs import PAIR_SECONDS
from warpwatch.compare.processes import (
    MAX_PROCESSES,
    MIN_OWN_RUNS,
    PROCESSES_OF_UNCHANGED,
    Processes,
    SampledCase,
    relevant_runs,
)
from warpwatch.compare.reference import on_gpu
from warpwatch.devices.compile.compiler import Image, Target
from warpwatch.devices.compile.toolchain import INSTALLED
from warpwatch.devices.kernel import Kernel
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.launched import LAUNCHES, Launched
from warpwatch.runs.record import RunRecord
from warpwatch.timing import sampling
from warpwatch.timing.inputs import sharing_key
from warpwatch.timing.measurement import Again, Budget, Measured, prepare, take_next_process
from warpwatch.verdict.process_effects import ProcessEffect
from warpwatch.verdict.rule import (
    PAIRS,
    Decision,
    Verdict,
)

MOST_NAMED = 5  # cases in a line
BY_EVENTS = "by events"  # how a time is read, unless Facts.how says otherwise
MIGRATE = "python -m warpwatch baseline migrate"
CONFIRM_WARM_UP = 0.1  # seconds, at most, where a case is measured again


@dataclass(kw_only=True)
class BaselineComparison(Comparison):
    """Comparison of a run with saved ones.

    ``runs``: the baseline. ``gpu_uuid``: the GPU of this run. ``incomparable_reason`` says why saved times cannot be
    compared, ``doubt`` why times of this device prove nothing; each may be empty. ``toolchain``: only another driver or
    toolkit is that reason, so that pairs can compare. ``confirmation``: what measures pairs, or why none are measured.
    ``when``: the moment of this run. ``parts``: the number of parts of the run, each of which has its own comparison.
    ``common``: a line on what this run does to all cases. ``notes``: lines on what decided cases and why, on noise
    floors, on what more runs in the baseline would bring, and the alarm.
    """

    runs: Sequence[RunRecord] = ()
    gpu_uuid: str = ""
    incomparable_reason: str = ""
    toolchain: bool = False
    doubt: str = ""
    confirmation: Confirmation | str = "no pairs were measured"
    when: datetime | None = None
    parts: int = 1
    common: str = ""
    notes: Sequence[str] = ()
    _reasons: Mapping[str, str] = field(default_factory=dict)  # why pairs did not decide about cases that they should
    _budget: Budget = field(default_factory=lambda: Budget(seconds=PAIR_SECONDS, rounds=1, warm_up=True))

    @property
    def active(self) -> bool:
        return bool(self.runs)

    @property
    def past(self) -> Sequence[str]:
        return [run.path.name for run in self.runs]

    def measures(self, case: Case, image: Image) -> bool:
        return True

    def measure(self, kernel: Kernel, case: Case, cold: bool, budget: Budget) -> Measured | None:
        """Prove a case right and make it ready to be sampled. Raises WrongResult or DeviceError."""
        self._budget = replace(budget, observers=())
        return prepare(kernel, case, cold, budget)

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Take note of a measured case. Serial variants are left out, because no GPU runs them."""
        if self.runs and not measured.case.variant.on_host:
            measured.processes.append(list(samples))
            self.measured[measured.case.id] = measured

    def conclude(self, again: Again) -> None:
        """Decide about all cases together, by pairs or saved times. Fresh processes measure again what is undecided."""
        runs, differently = timed_alike(self.measured, self.runs)
        past, alike = relevant_runs(runs, self.gpu_uuid), [name for name in self.measured if name not in differently]
        by_pairs_alone = self.toolchain and not isinstance(self.confirmation, str)
        self.decisions, names = sort_out(alike, runs, past, "" if by_pairs_alone else self.incomparable_reason)
        self.decisions |= differently
        if not names:
            return
        if by_pairs_alone:
            self.decisions |= self._decide_by_pairs(names, self.incomparable_reason, again)
            why = {name: f"{self.incomparable_reason}; {each}" for name, each in self._reasons.items()}
            self.decisions |= {n: Decision(verdict=Verdict.INCOMPARABLE, reason=each) for n, each in why.items()}
            return
        cases = {name: SampledCase.of(self.measured[name]) for name in names}
        processes = Processes(past, cases, self.gpu_uuid, self.doubt, self.parts, self.when)
        self.changed = processes.changed
        if processes.by_pairs:
            self._confirm(processes, again)
        decided = _measure_and_decide(processes, self.measured, again)
        self.decisions |= beside_anchors(decided, processes.reference, past, self.gpu_uuid)
        effect = processes.effects[0]
        self.common, self.alarm = taken_out(effect), effect.alarm(processes.baseline_effects)
        self.notes = [*self.notes, processes.outlook(), processes.floor_note(), self.alarm]
        for measured in self.measured.values():
            if len(measured.processes) > 1:
                measured.facts["again"] = measured.processes[1:]

    def _confirm(self, processes: Processes, again: Again) -> None:
        """Decide by pairs about the cases that saved times cannot decide; leave those that have none to saved times."""
        names = [name for name in self.measured if name in processes.by_pairs]
        self.decisions |= self._decide_by_pairs(names, processes.unspanned or processes.few_controls or PRINTS, again)
        processes.by_pairs -= self._reasons.keys()
        if processes.by_pairs:  # both ways to decide share the run's probability of a false alarm
            processes.parts *= 2
        self.notes = [*self.notes, *listed("decided by saved times, not by pairs", self._reasons)]

    def _decide_by_pairs(self, names: Sequence[str], why: str, again: Again) -> dict[str, Decision]:
        """Decide about cases by pairs, as far as the baseline's commit has them. ``why``: saved times cannot."""
        if isinstance(self.confirmation, str):
            self._reasons = dict.fromkeys(names, self.confirmation)
            return {}
        measured = {name: self.measured[name] for name in names}
        self.confirmation.build(measured, self.parts, again.say)
        parts = self.parts * (2 if self.confirmation.reasons else 1)
        decisions = self.confirmation.decide(measured, self._budget, again, self.doubt, parts)
        self._reasons, self.notes = self.confirmation.reasons, self.confirmation.describe(why)
        self.controls |= self.confirmation.pairs.controls if self.confirmation.pairs else {}
        return decisions

    def _describe(self) -> list[str]:
        """Return lines on what is compared with, and on what this run does to all cases."""
        own = sum(run.gpu_uuid == self.gpu_uuid for run in self.runs)
        text = f"baseline: {len(self.runs)} runs in {self.runs[0].path.parent}, {own} of them on this GPU"
        lines = [text]
        if len(self.runs) < MIN_OWN_RUNS:
            lines.append(
                f"too few runs ({len(self.runs)}) to show the spread between processes: that of an H200 is assumed; "
                "five make a baseline"
            )
        lines += [self.common, self._bits(), *self._changes(), *self.notes]
        return list(dict.fromkeys(filter(None, lines)))  # pairs may say the same of what changed

    def _changes(self) -> list[str]:
        """Return lines on what changed besides machine code, and on cases whose work or time cannot be compared."""
        unknown = {name: "; ".join(each.unknown) for name, each in self.changed.items()}
        besides = {name: each.besides("code", LAUNCHES) for name, each in self.changed.items()}
        lines = listed("changed besides machine code", besides) + self._other_launches()
        lines += listed("not known to be the baseline's work, so no controls", unknown)
        timed = {name: each for name, each in self.decisions.items() if each.processes}
        same = {name: each.reason for name, each in timed.items() if each.verdict == Verdict.IDENTICAL}
        unsteady = {name: reason for name, reason in same.items() if reason != UNCHANGED}
        lines += listed("the same work, whose time is not judged", unsteady)
        past = relevant_runs(self.runs, self.gpu_uuid)
        without = any(timed.facts.identity is None for run in past for timed in run.cases.values())
        cure = [f"`{MIGRATE}` adds what earlier runs do not record of it"] if without and any(unknown.values()) else []
        return [*lines, *cure]

    def _bits(self) -> str:
        """Return a line on whether results that must give the same bits again are the baseline's; empty without any."""
        others, total = list[str](), 0
        for name, measured in self.measured.items():
            known = {run.cases[name].facts.bits for run in self.runs if name in run.cases} - {""}
            changed = self.changed[name].changed if name in self.changed else {}
            if known and "bits" in measured.facts and not changed.keys() & {"arrays", "draw"}:
                total += 1
                others += [name] * (measured.facts["bits"] not in known)
        but = f"; not {', '.join(others[:MOST_NAMED])}" + ", ..." * (len(others) > MOST_NAMED)
        line = f"the same bits as in the baseline: {total - len(others)} of {total} cases" + but * bool(others)
        return line * bool(total)

    def missing(self, ran: set[str]) -> list[str]:
        """List the GPU cases of the baseline that a whole run did not have."""
        return sorted(set().union(*map(on_gpu, self.runs)) - ran)

    def old_codes(self, names: Sequence[str], project: Project, target: Target) -> dict[str, OldCode | str]:
        """Return cases of the baseline's newest commit: as they were compared in pairs, or built again."""
        known = {} if isinstance(self.confirmation, str) else self.confirmation.built
        if cases := {name: self.measured[name].case for name in names if name not in known}:
            try:
                known = known | build_then(run_to_build(self.runs, project.root), cases, project, target)
            except BadRevision as error:
                known = known | dict.fromkeys(cases, str(error))
        found = {name: known[name] for name in names}
        return {name: each if isinstance(each, str) else (each.other, each.image) for name, each in found.items()}

    def old_launches(self, case: str) -> Launched:
        known = (launched_in(run.cases[case].facts) for run in self.runs if case in run.cases)
        return next((each for each in known if each.words), Launched())

    def next_step(self, case: str, against: str) -> str:
        then = "" if isinstance(self.confirmation, str) else self.confirmation.built.get(case, "")
        if not isinstance(then, str) and then.toolchain != INSTALLED:
            family, variant, block, _, dtype = split_id(case)
            nvcc = shlex.quote(then.toolchain.text)
            return f"python -m warpwatch diff --toolchain {nvcc} -k {family}-{variant}-{block}-{dtype}"
        if self.decisions[case].decided_by == PAIRS and not isinstance(then, str):
            return f"python -m warpwatch explain {case} --against {then.commit[:12]}"
        return f"pytest bench {against} REV -k {case}, with REV a commit in which it was fast"


def taken_out(effect: ProcessEffect) -> str:
    """Say what a run did to every case; empty where too few cases show it."""
    change = f"{100 * (effect.factor - 1):+.2f} % and {effect.offset * 1e9:+.0f} ns"
    return f"common to this run, and taken out: {change}, by {effect.controls} unchanged cases" * bool(effect.controls)


def timed_alike(
    measured: Mapping[str, Measured], runs: Sequence[RunRecord]
) -> tuple[list[RunRecord], dict[str, Decision]]:
    """Return runs without the times that they read in another way, and decisions about cases of which none is left."""
    ways = {name: (each.facts.get("how", ""), each.facts.get("places", 0)) for name, each in measured.items()}
    other: dict[str, tuple[str, int]] = {}
    left = []
    for run in runs:
        read = {name: timed.facts.way for name, timed in run.cases.items() if name in ways}
        differing = {name: way for name, way in read.items() if not _are_alike(way, ways[name])}
        alike = {name: timed for name, timed in run.cases.items() if name not in differing}
        other |= differing
        left.append(run if len(alike) == len(run.cases) else replace(run, cases=alike))
    gone = [name for name in other if not any(name in run.cases for run in left)]
    why = {name: f"another way of timing ({_differing(other[name], ways[name])})" for name in gone}
    return left, {name: Decision(verdict=Verdict.INCOMPARABLE, reason=reason) for name, reason in why.items()}


def _are_alike(one: tuple[str, int], other: tuple[str, int]) -> bool:
    return one[0] == other[0] and (one[1] == other[1] or not one[1] or not other[1])


def _differing(then: tuple[str, int], now: tuple[str, int]) -> str:
    """Return in words how two ways differ."""
    if then[0] != now[0]:
        return f"{then[0] or BY_EVENTS} then, {now[0] or BY_EVENTS} now"
    return f"arrays in {then[1]} place{'s' * (then[1] > 1)} then, {now[1]} now; record the baseline anew"


def sort_out(
    names: Collection[str], runs: Sequence[RunRecord], past: Sequence[RunRecord], incomparable: str
) -> tuple[dict[str, Decision], list[str]]:
    """Decide about the cases that cannot be compared, and list those that can.

    ``past``: those of the baseline's ``runs`` that are compared with. ``incomparable``: why none can be, or nothing.
    """
    decisions: dict[str, Decision] = {}
    for name in names:
        damaged = next((run.problems[name] for run in runs if name in run.problems), "")
        if not any(name in run.cases for run in runs):
            verdict = Verdict.INCOMPARABLE if damaged else Verdict.NEW
            decisions[name] = Decision(verdict=verdict, reason=damaged)
        elif incomparable or not any(name in run.cases for run in past):
            why = incomparable or "only runs on another GPU have it"
            decisions[name] = Decision(verdict=Verdict.INCOMPARABLE, reason=why)
    return decisions, [name for name in names if name not in decisions]


def _measure_again(processes: Processes, chosen: Sequence[Measured], again: Again) -> Collection[str]:
    """Measure cases in one more process; return those beside which nobody else was at work on the GPU."""
    samples = sample_again(chosen, again)
    processes.absorb(samples)
    return samples.keys()


def sample_again(chosen: Sequence[Measured], again: Again) -> dict[str, list[float]]:
    """Return samples in seconds of one more process, which are added to the cases.

    Cases beside which somebody else was at work on the GPU have none. Cases that share inputs follow each other.
    """
    cases = {each.case.id: each for each in sorted(chosen, key=lambda each: sharing_key(each.case))}
    samples: dict[str, list[float]] = {}

    def sample(name: str) -> None:
        measured, call = cases[name], cases[name].kernel.worker.call
        image, accepted = measured.kernel.image.path, measured.accepted or ()
        call(sampling.prepare, measured.case, image, again.cold, accepted=accepted)
        call(sampling.settle)
        call(sampling.begin_ahead)
        call(sampling.warm_up, measured.kind, CONFIRM_WARM_UP)
        taken = measured.take_all()
        measured.check(median(taken))
        if not call(sampling.read_clock).others:
            samples[name] = taken
            measured.processes.append(taken)

    take_next_process(chosen[0].kernel.worker)
    again.each(cases, sample)
    return samples


def _measure_and_decide(processes: Processes, measured: Mapping[str, Measured], again: Again) -> dict[str, Decision]:
    """Decide about all cases, with as many more processes as undecided ones need."""
    disturbed = [] if processes.doubt else [measured[name] for name in processes.disturbed()]
    processes.settle(_measure_again(processes, disturbed, again) if disturbed else ())
    decisions = processes.decide()
    for done in range(MAX_PROCESSES - 1):
        chosen = [measured[name] for name in processes.wanted(decisions)]
        if not chosen:
            break
        if not done:  # together, because each takes seconds to open the device
            kind = "cold" if again.cold else "warm"
            chosen[0].kernel.worker.open_spares(PROCESSES_OF_UNCHANGED - 1, sampling.get_ready, kind)
        _measure_again(processes, chosen, again)
        decisions = processes.decide()
    return decisions
