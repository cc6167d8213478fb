"""Replays recorded samples through regression rules, ours and other tools': false alarms, and slowdowns found.

``python -m tools.score RUN... [--trials N]`` prints a table. A RUN is a saved run, or a folder of them.

A trial is a whole run against a baseline of five. Where there are too few runs for that, processes are made from the
recorded ones: the case's median in one run, its deviation from the case's mean over that GPU's runs with a random sign,
that run's own samples around it, and what a process does to every case. A slowdown is put into a tenth of the cases,
but not into libraries' kernels.

Runs of --self-check, which hold pairs, are replayed in the same way for the row of --against.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from tools.other_rules import RULES, Rule
from tools.recording import PairRecording, Process, Recording, record, record_pairs, same_code
from warpwatch.__main__ import run_command
from warpwatch.catalogue.cases import VENDOR_BLOCK
from warpwatch.compare.doubts import SAME_CODE
from warpwatch.compare.saved_self_check import CLASSES
from warpwatch.compare.with_baseline import MAX_PROCESSES, MIN_GPUS
from warpwatch.runs.files import chosen_files
from warpwatch.runs.record import BadRun, RunRecord, read_run
from warpwatch.verdict.process_effects import aligned, mean_of, process_effect
from warpwatch.verdict.rule import (
    MAX_PAIR_PROCESSES,
    MIN_PROCESSES,
    SCREENING_PROCESSES,
    Decision,
    Floats,
    Prior,
    Verdict,
    conformal_floor_factor,
    decide,
    learn,
    paired,
    unpaired,
)

BASELINE = 5
SLOWDOWNS = (0.01, 0.02, 0.03, 0.05, 0.10)
OURS, PAIRED, OTHER_GPU = "this suite's", "this suite's, `--against`", "this suite's, another GPU"


def play_pairs(recording: PairRecording, trials: int, seed: int = 1) -> Score:
    """Replay the rule of --against on unchanged pairs, then with each slowdown in a tenth of the cases."""
    rng, score = np.random.default_rng(seed), Score()
    for _ in range(trials):
        played = {
            name: rng.choice(logs, MAX_PAIR_PROCESSES) * rng.choice([-1, 1], MAX_PAIR_PROCESSES)
            for name, logs in recording.logs.items()
        }
        for slowdown in (0.0, *SLOWDOWNS):
            slow = {name for name in played if rng.random() < 0.1} if slowdown else set()
            # Written as an array of float64, because choice() of NumPy 2.5 is typed as of any floating type.
            shifted = {
                name: np.asarray(logs + math.log1p(slowdown) * (name in slow), np.float64)
                for name, logs in played.items()
            }
            called, unsure, worth = called_side_by_side(recording, shifted)
            _note(score, recording.medians, slow, slowdown, called)
            if not slowdown:
                score.unsure.append(unsure)
                score.processes.append(worth)
    return score


def called_side_by_side(recording: PairRecording, logs: Mapping[str, Floats]) -> tuple[set[str], int, float]:
    """Decide as --against does (compare/pairs.py). Returns as ``called_by_baseline_rule``."""
    prior: Prior | None = None
    decisions: dict[str, Decision] = {}
    taken, todo, worth = dict.fromkeys(logs, 0), list(logs), 0.0
    for process in range(SCREENING_PROCESSES, MAX_PAIR_PROCESSES + 1):
        worth += len(todo) / len(logs) * (SCREENING_PROCESSES if process == SCREENING_PROCESSES else 1)
        taken |= dict.fromkeys(todo, process)
        effects = {}
        for name, count in taken.items():
            median_ = recording.medians[name]
            effects[name] = paired(median_, median_ * math.exp(logs[name][0]), list(logs[name][:count]))
        prior = prior or learn(list(effects.values()))
        decisions = decide(effects, prior, looks=MAX_PAIR_PROCESSES - SCREENING_PROCESSES + 1)
        todo = [name for name, decision in decisions.items() if decision.verdict == Verdict.UNSURE]
        if not todo:
            break
    return {name for name, decision in decisions.items() if decision.verdict == Verdict.SLOWER}, len(todo), worth


def play_other_gpus(runs: Sequence[RunRecord], seed: int = 1) -> Score:
    """Replay each run against other GPUs' baselines, ten times, with a random tenth of the cases treated as modified.

    The comparison is that of with_baseline.py with GPUs other than the one at hand: each GPU counts once, and the
    unmodified cases show how far this one differs. Its one process counts as MIN_PROCESSES. Raises BadRun where no case
    can be treated as modified beside one that is not.
    """
    names, ours = _common_cases(runs)
    times = {run.path: {name: median(run.cases[name].samples) for name in names} for run in runs}
    rng, score = np.random.default_rng(seed), Score()
    for run in runs:
        others = dict.fromkeys(other.gpu_uuid for other in runs if other.gpu_uuid != run.gpu_uuid)
        past = aligned(
            mean_of([times[other.path] for other in runs if other.gpu_uuid == gpu_uuid]) for gpu_uuid in others
        )
        own = process_effect(mean_of(past), times[run.path])
        new = {name: own.remove(seconds) for name, seconds in times[run.path].items()}
        effects = {
            name: replace(unpaired([t[name] for t in past], [new[name]]), processes=MIN_PROCESSES) for name in names
        }
        prior = learn(list(effects.values()))
        order = rng.permutation(len(ours))
        for tenth in range(10):
            changed = {ours[which] for which in order[tenth::10]}
            floor_factor = conformal_floor_factor(
                [effect for name, effect in effects.items() if name not in changed], prior
            )
            for slowdown in (0.0, *SLOWDOWNS):
                slower = math.log1p(slowdown)
                played = {n: replace(e, log=e.log + slower * (n in changed)) for n, e in effects.items()}
                played |= {
                    n: replace(e, doubt=SAME_CODE, no_gain=SAME_CODE) for n, e in effects.items() if n not in changed
                }
                decisions = decide(played, prior, MAX_PROCESSES, floor_factor)
                called = {name for name in changed if decisions[name].verdict == Verdict.SLOWER}
                _note(score, mean_of(past), changed, slowdown, called)
    return score


def _common_cases(runs: Sequence[RunRecord]) -> tuple[list[str], list[str]]:
    """List the cases of the same machine code in all runs, and those of them that are no library's. Raises BadRun."""
    names = [name for name in runs[0].cases if all(same_code(name, run, runs[0]) for run in runs)]
    ours = [name for name in names if f"-{VENDOR_BLOCK}-" not in name]
    if not ours or len(names) < 2:
        raise BadRun(
            f"these runs of several GPUs share {len(names)} cases of the same machine code, {len(ours)} of them not a "
            "library's; a replay against other GPUs needs two, one of them not a library's: give runs that share more"
        )
    return names, ours


