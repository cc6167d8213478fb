"""Finds the lasting changes of cases in the nightly runs, those that the last night shows first among them.

Steps are found by PELT (Killick 2012, in the library ruptures) on the logarithms of the medians, each run without what
it does to every case. A step counts from the size that is relevant, or three standard deviations of the case's own
nights, so that a drift of 1 % a week shows as a few steps although no single night is slower than the one before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from warpwatch.runs.files import numbered_runs
from warpwatch.runs.identity import Difference, difference
from warpwatch.runs.record import BadRun, CaseRecord, RunRecord, read_usable
from warpwatch.verdict.process_effects import aligned
from warpwatch.verdict.rule import MEASURED, RELEVANT

STEP_FAMILYWISE_ERROR = 0.01  # the share of whole histories without any change in which any case shows a step
SHORTEST = 3  # the fewest nights that a level lasts
SIGMAS = 3.0
LONG_AGO = datetime.min.replace(tzinfo=UTC)  # a run that does not say when it was measured comes first


@dataclass(frozen=True)
class Step:
    """Lasting change of a case's time: ``ratio``, new over old, between the runs ``before`` and ``after``."""

    case: str
    ratio: float
    before: RunRecord
    after: RunRecord

    def __str__(self) -> str:
        revisions = f"{self.before.commit}..{self.after.commit}"
        days = f"{_day(self.before)} to {_day(self.after)}"
        return f"{self.case}: {100 * (self.ratio - 1):+.1f} % in {revisions} ({days}){_work(self.change_of_work)}"

    @property
    def change_of_work(self) -> Difference:
        """Difference of the case's work after the step."""
        before, after = (run.cases[self.case].facts for run in (self.before, self.after))
        return difference(before.identity, after.identity)


def _work(changed: Difference) -> str:
    """Say what changed in a case's work, or that nothing did; nothing where that is not known."""
    if not changed:
        return "; the same work: GPU, driver or memory, not the kernel"
    return f"; changed: {changed.words}" if changed.changed else ""


def _day(run: RunRecord) -> str:
    return run.when.date().isoformat() if run.when else "no known day"


def load(folder: Path) -> tuple[list[RunRecord], list[str]]:
    """Read the saved runs of one GPU, oldest first, with a sentence for each file or case that had to be left out.

    Raises BadRun where the folder holds no runs of one GPU, or none that can be read.
    """
    inside = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    folders = [each for each in sorted(inside) if numbered_runs(each)]
    if len(folders) != 1:
        listed = ", ".join(map(str, folders)) or "none"
        raise BadRun(f"{folder}: --runs takes the folder of one GPU; with runs are here: {listed}")
    usable, problems = read_usable(numbered_runs(folders[0]))
    runs = [run for run in usable if not run.against]
    if len({run.setting("cache") for run in runs}) > 1:
        raise BadRun(f"{folder}: holds runs with cold and with warm caches, which have no history in common")
    return sorted(runs, key=lambda run: run.when or LONG_AGO), problems


def levels(logs: Sequence[float], variance: float, cases: int = 1) -> list[int]:
    """Indices at which a series of logarithms begins a new level.

    ``variance``: the least that is expected of a value. ``cases``: how many series are looked at together.
    """
    import ruptures  # noqa: PLC0415  # takes half a second

    values = np.asarray(logs)
    if len(values) < 2 * SHORTEST:
        return []
    # Differences between neighbours are used, because the step between two levels would count as scatter.
    scatter = float(np.median(np.abs(np.diff(values)))) / 0.6745 / math.sqrt(2)
    spread = math.sqrt(max(scatter**2, variance))
    # Penalty on a sum of squares in units of the variance that holds STEP_FAMILYWISE_ERROR over all places and cases.
    penalty = 2 * math.log(len(values) * cases / STEP_FAMILYWISE_ERROR)
    # KernelCPD's linear kernel is the cost of Pelt(model="l2"), in C: 0.07 ms and not 29 for 100 nights.
    ends = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit((values / spread)[:, None]).predict(pen=penalty)
    least = max(math.log1p(RELEVANT), SIGMAS * spread)
    return _placed(values, _large(values, [0, *ends], least))


def _placed(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], bounds: list[int]) -> list[int]:
    """Move bounds to where the values change: PELT places the last step too early while its level is short.

    A level has SHORTEST nights at least, so two slow nights and the last fast one may be taken for one. The commits
    between which a case changed would then be wrong. A night belongs to the level whose median it is nearer to.
    """
    edges = [0, *bounds, len(values)]
    for index in range(1, len(edges) - 1):
        first, place, end = edges[index - 1 : index + 2]
        before, after = np.median(values[first:place]), np.median(values[place:end])
        middle, rises = (before + after) / 2, after > before
        while place < end - 1 and (values[place] < middle) == rises:
            place += 1
        while place > first + 1 and (values[place - 1] > middle) == rises:
            place -= 1
        edges[index] = place
    return edges[1:-1]


def _large(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], bounds: list[int], least: float) -> list[int]:
    """Bounds between levels, from which the smallest step is left out until all are large enough.

    A level is the median of its nights: one night that was slow by itself begins no level, wherever it falls.
    """
    while len(bounds) > 2:
        middles = [np.median(values[first:end]) for first, end in pairwise(bounds)]
        steps = np.abs(np.diff(middles))
        smallest = int(np.argmin(steps))
        if steps[smallest] >= least:
            break
        del bounds[smallest + 1]
    return bounds[1:-1]


def find_steps(runs: Sequence[RunRecord]) -> list[Step]:
    """Find every step of every case, the largest slowdown first."""
    medians = aligned([{name: median(t.samples) for name, t in _gpu_cases(run)} for run in runs])
    names = dict.fromkeys(name for times in medians for name in times)
    steps = []
    for name in names:
        series = [(run, math.log(times[name])) for run, times in zip(runs, medians, strict=True) if name in times]
        logs = [log for _, log in series]
        expected = float(MEASURED.variance(math.exp(median(logs))))
        bounds = [0, *levels(logs, expected, len(names)), len(logs)]
        for first, middle, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
            ratio = math.exp(median(logs[middle:end]) - median(logs[first:middle]))
            steps.append(Step(name, ratio, series[middle - 1][0], series[middle][0]))
    return sorted(steps, key=lambda step: -step.ratio)


def _gpu_cases(run: RunRecord) -> list[tuple[str, CaseRecord]]:
    return [(name, timed) for name, timed in run.cases.items() if timed.facts.cache != "host"]
