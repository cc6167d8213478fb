"""Plays whole runs from recorded ones, unchanged and with slowdowns, and lets a rule judge each of them.

A played run is compared with a baseline of five. Where there are too few recorded runs for that, processes are made
from the recorded ones: the case's median in one run, its deviation from the case's mean over that GPU's runs with a
random sign, that run's own samples around it, and what a process does to every case. Nothing is made up for a GPU that
a committed baseline lacks: its recorded runs are compared with that baseline by the code that compares runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec
import numpy as np

from tools.other_rules import HELION, RULES, SIMPLE, SIMPLE_PROCESSES, Rule, helion_paired
from tools.recording import PairRecording, Process, Recording, same_work
from warpwatch.catalogue.cases import VENDOR_BLOCK
from warpwatch.compare.processes import MAX_PROCESSES, Processes, SampledCase
from warpwatch.compare.saved_self_check import CLASSES
from warpwatch.runs.record import RunRecord, by_gpu
from warpwatch.verdict.process_effects import aligned, mean_of, process_effect
from warpwatch.verdict.rule import (
    MAX_PAIR_PROCESSES,
    MIN_PROCESSES,
    SCREENING_PROCESSES,
    Decision,
    Effect,
    Floats,
    Prior,
    Verdict,
    decide,
    is_clearly_same,
    learn,
    paired,
    unpaired,
)

BASELINE = 5
SLOWDOWNS = (0.01, 0.02, 0.03, 0.05, 0.10)
OURS, PAIRED, UNSEEN = "this suite's", "this suite's, `--against`", "this suite's, saved times alone"
THIRDS = 3
OTHER_CODE = "0" * 64


@dataclass
class Score:
    """Counts for one rule.

    ``alarms``: cases falsely called slower in each run; ``unsure``: the share of unchanged cases left so in each;
    ``processes``: measuring for each, in processes' worth; ``found``: size and slowdown -> case -> was it found?
    """

    alarms: list[int] = field(default_factory=list)
    unsure: list[float] = field(default_factory=list)
    processes: list[float] = field(default_factory=list)
    found: dict[tuple[str, float], dict[str, list[bool]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def note(self, medians: Mapping[str, float], slow: Iterable[str], slowdown: float, called: set[str]) -> None:
        """Take note of the cases that were called slower; without a slowdown these are false alarms."""
        if not slowdown:
            self.alarms.append(len(called))
        for name in slow if slowdown else ():
            size = next(size for size, (low, high) in CLASSES.items() if low <= medians[name] < high)
            self.found[size, slowdown][name].append(name in called)


@dataclass(frozen=True)
class Judged:
    """Verdict of a rule on a played run: the cases called slower, the number left unsure, the processes' worth."""

    called: set[str]
    unsure: int
    worth: float

    @classmethod
    def of(cls, decisions: Mapping[str, Decision], worth: float) -> Judged:
        verdicts = {name: decision.verdict for name, decision in decisions.items()}
        slower = {name for name, verdict in verdicts.items() if verdict == Verdict.SLOWER}
        return cls(slower, sum(verdict == Verdict.UNSURE for verdict in verdicts.values()), worth)


def judge_saved(
    past: Sequence[Mapping[str, float]],
    new: Sequence[Mapping[str, float]],
    first: int = 1,
    most: int = MAX_PROCESSES,
) -> Judged:
    """Decide as --benchmark-compare does on the baseline's GPU, but without knowledge of machine code.

    ``past``, ``new``: the medians of each process by case; of the new ones ``first`` are used for all cases, and up to
    ``most`` for undecided ones.
    """
    base = aligned(past)
    reference = mean_of(base)
    old = {name: [times[name] for times in base] for name in reference}
    fresh: dict[str, list[float]] = {name: [] for name in reference}
    effects: dict[str, Effect] = {}
    todo, decisions, worth = list(reference), dict[str, Decision](), 0.0
    prior: Prior | None = None
    for process, times in enumerate(new[:most], 1):
        own = process_effect(reference, times)
        worth += len(todo) / len(reference)
        for name in todo:
            fresh[name].append(own.remove(times[name]))
            effects[name] = unpaired(old[name], fresh[name])
        if process < first:
            continue
        prior = prior or learn(list(effects.values()))
        decisions = decide(effects, prior, looks=most - first + 1)
        todo = [name for name, decision in decisions.items() if decision.verdict == Verdict.UNSURE]
        if not todo:
            break
    return Judged.of(decisions, worth)


def medians_of(process: Process) -> dict[str, float]:
    """Return the median of each case in seconds."""
    return {name: float(np.median(samples)) for name, samples in process.items()}


