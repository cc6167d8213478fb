"""Finds the lasting changes of cases in the saved runs of a GPU: steps of kernels, and apart from them all others.

What a run does to every case is estimated over the cases that did the same work in earlier runs, and taken out: cases
that changed say nothing of it. Steps are found by PELT (Killick 2012, in the library ruptures) on the logarithms of the
medians. A step counts from the size that is relevant, or three standard deviations of the case's own nights, so that a
drift of 1 % a week shows as a few steps although no single night is slower than the one before. It is a kernel's where
the case's work changed at that revision. Another one lasts longer before it is told, and is called the environment's.
Neither is told where its nights lie among those before: cases with two modes, or with a memory, return to both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from warpwatch.compare.reference import on_gpu
from warpwatch.runs.baseline import ANCHORS
from warpwatch.runs.files import numbered_runs
from warpwatch.runs.identity import Difference, Identity, difference
from warpwatch.runs.record import LONG_AGO, BadRun, Facts, RunRecord, by_gpu, by_uuid, read_usable
from warpwatch.verdict.process_effects import LARGE, SMALL, ProcessEffect, process_effect
from warpwatch.verdict.rule import MEASURED, RELEVANT, Floats

STEP_FAMILYWISE_ERROR = 0.01  # the share of whole histories without any change in which any case shows a step
SHORTEST = 3  # the fewest nights that a level lasts
LASTING = 6  # the fewest nights on both sides of a step at which no kernel changed
FEWEST = 2 * SHORTEST  # runs of a GPU in which two levels have room
SIGMAS = 3.0
LAGS = (3, 6, 12)  # nights between the values whose differences, beside those of neighbours, show a memory
LONGEST_MEMORY = 0.97  # autocorrelation of neighbours
# One night in so many of those before and after a step may lie among the others; of ten before, one may already.
SPARED_BEFORE, SPARED_AFTER, TEN = 20, 10, 10
# The least that runs differ in what they do to all cases, where no case tells (the second in seconds).
FACTOR_SIGMA, OFFSET_SIGMA = 1e-3, 40e-9
RECENT = 4  # works of a case that another one is compared with

Ints = npt.NDArray[np.int_]


class Cause(StrEnum):
    """Causes of a step, by what is known of the case's work on both sides."""

    KERNEL = "kernel"
    ENVIRONMENT = "environment"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Step:
    """Lasting change of a case's time: ``ratio``, new over old, between the runs ``before`` and ``after`` of a GPU."""

    case: str
    ratio: float
    before: RunRecord
    after: RunRecord

    def __str__(self) -> str:
        revisions = f"{self.before.commit}..{self.after.commit}"
        days = f"{self.before.day} to {self.after.day}"
        return f"{self.case}: {100 * (self.ratio - 1):+.1f} % in {revisions} ({days}); {self.why}"

    @cached_property
    def change_of_work(self) -> Difference:
        """Difference of the case's work after the step."""
        before, after = self._facts
        return difference(before.identity, after.identity)

    @property
    def _facts(self) -> tuple[Facts, Facts]:
        return self.before.cases[self.case].facts, self.after.cases[self.case].facts

    @cached_property
    def _is_timed_alike(self) -> bool:
        before, after = self._facts
        return before.way == after.way

    @property
    def cause(self) -> Cause:
        if not self.change_of_work:
            return Cause.ENVIRONMENT
        return Cause.KERNEL if self.change_of_work.changed and self._is_timed_alike else Cause.UNKNOWN

    @property
    def why(self) -> str:
        """Cause in words."""
        changed = "changed: " * bool(self.change_of_work.changed)
        words = f"{changed}{self.change_of_work.words}" if self.change_of_work else "the same work"
        if not self._is_timed_alike:
            return f"timed in another way; {words}"
        return words if self.change_of_work else f"{words}: GPU, driver or memory, not the kernel"