@dataclass
class Score:
    """Counts for one rule: false alarms in each trial, slowdowns found, and the measuring in processes' worth."""

    alarms: list[int] = field(default_factory=list)
    unsure: list[int] = field(default_factory=list)
    found: dict[tuple[str, float], list[bool]] = field(default_factory=lambda: defaultdict(list))
    processes: list[float] = field(default_factory=list)


def called_by_baseline_rule(past: Sequence[Process], new: Sequence[Process]) -> tuple[set[str], int, float]:
    """Decide as --benchmark-compare does (compare/with_baseline.py), but without knowledge of machine code.

    Returns the cases called slower, how many are left unsure, and how many processes' worth was measured.
    """
    return _called_by_medians([_medians(process) for process in past], [_medians(process) for process in new])


def _called_by_medians(
    past: Sequence[Mapping[str, float]], new: Sequence[Mapping[str, float]]
) -> tuple[set[str], int, float]:
    """Decide by the medians of each case in each process, as ``called_by_baseline_rule``."""
    base = aligned(past)
    reference = mean_of(base)
    fresh: list[dict[str, float]] = []
    todo, decisions, worth = list(reference), {}, 0.0
    prior: Prior | None = None
    for look in range(MAX_PROCESSES):
        times = new[look]
        own = process_effect(reference, times)
        fresh.append({name: own.remove(times[name]) for name in todo})
        worth += len(todo) / len(reference)
        effects = {}
        for name in reference:
            values = [process[name] for process in fresh if name in process]
            effects[name] = unpaired([times[name] for times in base], values)
        prior = prior or learn(list(effects.values()))
        decisions = decide(effects, prior, looks=MAX_PROCESSES)
        todo = [name for name, decision in decisions.items() if decision.verdict == Verdict.UNSURE]
        if not todo:
            break
    slower = {name for name, decision in decisions.items() if decision.verdict == Verdict.SLOWER}
    return slower, len(todo), worth


def _medians(process: Process) -> dict[str, float]:
    return {name: float(np.median(samples)) for name, samples in process.items()}