def play_saved(recording: Recording, trials: int, seed: int = 1) -> dict[str, Score]:
    """Replay every rule on the same trials: unchanged, then with each slowdown in a tenth of the cases."""
    rng = np.random.default_rng(seed)
    scores = {name: Score() for name in (OURS, *RULES)}
    medians = {name: math.exp(log) for name, log in recording.logs.items()}
    for _ in range(trials):
        past = [recording.process(rng) for _ in range(BASELINE)]
        new = [recording.process(rng) for _ in range(MAX_PROCESSES)]
        past_medians, new_medians = ([medians_of(process) for process in side] for side in (past, new))
        unchanged: dict[str, set[str]] = {}  # what each rule says without a slowdown
        for slowdown in (0.0, *SLOWDOWNS):
            slow = slow_cases(recording.logs, rng) if slowdown else set()
            # Cases that are not slower are those of the trial without a slowdown, and are not asked for again.
            slower = [{name: process[name] * (1 + slowdown) for name in slow} for process in new]
            played = [known | medians_of(process) for known, process in zip(new_medians, slower, strict=True)]
            judged = judge_saved(past_medians, played)
            scores[OURS].note(medians, slow, slowdown, judged.called)
            if not slowdown:
                scores[OURS].unsure.append(judged.unsure / len(medians))
                scores[OURS].processes.append(judged.worth)
            for name, rule in RULES.items():
                if not slowdown:
                    unchanged[name] = _called(rule, past, new, recording.logs)
                    scores[name].processes.append(SIMPLE_PROCESSES if name == SIMPLE else 1)
                called = unchanged[name] - slow | _called(rule, past, slower, slow)
                scores[name].note(medians, slow, slowdown, called)
    return scores


def slow_cases(names: Iterable[str], rng: np.random.Generator) -> set[str]:
    """Draw a tenth of the cases, libraries left out."""
    return {name for name in names if f"-{VENDOR_BLOCK}-" not in name and rng.random() < 0.1}


def _called(rule: Rule, past: Sequence[Process], new: Sequence[Process], names: Iterable[str]) -> set[str]:
    """Select the cases that a rule calls slower."""
    return {name for name in names if rule([process[name] for process in past], [process[name] for process in new])}


def judge_pairs(
    medians: Mapping[str, float],
    logs: Mapping[str, Floats],
    first: int = SCREENING_PROCESSES,
    most: int = MAX_PAIR_PROCESSES,
) -> Judged:
    """Decide as --against does (compare/pairs.py): ``first`` processes for all cases, ``most`` for undecided ones.

    Two processes first, for those that are clearly the same, only where ``first`` is as it is.
    """
    prior: Prior | None = None
    decisions: dict[str, Decision] = {}
    effects: dict[str, Effect] = {}
    begin = first - (first == SCREENING_PROCESSES)
    todo, worth = list(logs), 0.0
    for process in range(begin, most + 1):
        worth += len(todo) / len(logs) * (begin if process == begin else 1)
        for name in todo:
            effects[name] = paired(medians[name], medians[name] * math.exp(logs[name][0]), list(logs[name][:process]))
        learned = prior or learn(list(effects.values()))
        decisions = decide(effects, learned, looks=most - first + 1)
        if process < first:
            todo = [name for name, decision in decisions.items() if not is_clearly_same(decision)]
        else:
            prior = learned
            todo = [name for name, decision in decisions.items() if decision.verdict == Verdict.UNSURE]
        if not todo:
            break
    return Judged.of(decisions, worth)