def load(folder: Path) -> tuple[list[RunRecord], list[str]]:
    """Read the saved runs of one GPU model, oldest first, with a sentence for each file or case that was left out.

    Raises BadRun where the folder holds no runs of one model, or none that can be read.
    """
    inside = [folder, *(path for path in folder.rglob("*") if path.is_dir() and path.name != ANCHORS)]
    folders = [each for each in sorted(inside) if numbered_runs(each)]
    if len(folders) != 1:
        listed = ", ".join(map(str, folders)) or "none"
        raise BadRun(f"{folder}: --runs takes the folder of one GPU; with runs are here: {listed}")
    usable, problems = read_usable(numbered_runs(folders[0]))
    runs = [run for run in usable if not run.against]
    if len({run.setting("cache") for run in runs}) > 1:
        raise BadRun(f"{folder}: holds runs with cold and with warm caches, which have no history in common")
    return sorted(runs, key=lambda run: run.when or LONG_AGO), problems


def find_steps(runs: Sequence[RunRecord]) -> list[Step]:
    """Find every step of every case, GPU by GPU, the largest slowdown first. ``runs``: oldest first."""
    steps = [step for own in by_uuid(runs).values() for step in _steps_of(own)]
    return sorted(steps, key=lambda step: -step.ratio)


def common_effects(runs: Sequence[RunRecord]) -> list[ProcessEffect]:
    """Estimate what each run did to every case, against earlier runs of its GPU. Runs on several GPUs show none."""
    effects = dict[Path, ProcessEffect]()
    for own in by_uuid(runs).values():
        effects |= dict(zip((run.path for run in own), Alignment.of(own).effects, strict=True))
    return [effects[run.path] if len(by_gpu(run)) == 1 else ProcessEffect() for run in runs]


@dataclass(frozen=True)
class Alignment:
    """Runs of one GPU without what each of them does to every case.

    ``times``: seconds by case. ``works``: the number of the work of each case. ``chains``: of each run, the number of
    the chain that it belongs to: the runs of a chain share enough cases of the same work, and others are not aligned.
    """

    times: Sequence[Mapping[str, float]]
    works: Sequence[Mapping[str, int]]
    chains: Sequence[int]
    effects: Sequence[ProcessEffect]

    @classmethod
    def of(cls, runs: Sequence[RunRecord]) -> Alignment:
        """Align runs, oldest first: each with the mean of those before, over the cases that did the same work there."""
        measured = [{name: median(timed.samples) for name, timed in on_gpu(run).items()} for run in runs]
        works, chains, effects = _numbered_works(runs), list[int](), list[ProcessEffect]()
        sums: dict[tuple[str, int], list[float]] = {}
        times = []
        for seconds, work in zip(measured, works, strict=True):
            known = {name: sums[name, work[name]] for name in seconds if (name, work[name]) in sums}
            effect = process_effect({name: math.exp(log / count) for name, (log, count) in known.items()}, seconds)
            if not effect.controls:
                sums = {}
            chains.append(chains[-1] + (not effect.controls) if chains else 0)
            effects.append(effect)
            times.append({name: effect.remove(each) for name, each in seconds.items()})
            for name, each in times[-1].items():
                total = sums.setdefault((name, work[name]), [0.0, 0])
                total[0] += math.log(each)
                total[1] += 1
        return cls(times, works, chains, effects)._centred()

    def _centred(self) -> Alignment:
        """Return times as the median run of each chain would have measured them, not as its first one."""
        centres = {}
        for chain in set(self.chains):
            own = [effect for effect, each in zip(self.effects, self.chains, strict=True) if each == chain]
            centres[chain] = median(each.factor for each in own), median(each.offset for each in own)
        times = []
        for seconds, chain in zip(self.times, self.chains, strict=True):
            factor, offset = centres[chain]
            times.append({name: max(factor * each + offset, each / 10) for name, each in seconds.items()})
        return Alignment(times, self.works, self.chains, self.effects)

    @cached_property
    def sigmas(self) -> tuple[float, float]:
        """Standard deviations of what a run does to all cases: of its factor, and of its offset in seconds."""
        factors, offsets = ([getattr(each, name) for each in self.effects] for name in ("factor", "offset"))
        return max(FACTOR_SIGMA, float(np.std(factors))), max(OFFSET_SIGMA, float(np.std(offsets)))


