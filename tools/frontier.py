"""Shows what other constants of the rule would bring: false alarms, unsure cases, measuring time, slowdowns found.

Each row has one constant changed, and all rows play the same runs. For ``python -m tools.score --frontier``.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tools.counts import percent, share
from tools.recording import PairRecording, Process, Recording
from tools.replay import BASELINE, Judged, Score, draw_pairs, judge_pairs, judge_saved, slow_cases, slowed
from warpwatch.compare.processes import MAX_PROCESSES
from warpwatch.compare.saved_self_check import CLASSES
from warpwatch.compare.saved_verdicts import side_by_side as saved_pairs
from warpwatch.runs.record import RunRecord
from warpwatch.verdict import rule
from warpwatch.verdict.rule import MAX_PAIR_PROCESSES, SCREENING_PROCESSES, Verdict

SLOWDOWNS = (0.01, 0.02)
MOST_RUNS = 8  # of a baseline


@dataclass(frozen=True)
class Variant:
    """A way to set the rule: constants of verdict/rule.py that differ, and how much is measured.

    ``runs``: of the baseline. ``samples``: of each process, 0 for all. ``first``: processes for every case; ``most``:
    for an undecided one.
    """

    name: str
    constants: Mapping[str, float] = field(default_factory=dict)
    runs: int = BASELINE
    samples: int = 0
    first: int = 1
    most: int = MAX_PROCESSES


AS_IT_IS = Variant("as it is")
PAIRS_AS_THEY_ARE = replace(AS_IT_IS, first=SCREENING_PROCESSES, most=MAX_PAIR_PROCESSES)


def _floors(variant: Variant, *sigmas: int) -> list[Variant]:
    return [replace(variant, name=f"FLOOR_SIGMAS {each}", constants={"FLOOR_SIGMAS": each}) for each in sigmas]


SAVED = (
    AS_IT_IS,
    *_floors(AS_IT_IS, 4, 3, 2),
    Variant("MIN_PROCESSES 3", {"MIN_PROCESSES": 3}),
    *(Variant(f"{first} processes for every case", first=first) for first in (3, 5)),
    *(Variant(f"{runs} runs in the baseline", runs=runs) for runs in (3, MOST_RUNS)),
    *(Variant(f"{samples} samples a process", samples=samples) for samples in (50, 25)),
)
SIDE_BY_SIDE = (
    PAIRS_AS_THEY_ARE,
    *_floors(PAIRS_AS_THEY_ARE, 4, 3),
    *(
        replace(PAIRS_AS_THEY_ARE, name=f"CLEAR_FLOORS {floors}", constants={"CLEAR_FLOORS": floors})
        for floors in (2, 1)
    ),
    replace(PAIRS_AS_THEY_ARE, name="2 processes for every case", constants={"FEW_PROCESSES": 2}, first=2),
    replace(PAIRS_AS_THEY_ARE, name="3 processes for every case", constants={"LONG_SECONDS": math.inf}),
    replace(PAIRS_AS_THEY_ARE, name="5 processes for every case", first=5),
    *(replace(PAIRS_AS_THEY_ARE, name=f"{most} processes at most", most=most) for most in (5, 12)),
)
MOST_PAIRS = max(variant.most for variant in SIDE_BY_SIDE)


@contextlib.contextmanager
def constants(values: Mapping[str, float]) -> Iterator[None]:
    """Set constants of the rule for a while."""
    before = {name: getattr(rule, name) for name in values}
    try:
        for name, value in values.items():
            setattr(rule, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(rule, name, value)


def play_variants_saved(recording: Recording, trials: int, seed: int) -> dict[str, Score]:
    """Replay each variant of the rule of saved times on the same runs."""
    rng, scores = np.random.default_rng(seed), {variant.name: Score() for variant in SAVED}
    medians = {name: math.exp(log) for name, log in recording.logs.items()}
    for _ in range(trials):
        past, new = ([recording.process(rng) for _ in range(count)] for count in (MOST_RUNS, MAX_PROCESSES))
        slow = {slowdown: slow_cases(medians, rng) for slowdown in SLOWDOWNS}
        for variant in SAVED:
            old = _medians(past[: variant.runs], variant.samples)
            unchanged = _medians(new, variant.samples)
            for slowdown in (0.0, *SLOWDOWNS):
                cases = slow.get(slowdown, set())
                played = [{**times, **{n: times[n] * (1 + slowdown) for n in cases}} for times in unchanged]
                with constants(variant.constants):
                    judged = judge_saved(old, played, variant.first, variant.most)
                _note(scores[variant.name], medians, cases, slowdown, judged)
    return scores


def _medians(processes: Sequence[Process], samples: int) -> list[dict[str, float]]:
    """Medians of each case in each process, of its first samples where not all are to count."""
    return [
        {name: float(np.median(each[: samples or None])) for name, each in process.items()} for process in processes
    ]


def play_variants_side_by_side(recording: PairRecording, trials: int, seed: int) -> dict[str, Score]:
    """Replay each variant of the rule of pairs on the same pairs."""
    rng, scores = np.random.default_rng(seed), {variant.name: Score() for variant in SIDE_BY_SIDE}
    for _ in range(trials):
        played = draw_pairs(recording, MOST_PAIRS, rng)
        slow = {slowdown: slow_cases(played, rng) for slowdown in SLOWDOWNS}
        for variant in SIDE_BY_SIDE:
            for slowdown in (0.0, *SLOWDOWNS):
                cases = slow.get(slowdown, set())
                with constants(variant.constants):
                    logs = slowed(played, cases, slowdown)
                    judged = judge_pairs(recording.medians, logs, variant.first, variant.most)
                _note(scores[variant.name], recording.medians, cases, slowdown, judged)
    return scores


def _note(score: Score, medians: Mapping[str, float], slow: set[str], slowdown: float, judged: Judged) -> None:
    score.note(medians, slow, slowdown, judged.called)
    if not slowdown:
        score.unsure.append(judged.unsure / len(medians))
        score.processes.append(judged.worth)


def frontier(
    recording: Recording, side_by_side: Sequence[RunRecord], pairs: PairRecording, trials: int, seed: int
) -> str:
    """Return a table of the variants with saved times, and one with pairs where runs hold any."""
    tables = ["With saved times, same GPU within the hour:", "", _table(play_variants_saved(recording, trials, seed))]
    if side_by_side:
        scores = play_variants_side_by_side(pairs, trials, seed)
        left = {variant.name: not_same_as_recorded(side_by_side, variant) for variant in SIDE_BY_SIDE}
        tables += ["", "With pairs:", "", _table(scores, left)]
    return "\n".join([*tables, ""])


def not_same_as_recorded(runs: Sequence[RunRecord], variant: Variant) -> str:
    """Count the cases that are not the same in recorded runs of pairs, which are not resampled.

    These have SCREENING_PROCESSES each, and none more for undecided cases. A dash for a variant with another number.
    """
    if (variant.first, variant.most) != (SCREENING_PROCESSES, MAX_PAIR_PROCESSES):
        return "–"
    with constants(variant.constants):
        verdicts = [decision.verdict for run in runs for decision in saved_pairs(run).decisions.values()]
    return f"{sum(verdict != Verdict.SAME for verdict in verdicts)} of {len(verdicts):,}"


def _table(scores: Mapping[str, Score], recorded: Mapping[str, str] | None = None) -> str:
    head = [
        "rule",
        "runs with a false alarm",
        "unsure",
        *(["not the same, as recorded"] if recorded else []),
        "processes a case",
    ]
    lines = [f"| {' | '.join([*head, *(f'+{100 * slowdown:g} % found' for slowdown in SLOWDOWNS)])} |"]
    lines.append("|---|---|---:|" + "---:|" * (len(head) - 3) + "---|---|")
    for name, each in scores.items():
        cells = [
            name,
            share(sum(map(bool, each.alarms)), len(each.alarms)),
            f"{100 * float(np.mean(each.unsure)):.1f} %",
        ]
        cells += [recorded[name]] if recorded else []
        cells.append(f"{float(np.mean(each.processes)):.2f}")
        for slowdown in SLOWDOWNS:
            cells.append(" ".join(percent(each.found.get((size, slowdown), {})) for size in CLASSES))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Found: per cent, {', '.join(CLASSES)}."])
