"""Medians in, verdicts out: pure arithmetic, no files, no clock, no pytest.

One rule for both ways to compare. With ``--against`` both versions ran in the same processes, and a process gives
one difference (``paired``); with ``--benchmark-compare`` they ran in different ones (``apart``). Either gives an
``Effect`` for each case, and ``decide`` does the rest for all cases of a run together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Verdict(StrEnum):
    """What is said of a case."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNSURE = "unsure"
    IDENTICAL = "identical"
    NEW = "new"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"


@dataclass(frozen=True)
class Decision:
    """A verdict and what it rests on. Times in seconds; ``ratio``, new over old, has a 95 % interval.

    ``floor``: the change that is not told from none, as a share. ``suspect``: among the cases listed as probably
    slower, of which at most one in twenty is not (Benjamini-Hochberg), though none of them fails a run for that.
    """

    verdict: Verdict
    before: float = math.nan
    after: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    floor: float = math.nan
    processes: int = 0
    suspect: bool = False
    reason: str = ""


FALSE_ALARMS = 0.01  # runs on unchanged code in which any case is called slower
LISTED_WRONGLY = 0.05  # of the cases that are listed as suspects
RELEVANT = 0.005  # nobody acts on less, and clocks and temperatures of two days differ by as much
TICK = 32e-9  # seconds: what CUDA events resolve, from 83,000 differences between samples on an H200
FLOOR_SIGMAS = 5.0  # floor over the spread between processes: unchanged cases are then found the same, not unsure
# Processes without which nothing is called slower or faster. Where one process in twenty shows a slower mode, two of
# two do so in one case of 400, and five of five in none; nor do so many agree by chance in a case that scatters.
FEWEST = 5
BLIND = 0.20  # a case whose own spread asks for a wider floor than this is unsure, never the same
# What a learned prior may count for: less would be noise of the estimate, and more would drown a case that is noisier
# than its like. On the H200, one case in a hundred scatters ten times as much as others of its size.
PRIOR_FREEDOM = 3.0, 5.0
CONTROLS = 30  # cases that a run's common factor needs
# Smallest factor and offset that are an alarm of their own. Offsets of ten H200 processes were within 0.08 µs.
ALARM_FACTOR, ALARM_OFFSET = RELEVANT, 0.4e-6
LARGE, SMALL = 100e-6, 30e-6  # medians, seconds, that show a common factor and a common offset


@dataclass(frozen=True)
class Prior:
    """What spread to expect between processes, before a case has shown its own.

    Variance of the logarithm of a median of t seconds: ``share``² + ``unit`` / t. It counts for ``freedom`` values.
    """

    share: float
    unit: float  # seconds
    freedom: float

    def variance(self, median: float | Floats) -> Floats:
        return np.asarray(self.share**2 + self.unit / np.asarray(median))


# 484 cases, eight processes on two H200s: standard deviations of 0.5 % at 5 µs, 0.2 % at 30 µs, 0.05 % above 100 µs.
MEASURED = Prior(0.0005, 1.2e-10, 4.0)


@dataclass(frozen=True)
class Effect:
    """How one case's time differs. ``log``: of new over old. Its variance is ``leverage`` times that of a process.

    ``variance`` of a process, as this case alone shows it, from ``freedom`` degrees of freedom; ``settled`` is the same
    of unchanged code alone, from which the floor is learned. ``processes``: how many measured the new side. ``doubt``:
    why a slowdown would not be the kernel's, if so, and ``no_gain`` why a gain would not. ``floor``: a least one.
    ``clock``: SM clock of new over old.
    """

    before: float
    after: float
    log: float
    leverage: float
    variance: float
    freedom: int
    settled: tuple[float, int]
    processes: int
    doubt: str = ""
    no_gain: str = ""
    floor: float = 0.0
    clock: float = 1.0


def paired(before: float, after: float, logs: Sequence[float]) -> Effect:
    """From processes that ran both sides: ``logs`` of new over old, one for each process."""
    spread = float(np.var(logs, ddof=1)) if len(logs) > 1 else 0.0
    own = spread, len(logs) - 1
    return Effect(before, after, float(np.mean(logs)), 1 / len(logs), *own, own, len(logs))