def _numbered_works(runs: Sequence[RunRecord]) -> list[dict[str, int]]:
    """Number the works of each case; the same number is the same work, or in both runs what is unknown of it.

    Work that is timed in another way is another one: what that changes is nobody's step.
    """
    seen: dict[str, list[tuple[Identity | None, tuple[str, int]]]] = {}
    numbered = []
    for run in runs:
        numbers = {}
        for name, timed in on_gpu(run).items():
            works, own = seen.setdefault(name, []), (timed.facts.identity, timed.facts.way)
            if works and works[-1] == own:
                numbers[name] = len(works) - 1
                continue
            recent = range(len(works) - 1, max(-1, len(works) - 1 - RECENT), -1)
            numbers[name] = next((number for number in recent if _are_same(works[number], own)), len(works))
            if numbers[name] == len(works):
                works.append(own)
        numbered.append(numbers)
    return numbered


def _are_same(one: tuple[Identity | None, tuple[str, int]], other: tuple[Identity | None, tuple[str, int]]) -> bool:
    return one == other or (one[1] == other[1] and not difference(one[0], other[0]))


@dataclass(frozen=True)
class Series:
    """Case in the runs of one GPU that have it: ``places`` among them, logarithms of seconds, works and chains.

    ``spread``: standard deviation of a night. ``memory``: autocorrelation of neighbouring nights. ``common``: standard
    deviation of what a run does to all cases.
    """

    places: Sequence[int]
    logs: Floats
    works: Ints
    chains: Sequence[int]
    spread: float
    memory: float
    common: float

    def apart(self, lag: int) -> Floats:
        """Differences between nights of the same work, some nights apart."""
        same = self.works[lag:] == self.works[:-lag]
        return np.asarray(np.abs(self.logs[lag:] - self.logs[:-lag])[same], np.float64)

    @property
    def changes(self) -> list[int]:
        """Nights on which the work is another one than in the night before."""
        return [int(place) + 1 for place in np.flatnonzero(self.works[1:] != self.works[:-1])]

    def bounds(self, cases: int, changes: int) -> list[int]:
        """Return where a new level begins that is a step: first levels as they are found, then at changes of the work.

        ``cases``, ``changes``: how many series are looked at, and how many changes of work they have.
        """
        bounds = [0]
        for place, end in pairwise([*levels(self.logs, self.spread**2, cases), len(self.logs)]):
            bound = self._at_change(place)
            is_change, near = bound in self.changes, self.works[max(0, bound - LASTING) : bound + LASTING]
            if not is_change and np.any(near != near[0]):
                continue  # the kernel's or not: its nights do not tell
            if self._is_step(bounds[-1], bound, end, changes if is_change else cases * len(self.logs)):
                bounds.append(bound)
        for place in self.changes:
            first = max(bound for bound in bounds if bound <= place)
            end = min(bound for bound in (*bounds, *self.changes, len(self.logs)) if bound > place)
            if first < place and self._is_step(first, place, end, changes):
                bounds = sorted([*bounds, place])
        return bounds[1:]

    def _at_change(self, place: int) -> int:
        """Move a bound to where the work changed, a night or two away, if the nights between fit the other level."""
        for bound in (place, place - 1, place + 1, place - 2, place + 2):
            if 0 < bound < len(self.works) and self.works[bound - 1] != self.works[bound]:
                level = np.median(self.logs[place:][:LASTING] if bound < place else self.logs[:place][-LASTING:])
                between = self.logs[min(place, bound) : max(place, bound)]
                if np.all(np.abs(between - level) < SIGMAS * self.spread):
                    return bound
        return place

    def _is_step(self, first: int, bound: int, end: int, tests: int) -> bool:
        """Tell whether the nights from a bound on are a level of their own, after those since the step before."""
        past, new = np.sort(self.logs[first:bound]), np.sort(self.logs[bound:end])
        spared = max(len(past) // SPARED_BEFORE, int(len(past) >= TEN)), len(new) // SPARED_AFTER
        nights = SHORTEST if self.works[bound - 1] != self.works[bound] else LASTING
        if min(len(past), len(new)) < nights:
            return False
        change = float(np.median(new) - np.median(past))
        variance = self.spread**2 * (_of_mean(len(past), self.memory) + _of_mean(len(new), self.memory))
        if self.chains[bound - 1] != self.chains[bound]:
            variance += self.common**2 * (1 / len(past) + 1 / len(new))
        if abs(change) < max(math.log1p(RELEVANT), math.sqrt(_penalty(tests) * variance)):
            return False
        if change > 0:
            return bool(past[-1 - spared[0]] < new[spared[1]])
        return bool(new[-1 - spared[1]] < past[spared[0]])


def _of_mean(nights: int, memory: float) -> float:
    """Variance of the mean of some nights, in that of one."""
    lags = np.arange(1, nights)
    return float(1 + 2 * np.sum((1 - lags / nights) * memory**lags)) / nights


def _penalty(tests: int) -> float:
    """Return the square of how many standard deviations a step has that holds STEP_FAMILYWISE_ERROR."""
    return 2 * math.log(tests / STEP_FAMILYWISE_ERROR)


def _steps_of(runs: Sequence[RunRecord]) -> Iterator[Step]:
    """Yield the steps in the runs of one GPU."""
    alignment = Alignment.of(runs)
    every = _all_series(alignment)
    changes = sum(len(series.changes) for series in every.values())
    for name, series in every.items():
        bounds = [0, *series.bounds(len(every), changes), len(series.logs)]
        for first, middle, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
            ratio = math.exp(np.median(series.logs[middle:end]) - np.median(series.logs[first:middle]))
            yield Step(name, ratio, runs[series.places[middle - 1]], runs[series.places[middle]])


def _all_series(alignment: Alignment) -> dict[str, Series]:
    """Return the series of all cases. None has less spread than half of those of its size."""
    names = dict.fromkeys(name for times in alignment.times for name in times)
    by_size: dict[int, dict[str, Series]] = {}
    factor, offset = alignment.sigmas
    for name in names:
        places = [place for place, times in enumerate(alignment.times) if name in times]
        logs = np.log([alignment.times[place][name] for place in places])
        seconds = math.exp(float(np.median(logs)))
        works = np.array([alignment.works[place][name] for place in places])
        chains = [alignment.chains[place] for place in places]
        common = math.hypot(factor, offset / seconds)
        series = Series(places, logs, works, chains, math.sqrt(MEASURED.variance(seconds)), 0.0, common)
        by_size.setdefault(int(np.digitize(seconds, [SMALL, LARGE])), {})[name] = series
    every = {}
    for own in by_size.values():
        memory = _memory(list(own.values()))
        scatters = {name: _scatter(series.logs, memory) for name, series in own.items()}
        usual = median(scatters.values())
        for name, series in own.items():
            every[name] = replace(series, spread=max(series.spread, scatters[name], usual), memory=memory)
    return every


def _memory(every: Sequence[Series]) -> float:
    """Return the autocorrelation of neighbouring nights in most of the series.

    It is how much less neighbouring nights differ than others. One series does not show it in a few nights.
    """
    memories, found = np.linspace(0, LONGEST_MEMORY, 98), list[float]()
    near, *others = (_median(np.concatenate([each.apart(lag) for each in every])) for lag in (1, *LAGS))
    for lag, apart in zip(LAGS, others, strict=True):
        ratios = np.sqrt(sum(memories**nights for nights in range(lag)))
        if near and apart:
            found.append(float(memories[np.argmin(np.abs(ratios - apart / near))]))
    return max(found, default=0.0)


def _median(values: Floats) -> float:
    return float(np.median(values)) if values.size else 0.0


def _scatter(logs: Floats, memory: float) -> float:
    """Return the standard deviation of a night.

    Differences between neighbours are used, because the step between two levels would count as scatter.
    """
    return _median(np.abs(np.diff(logs))) / 0.6745 / math.sqrt(2 * (1 - memory))


def levels(values: Floats, variance: float, cases: int = 1) -> list[int]:
    """Indices at which a series of logarithms begins a new level.

    ``variance``: that of a value. ``cases``: how many series are looked at together.
    """
    spread = math.sqrt(variance)
    least = max(math.log1p(RELEVANT), SIGMAS * spread)
    if len(values) < FEWEST or np.ptp(values) < least:
        return []
    import ruptures  # noqa: PLC0415  # takes half a second

    penalty = _penalty(len(values) * cases)  # on a sum of squares in units of the variance, over all places and cases
    # KernelCPD's linear kernel is the cost of Pelt(model="l2"), in C: 0.07 ms and not 29 for 100 nights.
    ends = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit((values / spread)[:, None]).predict(pen=penalty)
    return _placed(values, _large(values, [0, *ends], least))


def _placed(values: Floats, bounds: list[int]) -> list[int]:
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


def _large(values: Floats, bounds: list[int], least: float) -> list[int]:
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
