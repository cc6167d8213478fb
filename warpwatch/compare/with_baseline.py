"""Comparison with saved runs (--benchmark-compare): the verdict of every case."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import exp, log
from statistics import fmean, median

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.compare.anchors import beside_anchors
from warpwatch.compare.code_difference import first_line
from warpwatch.compare.comparison import CALL, Comparison, OldCode, listed
from warpwatch.compare.doubts import SAME_CODE, change_of_work, disturbance
from warpwatch.compare.reference import on_gpu
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.worker import Kernel
from warpwatch.revision.commit import CommitCase, build_cases, is_ancestor
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.record import Facts, RunRecord, typed
from warpwatch.timing import sampling
from warpwatch.timing.inputs import sharing_key
from warpwatch.timing.measurement import Again, Budget, Measured, prepare, take_next_process
from warpwatch.verdict.process_effects import ProcessEffect, aligned, mean_of, process_effect
from warpwatch.verdict.rule import (
    MIN_CONTROLS,
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

MOST_NAMED = 5  # cases in a line
BY_EVENTS = "by events"  # how a time is read, unless Facts.how says otherwise
NEVER = datetime.min.replace(tzinfo=UTC)
MIGRATE = "python -m warpwatch baseline migrate"
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
CONFIRM_WARM_UP = 0.1  # seconds, at most, where a case is measured again
# The longest median, and the most bytes moved, of the unchanged cases that are measured again beside undecided ones.
CONTROL_SECONDS, CONTROL_BYTES = 1e-3, 2**29


@dataclass(kw_only=True)
class BaselineComparison(Comparison):
    """Comparison of a run with saved ones.

    ``runs``: the baseline. ``gpu_uuid``: the GPU of this run. ``incomparable_reason`` says why the two cannot be
    compared, ``doubt`` why times of this device prove nothing; each may be empty. ``parts``: the number of parts of the
    run, each of which has its own comparison. ``common``: a line on what this run does to all cases. ``notes``: lines
    on noise floors, on what more runs in the baseline would bring, and the alarm.
    """

    runs: Sequence[RunRecord] = ()
    gpu_uuid: str = ""
    incomparable_reason: str = ""
    doubt: str = ""
    parts: int = 1
    common: str = ""
    notes: Sequence[str] = ()

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
        return prepare(kernel, case, cold, budget)

    def add(self, measured: Measured, samples: Sequence[float]) -> None:
        """Take note of a measured case. Serial variants are left out, because no GPU runs them."""
        if self.runs and not measured.case.variant.on_host:
            measured.processes.append(list(samples))
            self.measured[measured.case.id] = measured

    def conclude(self, again: Again) -> None:
        """Decide about all cases together. Fresh processes measure again what is undecided."""
        runs, differently = timed_alike(self.measured, self.runs)
        past, alike = relevant_runs(runs, self.gpu_uuid), [name for name in self.measured if name not in differently]
        self.decisions, names = sort_out(alike, runs, past, self.incomparable_reason)
        self.decisions |= differently
        if not names:
            return
        cases = {name: SampledCase.of(self.measured[name]) for name in names}
        processes = Processes(past, cases, self.gpu_uuid, self.doubt, self.parts)
        decided = _measure_and_decide(processes, self.measured, again)
        self.decisions |= beside_anchors(decided, processes.reference, past, self.gpu_uuid)
        effect, self.changed = processes.effects[0], processes.changed
        self.common, self.alarm = taken_out(effect), effect.alarm(processes.baseline_effects)
        self.notes = [processes.outlook(), processes.floor_note(), self.alarm]
        for measured in self.measured.values():
            if len(measured.processes) > 1:
                measured.facts["again"] = measured.processes[1:]

    def _describe(self) -> list[str]:
        """Return lines on what is compared with, and on what this run does to all cases."""
        own = sum(run.gpu_uuid == self.gpu_uuid for run in self.runs)
        text = f"baseline: {len(self.runs)} runs in {self.runs[0].path.parent}, {own} of them on this GPU"
        if own < min(MIN_OWN_RUNS, len(self.runs)):
            text += f"; with {MIN_OWN_RUNS} of them, noise floors would be those of this GPU, not of its model"
        lines = [text]
        if len(self.runs) < MIN_OWN_RUNS:
            lines.append(
                f"too few runs ({len(self.runs)}) to show the spread between processes: that of an H200 is assumed; "
                "five make a baseline"
            )
        return [*filter(None, [*lines, self.common, self._bits()]), *self._changes(), *filter(None, self.notes)]

    def _changes(self) -> list[str]:
        """Return lines on what changed besides machine code, and on cases whose work in the baseline is not known."""
        unknown = {name: "; ".join(each.unknown) for name, each in self.changed.items()}
        lines = listed("changed besides machine code", {n: each.besides("code") for n, each in self.changed.items()})
        lines += listed("not known to be the baseline's work, so no controls", unknown)
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
        """Build cases again from the commit of the baseline's newest run.

        That is somebody's code, which runs here: so only a commit in HEAD's history is built.
        """
        run = _newest_clean(self.runs)
        if run is None:
            return dict.fromkeys(names, "the baseline does not say which commit it was made of")
        if not is_ancestor(run.commit.id, "HEAD", project.root):
            return dict.fromkeys(names, f"{run.commit}, which the baseline was made of, is not in HEAD's history here")
        try:
            built = build_cases(run.commit.id, f"the baseline's commit {run.commit}", names, project, target)
        except BadRevision as error:
            return dict.fromkeys(names, str(error))
        return {name: _built_again(self.measured[name].case, built.get(name), run) for name in names}

    def next_step(self, case: str, against: str) -> str:
        return f"pytest bench {against} REV -k {case}, with REV a commit in which it was fast"


def _newest_clean(runs: Sequence[RunRecord]) -> RunRecord | None:
    """Return the last of the runs that were made of a clean commit."""
    clean = [run for run in runs if run.commit.id and not run.commit.dirty and run.when]
    return max(clean, key=lambda run: run.when or NEVER, default=None)


def _built_again(case: Case, built: CommitCase | None, run: RunRecord) -> OldCode | str:
    """Return what a run's commit has for a case where that is what the run measured, else why not."""
    if case.variant.call:
        return CALL
    if built is None or case.id not in run.cases:
        return f"{run.commit}, the baseline's newest, does not have it"
    if isinstance(built.image, CompileError):
        return f"in {run.commit}, {first_line(built.image)}"
    if built.image.image_hash != run.cases[case.id].facts.image_hash:
        return f"{run.commit}, compiled here, is not the code that the baseline was measured with"
    return built.other, built.image


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
        read = {name: _way(timed.facts) for name, timed in run.cases.items() if name in ways}
        differing = {name: way for name, way in read.items() if not _are_alike(way, ways[name])}
        alike = {name: timed for name, timed in run.cases.items() if name not in differing}
        other |= differing
        left.append(run if len(alike) == len(run.cases) else replace(run, cases=alike))
    gone = [name for name in other if not any(name in run.cases for run in left)]
    why = {name: f"another way of timing ({_differing(other[name], ways[name])})" for name in gone}
    return left, {name: Decision(verdict=Verdict.INCOMPARABLE, reason=reason) for name, reason in why.items()}