def apart(old: Sequence[float], new: Sequence[float]) -> Effect:
    """From processes that ran one side each: the median of a case in each of them, in seconds."""
    sides = [np.log(old), np.log(new)]
    freedom = len(old) + len(new) - 2
    squares = [float(((side - side.mean()) ** 2).sum()) for side in sides]
    leverage = 1 / len(old) + 1 / len(new)
    before, after = (math.exp(side.mean()) for side in sides)
    variance = sum(squares) / freedom if freedom else 0.0
    settled = (squares[0] / (len(old) - 1), len(old) - 1) if len(old) > 1 else (0.0, 0)
    log = math.log(after / before)
    return Effect(before, after, log, leverage, variance, freedom, settled, len(new))


def learn(effects: Collection[Effect]) -> Prior:
    """The prior that these cases' own spreads show: empirical Bayes as in limma (Smyth 2004), with a trend.

    The trend over the median is fitted to the logarithms of the variances; what they scatter beyond what their
    degrees of freedom explain gives the weight. MEASURED where there are too few cases for that.
    """
    from scipy import optimize, special  # noqa: PLC0415  # half a second that listing cases need not wait

    known = [(e.before, *e.settled) for e in effects if e.settled[1] > 0]
    if len(known) < CONTROLS:
        return MEASURED
    medians, spreads, freedoms = np.array(known).T
    half = freedoms / 2
    # The expected logarithm of a variance of that many degrees of freedom is less than that of its expectation.
    variances = spreads + resolution(medians)
    observed = np.log(variances) - special.digamma(half) + np.log(half)

    def residuals(parameters: Floats) -> Floats:
        share, unit = np.exp(parameters)
        return np.asarray(observed - np.log(share**2 + unit / medians))

    start = np.log([MEASURED.share, MEASURED.unit])
    fit = optimize.least_squares(residuals, start, loss="soft_l1")
    beyond = float(np.var(residuals(fit.x)) - special.polygamma(1, half).mean())
    freedom = _inverse_trigamma(beyond)
    scale = math.exp(special.digamma(freedom / 2)) / (freedom / 2)
    share, unit = (float(value) for value in np.exp(fit.x))
    return Prior(share * math.sqrt(scale), unit * scale, freedom)


def resolution(medians: Floats) -> Floats:
    """Variance of the logarithm of a median that comes from its being read in whole ticks."""
    return np.asarray((TICK / medians) ** 2 / 12)


def _inverse_trigamma(value: float) -> float:
    """Degrees of freedom d with trigamma(d / 2) = value, within PRIOR_FREEDOM."""
    from scipy import optimize, special  # noqa: PLC0415

    low, high = PRIOR_FREEDOM
    if value <= special.polygamma(1, high / 2):
        return high
    if value >= special.polygamma(1, low / 2):
        return low
    return float(optimize.brentq(lambda d: special.polygamma(1, d / 2) - value, low, high))


@dataclass(frozen=True)
class Common:
    """What one process does to every case: seconds become ``factor`` * seconds + ``offset``."""

    factor: float = 1.0
    offset: float = 0.0
    controls: int = 0

    def remove(self, seconds: float) -> float:
        # A kernel is no shorter than a tenth of what was read, whatever the offset.
        return max(seconds - self.offset, seconds / 10) / self.factor

    def alarm(self, known: Sequence[Common] = ()) -> str:
        """What is to be said of it in a sentence, or nothing.

        ``known``: the baseline's processes', which is none. On H200s in pairs every kernel starts 1.5 µs later.
        """
        factors, offsets = [1.0, *(each.factor for each in known)], [0.0, *(each.offset for each in known)]
        parts = []
        if self.factor > max(factors) + ALARM_FACTOR or self.factor < min(factors) - ALARM_FACTOR:
            longer = "longer" if self.factor > 1 else "less long"
            parts.append(f"takes {100 * abs(self.factor - 1):.1f} % {longer}")
        if self.offset > max(offsets) + ALARM_OFFSET or self.offset < min(offsets) - ALARM_OFFSET:
            later = "later" if self.offset > 0 else "sooner"
            parts.append(f"starts {abs(self.offset) * 1e6:.2f} µs {later}")
        if not parts:
            return ""
        return (
            f"everything {' and '.join(parts)}, by {self.controls} cases of unchanged machine code: "
            "driver, clock or cooling, not a kernel"
        )