def score(recording: Recording, trials: int, seed: int = 1) -> dict[str, Score]:
    """Replay every rule on the same trials: unchanged, then with each slowdown in a tenth of the cases."""
    rng = np.random.default_rng(seed)
    scores = {name: Score() for name in (OURS, *RULES)}
    medians = {name: math.exp(log) for name, log in recording.logs.items()}
    ours = [name for name in recording.logs if f"-{VENDOR_BLOCK}-" not in name]
    for _ in range(trials):
        past = [recording.process(rng) for _ in range(BASELINE)]
        new = [recording.process(rng) for _ in range(MAX_PROCESSES)]
        past_medians, new_medians = ([_medians(process) for process in side] for side in (past, new))
        unchanged: dict[str, set[str]] = {}  # what each rule says without a slowdown
        for slowdown in (0.0, *SLOWDOWNS):
            slow = {name for name in ours if rng.random() < 0.1} if slowdown else set()
            # Cases that are not slower are those of the trial without a slowdown, and are not asked for again.
            slower = [{name: process[name] * (1 + slowdown) for name in slow} for process in new]
            played = [known | _medians(process) for known, process in zip(new_medians, slower, strict=True)]
            called, unsure, worth = _called_by_medians(past_medians, played)
            _note(scores[OURS], medians, slow, slowdown, called)
            if not slowdown:
                scores[OURS].unsure.append(unsure)
                scores[OURS].processes.append(worth)
            for name, rule in RULES.items():
                if not slowdown:
                    unchanged[name] = _called(rule, past, new[0], recording.logs)
                called = unchanged[name] - slow | _called(rule, past, slower[0], slow)
                _note(scores[name], medians, slow, slowdown, called)
    return scores


def _called(rule: Rule, past: Sequence[Process], new: Process, cases: Iterable[str]) -> set[str]:
    """Those of the cases that another tool's rule calls slower."""
    return {case for case in cases if rule([process[case] for process in past], new[case])}


def _note(score: Score, medians: Mapping[str, float], slow: set[str], slowdown: float, called: set[str]) -> None:
    if not slowdown:
        score.alarms.append(len(called))
    for name in slow:
        size = next(size for size, (low, high) in CLASSES.items() if low <= medians[name] < high)
        score.found[size, slowdown].append(name in called)


def table(recording: Recording, scores: Mapping[str, Score]) -> str:
    """Table of the scores in Markdown, a row for each rule."""
    sizes = list(CLASSES)
    head = ["rule", "alarms a run", "runs with any", "minutes", *(f"found, {size}" for size in sizes)]
    lines = [f"| {' | '.join(head)} |", "|---|---:|---:|---:|" + "---|" * len(sizes)]
    for name, each in scores.items():
        runs = len(each.alarms)
        worth = float(np.mean(each.processes)) if each.processes else 1.0
        # The recorded seconds are those of a whole run, not of pairs or of one process on another GPU.
        minutes = "–" if name in (PAIRED, OTHER_GPU) else f"{recording.seconds / 60 * worth:.1f}"
        power = [" ".join(_percent(each.found.get((size, slowdown), [])) for slowdown in SLOWDOWNS) for size in sizes]
        any_ = f"{sum(map(bool, each.alarms))} of {runs}"
        lines.append(f"| {name} | {np.mean(each.alarms):.1f} | {any_} | {minutes} | {' | '.join(power)} |")
    listed = ", ".join(f"{100 * slowdown:g}" for slowdown in SLOWDOWNS)
    unsure = float(np.mean(scores[OURS].unsure)) / len(recording.logs)
    about = f"{len(recording.logs)} cases. Found: per cent of slowdowns by {listed} %."
    return "\n".join([*lines, "", f"{about} Of unchanged cases, {OURS} rule leaves {100 * unsure:.1f} % unsure."])


def _percent(hits: Sequence[bool]) -> str:
    return f"{100 * sum(hits) / len(hits):.0f}" if hits else "–"


def score_rules(paths: Sequence[Path], trials: int) -> str:
    """Return the table of what each rule would have said of recorded runs. Raises BadRun."""
    runs = [read_run(path) for path in paths]
    alone, side_by_side = [run for run in runs if not run.against], [run for run in runs if run.against]
    recording = record(alone)
    scores = score(recording, trials)
    if side_by_side:
        pairs = play_pairs(record_pairs(side_by_side), trials)
        scores = {OURS: scores[OURS], PAIRED: pairs} | scores
    if len({run.gpu_uuid for run in alone}) > MIN_GPUS:
        scores = {OURS: scores[OURS], OTHER_GPU: play_other_gpus(alone)} | scores
    return table(recording, scores)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    about = "Replay saved runs of unchanged kernels through several tools' rules."
    parser = argparse.ArgumentParser(prog="python -m tools.score", description=about)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a saved run, or a folder of them")
    parser.add_argument("--trials", type=int, default=30, help="whole runs to play (30)")
    return parser


def main() -> int:
    """Print the table; returns the exit status: 0, or 2 for runs that cannot be replayed."""
    options = make_parser().parse_args()
    try:
        print(score_rules(chosen_files(options.runs), options.trials))
    except (BadRun, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    run_command(main)
