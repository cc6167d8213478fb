"""How often each rule cries wolf, and what it sees: ours and other tools', on the same recorded samples.

A trial is a whole run against a baseline of five. Where there are not runs enough for that, processes are made from
those recorded: a case's median of one run, its deviation from the case's mean over that GPU's runs with a random sign,
that run's own samples around it, and what a process does to every case. A slowdown is put into a tenth of the cases,
libraries' left out.

Runs of --self-check, which hold pairs, are what the row of --against is played from, in the same way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from statistics import median

import numpy as np

from warpwatch.catalogue.declaration import VENDOR_BLOCK
from warpwatch.compare.doubts import SAME_CODE
from warpwatch.compare.other_rules import RULES, Samples
from warpwatch.compare.pairs import MOST_PROCESSES as MOST
from warpwatch.compare.pairs import SCREEN
from warpwatch.compare.self_check import CLASSES
from warpwatch.compare.with_baseline import MOST_PROCESSES
from warpwatch.runs.saved import BadRun, Run
from warpwatch.timing.worker_pairs import log_ratio
from warpwatch.verdict.rule import (
    FEWEST,
    Decision,
    Floats,
    Prior,
    Verdict,
    aligned,
    apart,
    common,
    decide,
    furthest,
    learn,
    mean_of,
    paired,
)

BASELINE = 5
SLOWDOWNS = (0.01, 0.02, 0.03, 0.05, 0.10)
OURS, PAIRED, STRANGE = "this suite's", "this suite's, `--against`", "this suite's, another GPU"
Process = Mapping[str, Samples]


@dataclass(frozen=True)
class Recording:
    """What unchanged kernels did, by case: the mean's logarithm, and each process's deviation from it and samples.

    ``offsets``: seconds that a process adds to every case, as the processes showed. ``seconds``: of a whole run.
    """

    logs: Mapping[str, float]
    deviations: Mapping[str, Sequence[float]]
    shapes: Mapping[str, Sequence[Samples]]
    offsets: Sequence[float]
    seconds: float

    def process(self, rng: np.random.Generator) -> dict[str, Samples]:
        """A process like those recorded."""
        offset = float(rng.choice(self.offsets)) * rng.choice([-1, 1])
        made = {}
        for name, log in self.logs.items():
            which = int(rng.integers(len(self.shapes[name])))
            deviation = self.deviations[name][which] * rng.choice([-1, 1])
            made[name] = math.exp(log + deviation) * self.shapes[name][which] + offset
        return made


def record(runs: Sequence[Run]) -> Recording:
    """From saved runs: the cases that all of them have, as the same machine code, each GPU's runs by themselves.

    Raises BadRun where no GPU has two: of one process nobody learns a spread.
    """
    runs = [run for run in runs if sum(other.unit == run.unit for other in runs) > 1]
    if not runs:
        raise BadRun("no two of these runs are of the same GPU, and of one nobody learns a spread")
    names = [name for name in runs[0].cases if all(_same(name, run, runs[0]) for run in runs)]
    if not names:
        raise BadRun("these runs have no case of the same machine code in common")
    deviations: dict[str, list[float]] = defaultdict(list)
    shapes: dict[str, list[Samples]] = defaultdict(list)
    offsets: list[float] = []
    for unit in dict.fromkeys(run.unit for run in runs):
        own = [run for run in runs if run.unit == unit]
        medians = [{name: median(run.cases[name].samples) for name in names} for run in own]
        centre = mean_of(medians)
        offsets += [common(centre, times).offset for times in medians]
        grown = math.sqrt(len(own) / (len(own) - 1))  # what taking a mean took away
        for run, times in zip(own, aligned(medians), strict=True):
            for name in names:
                deviations[name].append(grown * math.log(times[name] / centre[name]))
                samples = np.array(run.cases[name].samples)
                shapes[name].append(samples / np.median(samples))
    logs = {name: math.log(median(runs[0].cases[name].samples)) for name in names}
    starts = sorted(_start(run) for run in runs if run.unit == runs[0].unit)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(starts)]
    return Recording(logs, deviations, shapes, offsets, min(gaps))  # between others something else ran


def _start(run: Run) -> datetime:
    if run.when is None:
        raise BadRun(f"{run.path}: does not say when it was measured (datetime)")
    return run.when


@dataclass(frozen=True)
class PairRecording:
    """What unchanged kernels did side by side: by case its median, and each process's logarithm of new over old."""

    medians: Mapping[str, float]
    logs: Mapping[str, Sequence[float]]