def draw_pairs(recording: PairRecording, processes: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw for each case the log of new over old in so many processes, each with a random sign."""
    drawn = {
        name: rng.choice(logs, processes) * rng.choice([-1, 1], processes) for name, logs in recording.logs.items()
    }
    # Written as an array of float64, because choice() of NumPy 2.5 is typed as of any floating type.
    return {name: np.asarray(logs, np.float64) for name, logs in drawn.items()}


def slowed(logs: Mapping[str, Floats], slow: Iterable[str], slowdown: float) -> dict[str, Floats]:
    """Return the logs of pairs with a slowdown in some cases."""
    return {**logs, **{name: logs[name] + math.log1p(slowdown) for name in slow}}


def play_pairs(recording: PairRecording, trials: int, seed: int = 1) -> dict[str, Score]:
    """Replay rules of pairs on unchanged ones, then with each slowdown in a tenth of the cases."""
    rng, ours, helion = np.random.default_rng(seed), Score(), Score()
    for _ in range(trials):
        played = draw_pairs(recording, MAX_PAIR_PROCESSES, rng)
        sides = {name: _drawn_sides(recording.samples[name], rng) for name in recording.samples}
        unchanged = {name for name, (old, new) in sides.items() if helion_paired(old, new)}
        for slowdown in (0.0, *SLOWDOWNS):
            slow = slow_cases(played, rng) if slowdown else set()
            judged = judge_pairs(recording.medians, slowed(played, slow, slowdown))
            ours.note(recording.medians, slow, slowdown, judged.called)
            if not slowdown:
                ours.unsure.append(judged.unsure / len(played))
                ours.processes.append(judged.worth)
                helion.processes.append(1)
            seen = {
                name for name in slow & sides.keys() if helion_paired(sides[name][0], sides[name][1] * (1 + slowdown))
            }
            helion.note(recording.medians, slow & sides.keys(), slowdown, unchanged - slow | seen)
    return {PAIRED: ours} | ({HELION: helion} if recording.samples else {})


def _drawn_sides(taken: Sequence[tuple[Floats, Floats]], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw a process's samples of both sides, which are of the same kernel, in random order."""
    one, other = taken[int(rng.integers(len(taken)))]
    return (one, other) if rng.random() < 0.5 else (other, one)


def play_unseen(baseline: Sequence[RunRecord], runs: Sequence[RunRecord], seed: int = 1) -> Score:
    """Compare later runs on GPUs that a committed baseline lacks with it, a third of the cases taken as modified.

    Only cases of the baseline's work count. Each is modified once a run: unchanged, then with each slowdown. The run's
    one process stands for MIN_PROCESSES, the fewest with which a case is called slower. Pairs decide nothing here.
    """
    rng, score = np.random.default_rng(seed), Score()
    past = [_medians_alone(run, run.cases) for run in baseline]
    for run in unseen(baseline, runs):
        names = [name for name in run.cases if all(name in old.cases and same_work(name, run, old) for old in past)]
        ours = [name for name in names if f"-{VENDOR_BLOCK}-" not in name]
        order = [ours[which] for which in rng.permutation(len(ours))]
        if order:
            _play_thirds(score, past, _medians_alone(run, names), order)
    return score


def unseen(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[RunRecord]:
    """List the runs that are later than a baseline, on GPUs that it lacks; one on several GPUs gives one for each."""
    known = {part.gpu_uuid for run in baseline for part in by_gpu(run)}
    last = max((run.when for run in baseline if run.when), default=None)
    later = [run for run in runs if last and run.when and run.when > last]
    return [part for run in later for part in by_gpu(run) if part.gpu_uuid not in known]


def _medians_alone(run: RunRecord, names: Iterable[str]) -> RunRecord:
    """Return a run with one sample of each case, its median, which is all that is compared."""
    cases = {name: run.cases[name] for name in names}
    return replace(run, cases={name: replace(timed, samples=(median(timed.samples),)) for name, timed in cases.items()})


def _play_thirds(score: Score, past: Sequence[RunRecord], run: RunRecord, order: Sequence[str]) -> None:
    """Compare a run with a baseline, with each third of these cases modified and each slowdown."""
    medians = {name: timed.samples[0] for name, timed in run.cases.items()}
    alarms, left = set[str](), set[str]()
    for third in range(THIRDS):
        modified = set(order[third::THIRDS])
        for slowdown in (0.0, *SLOWDOWNS):
            decisions = _judge_unseen(past, run, modified, slowdown)
            called = {name for name in modified if decisions[name].verdict == Verdict.SLOWER}
            if slowdown:
                score.note(medians, modified, slowdown, called)
            else:
                alarms |= called
                left |= {name for name in modified if decisions[name].verdict == Verdict.UNSURE}
    score.alarms.append(len(alarms))
    score.unsure.append(len(left) / len(order))


def _judge_unseen(
    past: Sequence[RunRecord], run: RunRecord, modified: set[str], slowdown: float
) -> dict[str, Decision]:
    cases = {}
    for name, timed in run.cases.items():
        facts, seconds = replace(timed.facts, again=()), timed.samples[0]
        if name in modified:
            facts = replace(facts, identity=facts.identity and msgspec.structs.replace(facts.identity, code=OTHER_CODE))
            seconds *= 1 + slowdown
        cases[name] = SampledCase(facts, [[seconds]])
    processes = Processes(past, cases, run.gpu_uuid, run.gpu.note)
    processes.by_pairs.clear()  # saved times alone
    for _ in range(MIN_PROCESSES - 1):
        processes.absorb({name: case.processes[0] for name, case in cases.items()})
    return processes.decide()