def _way(facts: Facts) -> tuple[str, int]:
    """Return how a time was read, and in how many places the arrays lay, 0 where that is unknown.

    Where large arrays lie changes the time of a kernel that strides through them by up to 20 % (H200).
    """
    return facts.how, facts.places


def _are_alike(one: tuple[str, int], other: tuple[str, int]) -> bool:
    return one[0] == other[0] and (one[1] == other[1] or not one[1] or not other[1])


def _differing(then: tuple[str, int], now: tuple[str, int]) -> str:
    """Return in words how two ways differ."""
    if then[0] != now[0]:
        return f"{then[0] or BY_EVENTS} then, {now[0] or BY_EVENTS} now"
    return f"arrays in {then[1]} place{'s' * (then[1] > 1)} then, {now[1]} now; record the baseline anew"


def relevant_runs(runs: Sequence[RunRecord], gpu_uuid: str) -> list[RunRecord]:
    """Select the runs of a baseline that a GPU is compared with: its own where there are enough, else all."""
    own = [run for run in runs if run.gpu_uuid == gpu_uuid]
    return own if len(own) >= MIN_OWN_RUNS else list(runs)


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
    """Measure cases in one more process; return those beside which nobody else was at work on the GPU.

    Cases that share inputs follow each other.
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
    processes.absorb(samples)
    return samples.keys()


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
    """Comparison of the processes of this run with those of ``past``, over the cases that both have."""

    def __init__(
        self, past: Sequence[RunRecord], cases: Mapping[str, SampledCase], gpu_uuid: str, doubt: str, parts: int = 1
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
        self._disturbed = {name for name, facts in self.recorded.items() if facts.other_processes}
        self.prior: Prior | None = None
        self.floor_factor = 1.0
        self.effects: list[ProcessEffect] = []
        self._new: list[dict[str, float]] = []
        self.absorb({name: case.processes[0] for name, case in cases.items() if name not in self._disturbed})

    def absorb(self, samples: Mapping[str, Sequence[float]]) -> None:
        """Add one more process of this run, without what it does to every case."""
        medians = {name: median(values) for name, values in samples.items()}
        effect = process_effect(self.reference, {name: medians[name] for name in self.unchanged if name in medians})
        self.effects.append(effect)
        self._new.append({name: effect.remove(seconds) for name, seconds in medians.items()})

    def wanted(self, decisions: Mapping[str, Decision]) -> list[str]:
        """List the cases that another process should measure: undecided ones, and controls beside them."""
        todo = [name for name, each in decisions.items() if each.verdict == Verdict.UNSURE and self._may_change(name)]
        return list(dict.fromkeys([*todo, *self._controls()])) if todo and not self.doubt else []

    def disturbed(self) -> list[str]:
        """List the cases that others' work disturbed, and controls beside them, for a fresh process to measure."""
        return list(dict.fromkeys([*sorted(self._disturbed), *self._controls()])) if self._disturbed else []

    def settle(self, undisturbed: Collection[str]) -> None:
        """Take note which cases a fresh process measured undisturbed; of the other disturbed ones the first counts."""
        for name in self._disturbed:
            if name in undisturbed:
                self.recorded[name] = replace(self.recorded[name], other_processes=())
            else:
                self._new[0][name] = self.effects[0].remove(median(self.cases[name].processes[0]))

    def _may_change(self, name: str) -> bool:
        """Tell whether another process could decide about an unsure case."""
        enough = name in self.unchanged and len(self._new) >= PROCESSES_OF_UNCHANGED
        return not (enough or disturbance(self.recorded[name]))

    def _controls(self) -> list[str]:
        """List short cases of unchanged code, evenly over their sizes: they show what a process does to all."""
        short = sorted((self.reference[n], n) for n in self.unchanged if self.reference[n] < CONTROL_SECONDS)
        # Those that are measured in a tenth of a second: without a library that is loaded, or large arrays.
        facts = self.recorded
        quick = [(t, n) for t, n in short if facts[n].bytes <= CONTROL_BYTES and not facts[n].library]
        short = quick if len(quick) >= MIN_CONTROLS else short
        return [name for _, name in short[:: max(1, len(short) // (MIN_CONTROLS + MIN_CONTROLS // 3))]]

    def decide(self) -> dict[str, Decision]:
        """Decide about all cases from the processes so far."""
        effects = {name: self._effect(name) for name in self.cases}
        if self.prior is None:
            self.prior = learn(list(effects.values()))
        steady = [effects[name] for name in self.unchanged if not disturbance(self.recorded[name])]
        if steady and not (self.own or self._least_floor()):
            self.floor_factor = conformal_floor_factor(steady, self.prior)
        return decide(effects, self.prior, looks=MAX_PROCESSES, floor_factor=self.floor_factor, parts=self.parts)

    def _least_floor(self) -> float:
        enough = self.own or (len(self.gpu_uuids) >= MIN_GPUS and len(self.unchanged) >= MIN_CONTROLS)
        return 0.0 if enough else FLOOR_BETWEEN_GPUS

    def floor_note(self) -> str:
        """Say why noise floors are wider than the baseline's spread asks for, or nothing."""
        if self._least_floor():
            return (
                f"nothing below {100 * FLOOR_BETWEEN_GPUS:.0f} % is called slower: it takes {MIN_GPUS} GPUs in the "
                f"baseline and {MIN_CONTROLS} cases of unchanged machine code in the run to tell how this GPU differs"
            )
        widened = f"noise floors widened {self.floor_factor:.1f}×: an unchanged kernel differs by that much on this GPU"
        return widened if self.floor_factor > 1 else ""

    def outlook(self) -> str:
        """Say how many unchanged cases this GPU's baseline leaves unsure, and how many more runs would, or nothing."""
        runs = len(self.past)
        if not self.own or runs >= ENOUGH_RUNS or self.doubt or self.prior is None:
            return ""
        effects = [self._effect(name) for name in self.cases]
        counts = [n for n in (runs, MIN_OWN_RUNS, ENOUGH_RUNS) if n >= runs]
        left = {n: round(expected_unsure(effects, self.prior, n, PROCESSES_OF_UNCHANGED)) for n in counts}
        if left[runs] == left[ENOUGH_RUNS]:
            return ""
        more = " and ".join(f"about {left[n]} with {n}" for n in left if n > runs)
        have = f"{runs} run{'s' * (runs > 1)}"
        return f"of {len(effects)} unchanged cases, about {left[runs]} stay unsure with a baseline of {have}, {more}"

    def _effect(self, name: str) -> Effect:
        old, new = ([process[name] for process in side if name in process] for side in (self.past, self._new))
        facts = self.recorded[name]
        if self.own:
            effect = unpaired(old, new)
        else:
            one = unpaired(old, [exp(fmean(map(log, new)))])
            effect = replace(one, floor=self._least_floor(), processes=len(new))
        same = SAME_CODE * (name in self.unchanged)
        then, now = ([mhz for each in side for mhz in each.sm_clock_mhz if mhz] for side in (self.facts[name], [facts]))
        return replace(
            effect,
            doubt=self.doubt or disturbance(facts) or same,
            no_gain=self.doubt or same,
            clock=median(now) / median(then) if then and now else 1.0,
        )