def common(reference: Mapping[str, float], seconds: Mapping[str, float]) -> Common:
    """Of one process against a reference, over the cases of both: medians, so that up to half of them may differ.

    Large kernels show the factor and small ones the offset. No correction where there are too few to tell.
    """
    names = [name for name in seconds if name in reference]
    if len(names) < CONTROLS:
        return Common()
    old, new = (np.array([times[name] for name in names]) for times in (reference, seconds))
    large, small = old >= LARGE, old < SMALL
    if not large.any():
        large = ~small if (~small).any() else np.ones(len(names), bool)
    factor, offset = 1.0, 0.0
    for _ in range(3):
        factor = float(np.median((new[large] - offset) / old[large]))
        if small.sum() >= CONTROLS / 3:
            offset = float(np.median(new[small] - factor * old[small]))
    return Common(factor, offset, len(names))


def furthest(effects: Collection[Effect], prior: Prior) -> float:
    """How many floors off the furthest of these cases of unchanged code is, or 1 if all are within theirs.

    So much wider must a floor be where the cases' own spreads do not tell all that differs, as between GPUs: if a
    changed case is as fast as before, any of them is as likely to be the furthest (conformal prediction, Vovk 2005).
    """
    before, logs = np.array([(e.before, e.log) for e in effects]).T
    return max(1.0, float(np.max(np.abs(logs) / np.log1p(_own_floors(before, prior, effects)))))


def decide(effects: Mapping[str, Effect], prior: Prior, looks: int = 1, widened: float = 1.0) -> dict[str, Decision]:
    """Every case's verdict. ``looks``: how often this is asked of one run while its processes become more.
    ``widened``: what learned floors are multiplied by, as logarithms.

    Slower, if the effect is beyond the floor with a probability of error that holds for all cases and looks
    together (Holm). Same, if the 95 % interval lies within the floor. Faster as slower. Unsure otherwise.
    """
    from scipy import special, stats  # noqa: PLC0415

    if not effects:
        return {}
    every = list(effects.values())
    before = np.array([e.before for e in every])
    variance, freedom = moderated(before, prior, [(e.variance, e.freedom) for e in every])
    learned = _own_floors(before, prior, every)
    floors = np.maximum(np.expm1(widened * np.log1p(learned)), [e.floor for e in every])
    logs, errors = np.array([e.log for e in every]), np.sqrt(variance * [e.leverage for e in every])
    half = special.stdtrit(freedom, 0.975) * errors
    within = np.log1p(floors)
    slower, faster = (special.stdtr(freedom, -(sign * logs - within) / errors) for sign in (1, -1))
    # What cannot be called, such as a case of unchanged machine code, is none of those that may be called wrongly.
    may_lose, may_gain = np.array([(not e.doubt, not e.no_gain) for e in every]).T
    suspects = _adjusted(slower, may_lose, stats.false_discovery_control) < LISTED_WRONGLY
    called = {
        Verdict.SLOWER: _adjusted(slower, may_lose, holm) < FALSE_ALARMS / looks,
        Verdict.FASTER: _adjusted(faster, may_gain, holm) < FALSE_ALARMS / looks,
        Verdict.SAME: (logs - half > -within) & (logs + half < within) & (learned < BLIND),
    }
    decisions = {}
    for i, (name, effect) in enumerate(effects.items()):
        verdict = next((verdict for verdict, which in called.items() if which[i]), Verdict.UNSURE)
        ratio, low, high = (math.exp(x) for x in (logs[i], logs[i] - half[i], logs[i] + half[i]))
        figures = (effect.before, effect.after, ratio, low, high, float(floors[i]), effect.processes)
        verdict, reason = _qualify(verdict, effect, low, high, float(floors[i]))
        decisions[name] = Decision(verdict, *figures, suspect=bool(suspects[i]), reason=reason)
    return decisions