def record_pairs(runs: Sequence[Run]) -> PairRecording:
    """From runs of --self-check."""
    logs: dict[str, list[float]] = defaultdict(list)
    medians = {}
    for run in runs:
        for name, timed in run.cases.items():
            if sides := timed.facts.pairs:
                logs[name] += [log_ratio(old, new) for old, new in zip(sides.old, sides.new, strict=True)]
            medians[name] = median(timed.samples)
    return PairRecording(medians, {name: each for name, each in logs.items() if each})


def play_pairs(recording: PairRecording, trials: int, seed: int = 1) -> Score:
    """The rule of --against on unchanged pairs, then with each slowdown in a tenth of the cases."""
    rng, score = np.random.default_rng(seed), Score()
    for _ in range(trials):
        played = {name: rng.choice(logs, MOST) * rng.choice([-1, 1], MOST) for name, logs in recording.logs.items()}
        for slowdown in (0.0, *SLOWDOWNS):
            slow = {name for name in played if rng.random() < 0.1} if slowdown else set()
            shifted = {name: logs + math.log1p(slowdown) * (name in slow) for name, logs in played.items()}
            called, unsure, worth = called_side_by_side(recording, shifted)
            _note(score, recording.medians, slow, slowdown, called)
            if not slowdown:
                score.unsure.append(unsure)
                score.processes.append(worth)
    return score


def called_side_by_side(recording: PairRecording, logs: Mapping[str, Floats]) -> tuple[set[str], int, float]:
    """As ``called_by_us``, of pairs: as warpwatch/compare/pairs.py does it."""
    prior: Prior | None = None
    decisions: dict[str, Decision] = {}
    taken, todo, worth = dict.fromkeys(logs, 0), list(logs), 0.0
    for process in range(SCREEN, MOST + 1):
        worth += len(todo) / len(logs) * (SCREEN if process == SCREEN else 1)
        taken |= dict.fromkeys(todo, process)
        effects = {}
        for name, count in taken.items():
            median_ = recording.medians[name]
            effects[name] = paired(median_, median_ * math.exp(logs[name][0]), list(logs[name][:count]))
        prior = prior or learn(list(effects.values()))
        decisions = decide(effects, prior, looks=MOST - SCREEN + 1)
        todo = [name for name, decision in decisions.items() if decision.verdict == Verdict.UNSURE]
        if not todo:
            break
    return {name for name, decision in decisions.items() if decision.verdict == Verdict.SLOWER}, len(todo), worth


def play_strangers(runs: Sequence[Run], seed: int = 1) -> Score:
    """Each run as it was, against those of other GPUs: a tenth of its cases as if their machine code had changed.

    As with_baseline.py compares with GPUs that are not the one at hand: each counts once, and the unchanged cases show
    how far this one differs. Its one process counts as enough of them. Every case is in one of ten tenths.
    """
    names = [name for name in runs[0].cases if all(_same(name, run, runs[0]) for run in runs)]
    times = {run.path: {name: median(run.cases[name].samples) for name in names} for run in runs}
    ours = [name for name in names if f"-{VENDOR_BLOCK}-" not in name]
    rng, score = np.random.default_rng(seed), Score()
    for run in runs:
        others = dict.fromkeys(other.unit for other in runs if other.unit != run.unit)
        past = aligned(mean_of([times[other.path] for other in runs if other.unit == unit]) for unit in others)
        own = common(mean_of(past), times[run.path])
        new = {name: own.remove(seconds) for name, seconds in times[run.path].items()}
        effects = {name: replace(apart([t[name] for t in past], [new[name]]), processes=FEWEST) for name in names}
        prior = learn(list(effects.values()))
        order = rng.permutation(len(ours))
        for tenth in range(10):
            changed = {ours[which] for which in order[tenth::10]}
            widened = furthest([effect for name, effect in effects.items() if name not in changed], prior)
            for slowdown in (0.0, *SLOWDOWNS):
                slower = math.log1p(slowdown)
                played = {n: replace(e, log=e.log + slower * (n in changed)) for n, e in effects.items()}
                played |= {
                    n: replace(e, doubt=SAME_CODE, no_gain=SAME_CODE) for n, e in effects.items() if n not in changed
                }
                decisions = decide(played, prior, MOST_PROCESSES, widened)
                called = {name for name in changed if decisions[name].verdict == Verdict.SLOWER}
                _note(score, mean_of(past), changed, slowdown, called)
    return score


def _same(name: str, run: Run, other: Run) -> bool:
    if name not in run.cases or run.cases[name].facts.cache == "host":
        return False
    return run.cases[name].facts.image_hash == other.cases[name].facts.image_hash


@dataclass
class Score:
    """Of one rule: unchanged cases called in each trial, slowdowns found, and processes' worth of measuring."""

    alarms: list[int] = field(default_factory=list)
    unsure: list[int] = field(default_factory=list)
    found: dict[tuple[str, float], list[bool]] = field(default_factory=lambda: defaultdict(list))
    processes: list[float] = field(default_factory=list)