def _own_floors(medians: Floats, prior: Prior, effects: Collection[Effect]) -> Floats:
    settled, _ = moderated(medians, prior, [effect.settled for effect in effects])
    return learned_floors(medians, settled)


def _qualify(verdict: Verdict, effect: Effect, low: float, high: float, floor: float) -> tuple[Verdict, str]:
    """What the figures say, unless they are too few or something else than the kernel explains them."""
    why = effect.no_gain if high < 1 / (1 + floor) else ""
    if low > 1 + floor:
        why = effect.doubt or _in_cycles(effect, low, floor)
    if why:
        return Verdict.UNSURE, why
    if verdict in (Verdict.SLOWER, Verdict.FASTER) and effect.processes < FEWEST:
        return Verdict.UNSURE, f"{effect.processes} of {FEWEST} processes"
    if verdict != Verdict.UNSURE:
        return verdict, ""
    if low > 1 + floor or high < 1 / (1 + floor):
        return verdict, "beyond its floor, as one of so many cases may be by chance"
    if floor >= BLIND:
        return verdict, f"scatters too much from process to process to tell less than {100 * floor:.0f} %"
    return verdict, "its interval reaches across its floor"


def _in_cycles(effect: Effect, low: float, floor: float) -> str:
    """What is to be said where a case is slower in time and not in cycles: time by SM clock, as in nvbench."""
    if low * effect.clock > 1 + floor:
        return ""
    change = 100 * (math.exp(effect.log) * effect.clock - 1)
    return f"in cycles {change:+.1f} %: the SM clock was {100 * (1 - effect.clock):.1f} % lower"


def moderated(medians: Floats, prior: Prior, own: Sequence[tuple[float, int]]) -> tuple[Floats, Floats]:
    """Variances of a process and their degrees of freedom: the case's own and the prior's, each by its weight.

    A case that scatters as one in a hundred of its like would is not of their kind: its own counts alone (the robust
    variant of Phipson 2016).
    """
    from scipy import special  # noqa: PLC0415

    spread, freedom = np.array(own, float).T
    expected = prior.variance(medians)
    unlike = spread > expected * special.fdtri(np.maximum(freedom, 1), prior.freedom, 0.99)
    weight = np.where(unlike, 0.0, prior.freedom)
    return (weight * expected + freedom * spread) / (weight + freedom), weight + freedom


def learned_floors(medians: Floats, variances: Floats) -> Floats:
    """The change of a case that is not told from none: by its own spread, by what events resolve, by relevance."""
    spread = np.expm1(FLOOR_SIGMAS * np.sqrt(variances))
    return np.asarray(np.max([spread, TICK / medians, np.full_like(medians, RELEVANT)], axis=0))


def _adjusted(values: Floats, which: npt.NDArray[np.bool_], method: Callable[[Floats], Floats]) -> Floats:
    """p-values of those cases, adjusted for their number; 1 for the others."""
    adjusted = np.ones(len(values))
    if which.any():
        adjusted[which] = method(values[which])
    return adjusted


def holm(values: Floats) -> Floats:
    """Adjusted p-values: those below a level are together wrong with at most that probability (Holm 1979)."""
    order = np.argsort(values)
    count = len(values)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * (count - np.arange(count))))
    return adjusted


def aligned(processes: Iterable[Mapping[str, float]]) -> list[dict[str, float]]:
    """Medians of several processes by case, each rid of what it has in common against the mean of all."""
    runs = list(processes)
    centre = mean_of([{name: run[name] for name in run if all(name in other for other in runs)} for run in runs])
    offsets = [common(centre, run) for run in runs]
    return [{name: own.remove(time) for name, time in run.items()} for own, run in zip(offsets, runs, strict=True)]


def mean_of(processes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Geometric mean of each case over the processes that have it."""
    names = dict.fromkeys(name for process in processes for name in process)
    logs = {name: [math.log(process[name]) for process in processes if name in process] for name in names}
    return {name: math.exp(math.fsum(each) / len(each)) for name, each in logs.items()}