def called_by_us(past: Sequence[Process], new: Sequence[Process]) -> tuple[set[str], int, float]:
    """Cases that this suite calls slower, how many it leaves unsure, and how many processes' worth it measured.

    As with_baseline.py does it, but for what the same machine code lets that conclude: nothing is taken as known here.
    """
    base = aligned([_medians(process) for process in past])
    reference = mean_of(base)
    fresh: list[dict[str, float]] = []
    todo, decisions, worth = list(reference), {}, 0.0
    prior: Prior | None = None
    for look in range(MOST_PROCESSES):
        times = _medians(new[look])
        own = common(reference, times)
        fresh.append({name: own.remove(times[name]) for name in todo})
        worth += len(todo) / len(reference)
        effects = {}
        for name in reference:
            values = [process[name] for process in fresh if name in process]
            effects[name] = apart([times[name] for times in base], values)
        prior = prior or learn(list(effects.values()))
        decisions = decide(effects, prior, looks=MOST_PROCESSES)
        todo = [name for name, decision in decisions.items() if decision.verdict == Verdict.UNSURE]
        if not todo:
            break
    slower = {name for name, decision in decisions.items() if decision.verdict == Verdict.SLOWER}
    return slower, len(todo), worth


def _medians(process: Process) -> dict[str, float]:
    return {name: float(np.median(samples)) for name, samples in process.items()}


def score(recording: Recording, trials: int, seed: int = 1) -> dict[str, Score]:
    """Every rule on the same trials: unchanged, then with each slowdown in a tenth of the cases."""
    rng = np.random.default_rng(seed)
    scores = {name: Score() for name in (OURS, *RULES)}
    medians = {name: math.exp(log) for name, log in recording.logs.items()}
    ours = [name for name in recording.logs if f"-{VENDOR_BLOCK}-" not in name]  # a library's kernel nobody changes
    for _ in range(trials):
        past = [recording.process(rng) for _ in range(BASELINE)]
        new = [recording.process(rng) for _ in range(MOST_PROCESSES)]
        for slowdown in (0.0, *SLOWDOWNS):
            slow = {name for name in ours if rng.random() < 0.1} if slowdown else set()
            played = [
                {name: samples * (1 + slowdown if name in slow else 1) for name, samples in process.items()}
                for process in new
            ]
            called, unsure, worth = called_by_us(past, played)
            _note(scores[OURS], medians, slow, slowdown, called)
            if not slowdown:
                scores[OURS].unsure.append(unsure)
                scores[OURS].processes.append(worth)
            for name, rule in RULES.items():
                said = {case for case in recording.logs if rule([process[case] for process in past], played[0][case])}
                _note(scores[name], medians, slow, slowdown, said)
    return scores


def _note(score: Score, medians: Mapping[str, float], slow: set[str], slowdown: float, called: set[str]) -> None:
    if not slowdown:
        score.alarms.append(len(called))
    for name in slow:
        size = next(size for size, (low, high) in CLASSES.items() if low <= medians[name] < high)
        score.found[size, slowdown].append(name in called)


def table(recording: Recording, scores: Mapping[str, Score]) -> str:
    """In Markdown: a row a rule."""
    sizes = list(CLASSES)
    head = ["rule", "alarms a run", "runs with any", "minutes", *(f"found, {size}" for size in sizes)]
    lines = [f"| {' | '.join(head)} |", "|---|---:|---:|---:|" + "---|" * len(sizes)]
    for name, each in scores.items():
        runs = len(each.alarms)
        worth = float(np.mean(each.processes)) if each.processes else 1.0
        # A process of pairs takes its own time.
        minutes = "–" if name in (PAIRED, STRANGE) else f"{recording.seconds / 60 * worth:.1f}"
        power = [" ".join(_percent(each.found.get((size, slowdown), [])) for slowdown in SLOWDOWNS) for size in sizes]
        any_ = f"{sum(map(bool, each.alarms))} of {runs}"
        lines.append(f"| {name} | {np.mean(each.alarms):.1f} | {any_} | {minutes} | {' | '.join(power)} |")
    listed = ", ".join(f"{100 * slowdown:g}" for slowdown in SLOWDOWNS)
    unsure = float(np.mean(scores[OURS].unsure)) / len(recording.logs)
    said = f"{len(recording.logs)} cases. Found: per cent of slowdowns by {listed} %."
    return "\n".join([*lines, "", f"{said} Of unchanged cases, {OURS} rule leaves {100 * unsure:.1f} % unsure."])


def _percent(hits: Sequence[bool]) -> str:
    return f"{100 * sum(hits) / len(hits):.0f}" if hits else "–"
