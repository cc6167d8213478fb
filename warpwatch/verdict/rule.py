"""Decides from medians which cases became slower or faster: arithmetic without files, clock or pytest.

One rule serves both ways to compare. With ``--against`` both versions ran in the same processes, and each process
gives one difference (``paired``); with ``--benchmark-compare`` they ran in different ones (``unpaired``). Either gives
an ``Effect`` for each case, and ``decide`` takes all cases of a run together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import cast

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
# The types of NumPy 2.5 on Python 3.12 have no call of it with one array alone.
_sum = cast(Callable[[Floats], np.float64], np.add.reduce)


class Verdict(StrEnum):
    """Conclusion of a comparison about a case."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNSURE = "unsure"
    IDENTICAL = "identical"
    NEW = "new"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Verdict and its figures. Times are in seconds; ``ratio``, new over old, has a 95 % interval.

    ``floor``: the noise floor, a share; smaller changes cannot be told from none. ``suspect``: listed as probably
    slower, at a false discovery rate of 5 % (Benjamini and Hochberg 1995); suspects alone fail no run.
    ``explanation``: the likely cause in the machine code, where that was looked for. ``decided_by``: PAIRS, SAVED_TIMES
    or SAME_WORK in a comparison with a baseline, which may decide in either way; else empty.
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
    explanation: str = ""
    decided_by: str = ""

    @property
    def basis(self) -> str:
        """``turn by turn `` where the ratio is not that of ``before`` and ``after``, beside which it stands; or empty.

        The ratio of a pair comes from samples taken in turns, in each process. The medians of all processes may differ
        by another one: it is said where that lies outside the interval, in the digits that are printed.
        """
        low, of_medians, high = (round(100 * value, 1) for value in (self.low, self.after / self.before, self.high))
        return "" if low <= of_medians <= high else "turn by turn "

    @property
    def change(self) -> str:
        """The change with its interval: ``+6.0 % (95 %: +5.1 to +6.9)``."""
        change, low, high = (f"{100 * (value - 1):+.1f}" for value in (self.ratio, self.low, self.high))
        return f"{self.basis}{change} % (95 %: {low} to {high})"


# What decided a case in a comparison with a baseline: both sides side by side, times of earlier runs, or no times at
# all, because both sides do the same work.
PAIRS, SAVED_TIMES, SAME_WORK = "pairs", "saved times", "the same work"
# What other values would bring, `python -m tools.score --frontier` shows (docs/trust.md).
FAMILYWISE_ERROR = 0.01  # the share of runs on unchanged code in which any case is called slower
SUSPECT_FDR = 0.05  # the false discovery rate among the cases that are listed as suspects
RELEVANT = 0.005  # nobody acts on a smaller change
# Allowance between two days of a GPU. No GPU was recorded on two days; where nights differ by a standard deviation of
# 0.3 %, 41 of 200 runs have a false slower with 0.5 %, and none with 1 % (tools/nights.py).
BETWEEN_DAYS = 0.01
TICK = 32e-9  # seconds: the resolution of CUDA events, from 83,000 differences between samples on an H200
FLOOR_SIGMAS = 5.0  # floor over the spread between processes: unchanged cases are then found the same, not unsure
# With fewer processes than these nothing is called slower or faster. Where one process in twenty shows a slower mode,
# two of two do so in one case of 400, and five of five in none; nor do so many agree by chance in a noisy case.
MIN_PROCESSES = 5
# Where both sides ran in each process, three are enough for a change whose whole interval is beyond three times its
# floor. Of 7,479 processes of unchanged pairs, 16 were beyond their floor at all. In 4,000 replays of runs of 831 pairs
# no case was called so; with three processes for any change, it was 13 in 2,000 (three H200s, tools/score.py).
FEW_PROCESSES, CLEAR_FLOORS = 3, 3.0
# With --against, how many processes measure every case, and how many at most a case that is hard to decide.
SCREENING_PROCESSES, MAX_PAIR_PROCESSES = FEW_PROCESSES, 8
# Two are enough for the same where the whole interval lies within this share of the floor, and a launch takes so many
# seconds. In replays of 831 unchanged pairs that saves a fifth of all processes, and as many slowdowns are found. Where
# shorter kernels count too, 75 % of those by 1 % are found from 10 to 100 µs and not 81, because what few processes
# show of their spread is too little to learn from (three H200s).
CLEARLY_SAME, LONG_SECONDS = 0.5, 100e-6
MAX_FLOOR = 0.20  # a case whose own spread asks for a wider floor than this is unsure, never the same
# Limits of the weight of a learned prior: a smaller one would be noise of the estimate, and a larger one would hide a
# case that is noisier than others of its size. On the H200, one in a hundred varies ten times as much.
PRIOR_DF = 3.0, 5.0
MIN_CONTROLS = 30  # cases that are needed to learn a prior, or what a process does to all of them


@dataclass(frozen=True)
class Prior:
    """Variance between processes that is expected of a case before it has shown its own.

    The variance of the logarithm of a median of t seconds is ``deviation``² + ``seconds`` / t. It counts as much as
    an estimate from ``df`` degrees of freedom.
    """

    deviation: float
    seconds: float
    df: float

    def variance(self, median: float | Floats) -> Floats:
        return np.asarray(self.deviation**2 + self.seconds / np.asarray(median))


# From 484 cases in eight processes on two H200s: standard deviations are 0.5 % at 5 µs, 0.2 % at 30 µs and 0.05 % above
# 100 µs.
MEASURED = Prior(0.0005, 1.2e-10, 4.0)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Difference of one case's time: ``log``, the logarithm of new over old, and what its variance is.

    ``variance``: of one process, as this case alone shows it, from ``df`` degrees of freedom; that of ``log`` is
    ``leverage`` times as large. ``baseline_variance`` and ``baseline_df``: the same from unchanged code alone, from
    which the noise floor is learned. ``processes``: how many measured the new side. ``doubt`` says why a slowdown
    would not be the kernel's, ``no_gain`` why a gain would not; both may be empty. ``floor``: the least noise floor.
    ``allowance``: a share by which the noise floor is wider than what was measured asks for. ``clock``: SM clock, new
    over old. ``left_out``: why processes that measured it do not count, or empty.
    ``side_by_side``: each process measured both sides.
    """

    before: float
    after: float
    log: float
    leverage: float
    variance: float
    df: int
    baseline_variance: float
    baseline_df: int
    processes: int
    doubt: str = ""
    no_gain: str = ""
    floor: float = 0.0
    allowance: float = 0.0
    clock: float = 1.0
    left_out: str = ""
    side_by_side: bool = False


def paired(before: float, after: float, logs: Sequence[float]) -> Effect:
    """Combine processes that ran both sides: ``logs`` of new over old, one for each process."""
    mean, squares = _mean_and_squares(np.array(logs, float))
    variance = squares / (len(logs) - 1) if len(logs) > 1 else 0.0
    return Effect(
        before=before,
        after=after,
        log=mean,
        leverage=1 / len(logs),
        variance=variance,
        df=len(logs) - 1,
        baseline_variance=variance,
        baseline_df=len(logs) - 1,
        processes=len(logs),
        side_by_side=True,
    )


def unpaired(old: Sequence[float], new: Sequence[float]) -> Effect:
    """Combine processes that ran one side each: the median of a case in each of them, in seconds."""
    (old_mean, old_squares), (new_mean, new_squares) = (_mean_and_squares(np.log(side)) for side in (old, new))
    before, after = math.exp(old_mean), math.exp(new_mean)
    df = len(old) + len(new) - 2
    return Effect(
        before=before,
        after=after,
        log=math.log(after / before),
        leverage=1 / len(old) + 1 / len(new),
        variance=(old_squares + new_squares) / df if df else 0.0,
        df=df,
        baseline_variance=old_squares / (len(old) - 1) if len(old) > 1 else 0.0,
        baseline_df=len(old) - 1,
        processes=len(new),
    )


def _mean_and_squares(values: Floats) -> tuple[float, float]:
    """Mean of a few values, and the sum of the squares of their deviations from it.

    As ``mean()`` and ``var()`` compute them, to the last digit, in a third of the time: a run asks for thousands.
    """
    mean = float(_sum(values)) / len(values)
    deviations = values - mean
    return mean, float(_sum(deviations * deviations))


def get_ready() -> None:
    """Import what decisions need, so that they need not wait for it."""
    from scipy import optimize, special  # noqa: F401, PLC0415


def learn(effects: Collection[Effect]) -> Prior:
    """Learn the prior from these cases' own variances: empirical Bayes with a trend, as in limma (Smyth 2004).

    The trend over the median is fitted to the logarithms of the variances; their scatter beyond what their degrees of
    freedom explain gives the prior's weight. With too few cases for that, the prior is MEASURED.
    """
    from scipy import optimize, special  # noqa: PLC0415  # half a second that listing cases need not wait

    informative = [(e.before, e.baseline_variance, e.baseline_df) for e in effects if e.baseline_df > 0]
    if len(informative) < MIN_CONTROLS:
        return MEASURED
    medians, spreads, df = np.array(informative).T
    half = df / 2
    variances = spreads + resolution(medians)
    # The expected logarithm of an estimated variance is less than the logarithm of the true one.
    observed = np.log(variances) - special.digamma(half) + np.log(half)

    def residuals(parameters: Floats) -> Floats:
        deviation, seconds = np.exp(parameters)
        return np.asarray(observed - np.log(deviation**2 + seconds / medians))

    start = np.log([MEASURED.deviation, MEASURED.seconds])
    fit = optimize.least_squares(residuals, start, loss="soft_l1")
    beyond = float(np.var(residuals(fit.x)) - special.polygamma(1, half).mean())
    prior_df = _inverse_trigamma(beyond)
    scale = math.exp(special.digamma(prior_df / 2)) / (prior_df / 2)
    deviation, seconds = (float(value) for value in np.exp(fit.x))
    return Prior(deviation * math.sqrt(scale), seconds * scale, prior_df)


def resolution(medians: Floats) -> Floats:
    """Variance of the logarithm of a median that comes from its being read in whole ticks."""
    return np.asarray((TICK / medians) ** 2 / 12)


def _inverse_trigamma(value: float) -> float:
    """Degrees of freedom d with trigamma(d / 2) = value, within PRIOR_DF."""
    from scipy import optimize, special  # noqa: PLC0415

    low, high = PRIOR_DF
    if value <= special.polygamma(1, high / 2):
        return high
    if value >= special.polygamma(1, low / 2):
        return low
    return float(optimize.brentq(lambda d: special.polygamma(1, d / 2) - value, low, high))


def conformal_floor_factor(effects: Collection[Effect], prior: Prior) -> float:
    """Largest change of these cases of unchanged code in units of their floors, or 1 if all are within theirs.

    Floors are widened by it where the cases' own variances do not show all that differs, as between two GPUs. If a
    changed case is in truth as fast as before, it is as likely as each of the others to be the one that differs most
    (conformal prediction, Vovk 2005).
    """
    before, logs = np.array([(e.before, e.log) for e in effects]).T
    return max(1.0, float(np.max(np.abs(logs) / np.log1p(_own_floors(before, prior, effects)))))


def decide(
    effects: Mapping[str, Effect], prior: Prior, looks: int = 1, floor_factor: float = 1.0, parts: int = 1
) -> dict[str, Decision]:
    """Give every case its verdict.

    ``looks``: the number of interim looks, at which this is asked of one run while its processes become more.
    ``parts``: the number of parts of the run, each of which decides about its own cases. ``floor_factor``: what learned
    floors are multiplied by, as logarithms. Slower: the effect is beyond the floor, at a family-wise error rate of 1 %
    over all cases, interim looks and parts (Holm). Faster likewise. Same: the 95 % interval lies within the floor.
    Unsure otherwise.
    """
    from scipy import special  # noqa: PLC0415

    if not effects:
        return {}
    every = list(effects.values())
    before = np.array([e.before for e in every])
    variance, df = moderated(before, prior, [(e.variance, e.df) for e in every])
    learned = _own_floors(before, prior, every)
    least, allowances = np.array([(e.floor, e.allowance) for e in every]).T
    floors = np.maximum(np.expm1(floor_factor * np.log1p(learned) + np.log1p(allowances)), least)
    logs, errors = np.array([e.log for e in every]), np.sqrt(variance * [e.leverage for e in every])
    half = special.stdtrit(df, 0.975) * errors
    within = np.log1p(floors)
    slower, faster = (special.stdtr(df, -(sign * logs - within) / errors) for sign in (1, -1))
    # A case that cannot be called, such as one of unchanged machine code, does not count among the tests.
    may_lose, may_gain = np.array([(not e.doubt, not e.no_gain) for e in every]).T
    suspects = _adjusted(slower, may_lose, benjamini_hochberg) < SUSPECT_FDR
    error = FAMILYWISE_ERROR / (looks * parts)
    called = {
        Verdict.SLOWER: _adjusted(slower, may_lose, holm) < error,
        Verdict.FASTER: _adjusted(faster, may_gain, holm) < error,
        Verdict.SAME: (logs - half > -within) & (logs + half < within) & (learned < MAX_FLOOR),
    }
    decisions = {}
    for i, (name, effect) in enumerate(effects.items()):
        verdict = next((verdict for verdict, which in called.items() if which[i]), Verdict.UNSURE)
        figures = (float(logs[i]), float(half[i]), float(floors[i]))
        decisions[name] = _decision(effect, verdict, *figures, suspect=bool(suspects[i]))
    return decisions


def _decision(effect: Effect, verdict: Verdict, log: float, half: float, floor: float, *, suspect: bool) -> Decision:
    """Decision about one case from its change and half of its interval, both as logarithms, and its floor."""
    ratio, low, high = (math.exp(x) for x in (log, log - half, log + half))
    verdict, reason = _qualify(verdict, effect, low, high, floor)
    return Decision(
        verdict=verdict,
        before=effect.before,
        after=effect.after,
        ratio=ratio,
        low=low,
        high=high,
        floor=floor,
        processes=effect.processes,
        suspect=suspect,
        reason=reason,
    )


def _own_floors(medians: Floats, prior: Prior, effects: Collection[Effect]) -> Floats:
    variances, _ = moderated(medians, prior, [(e.baseline_variance, e.baseline_df) for e in effects])
    return learned_floors(medians, variances)


def _qualify(verdict: Verdict, effect: Effect, low: float, high: float, floor: float) -> tuple[Verdict, str]:
    """Turn a verdict into unsure where processes are too few or the kernel is not the cause, with the reason."""
    why = effect.no_gain if high < 1 / (1 + floor) else ""
    if low > 1 + floor:
        why = effect.doubt or _in_cycles(effect, low, floor)
    if why:
        return Verdict.UNSURE, why
    needed = _needed(effect, low, high, floor)
    if verdict in (Verdict.SLOWER, Verdict.FASTER) and effect.processes < needed:
        others = f", because others do not count: {effect.left_out}" if effect.left_out else ""
        return Verdict.UNSURE, f"{effect.processes} of {needed} processes{others}"
    if verdict != Verdict.UNSURE:
        return verdict, ""
    if low > 1 + floor or high < 1 / (1 + floor):
        return verdict, "beyond its noise floor, but not significant among so many cases"
    if floor >= MAX_FLOOR:
        return verdict, f"varies too much between processes: no change below {100 * floor:.0f} % can be seen"
    return verdict, "its 95 % interval crosses its noise floor"


def is_clearly_same(decision: Decision) -> bool:
    """Tell whether two processes that nothing disturbed are enough for a pair that is decided to be the same."""
    within = CLEARLY_SAME * math.log1p(decision.floor)
    is_inside = decision.low >= math.exp(-within) and decision.high <= math.exp(within)
    return decision.verdict == Verdict.SAME and decision.before >= LONG_SECONDS and is_inside


def _needed(effect: Effect, low: float, high: float, floor: float) -> int:
    """Return how many processes a call of slower or faster takes."""
    far = (1 + floor) ** CLEAR_FLOORS
    return FEW_PROCESSES if effect.side_by_side and (low > far or high < 1 / far) else MIN_PROCESSES


def _in_cycles(effect: Effect, low: float, floor: float) -> str:
    """Reason for doubt where a case is slower in time but not in cycles, which are time by SM clock, as in nvbench."""
    if low * effect.clock > 1 + floor:
        return ""
    change = 100 * (math.exp(effect.log) * effect.clock - 1)
    return f"in cycles {change:+.1f} %: the SM clock was {100 * (1 - effect.clock):.1f} % lower"


def moderated(medians: Floats, prior: Prior, own: Sequence[tuple[float, int]]) -> tuple[Floats, Floats]:
    """Moderated variances of a process and their degrees of freedom: the case's own and the prior's, weighted by both.

    A case with a variance that one in a hundred of its size has is no member of their population: its own counts
    alone (the robust variant of Phipson 2016).
    """
    from scipy import special  # noqa: PLC0415

    spread, df = np.array(own, float).T
    expected = prior.variance(medians)
    outlier = spread > expected * special.fdtri(np.maximum(df, 1), prior.df, 0.99)
    weight = np.where(outlier, 0.0, prior.df)
    return (weight * expected + df * spread) / (weight + df), weight + df


def learned_floors(medians: Floats, variances: Floats) -> Floats:
    """Noise floors: the largest of what the spread between processes, the events' resolution and relevance ask for."""
    spread = np.expm1(FLOOR_SIGMAS * np.sqrt(variances))
    return np.asarray(np.max([spread, TICK / medians, np.full_like(medians, RELEVANT)], axis=0))


def _adjusted(values: Floats, which: npt.NDArray[np.bool_], method: Callable[[Floats], Floats]) -> Floats:
    """Adjusted p-values of the cases that ``which`` selects; 1 for the others."""
    adjusted = np.ones(len(values))
    if which.any():
        adjusted[which] = method(values[which])
    return adjusted


def holm(values: Floats) -> Floats:
    """Adjusted p-values that hold the family-wise error rate (Holm 1979)."""
    order = np.argsort(values)
    count = len(values)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * (count - np.arange(count))))
    return adjusted


def benjamini_hochberg(values: Floats) -> Floats:
    """Adjusted p-values that hold the false discovery rate (Benjamini and Hochberg 1995).

    SciPy's own lies in scipy.stats, whose import takes half a second to a second of every run.
    """
    order, count = np.argsort(values)[::-1], len(values)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(1, np.minimum.accumulate(values[order] * count / np.arange(count, 0, -1)))
    return adjusted


def in_time_and_cycles(time: Decision, cycles: Decision, why: str) -> Decision:
    """Combine what times and cycles say of a case. ``why``: what kept its clock down."""
    if math.isnan(cycles.ratio):
        return time
    change = f"in cycles {100 * (cycles.ratio - 1):+.1f} %; {why}"
    if time.verdict == cycles.verdict:
        reason = "" if time.verdict == Verdict.SAME else "; ".join(filter(None, [time.reason, change]))
        return replace(time, reason=reason)
    doubt = time.reason or cycles.reason or "time and cycles do not agree"
    return replace(time, verdict=Verdict.UNSURE, reason=f"{doubt}; {change}")


def combine(
    times: Mapping[str, Decision], cycles: Mapping[str, Decision], reasons: Mapping[str, str]
) -> dict[str, Decision]:
    """Combine decisions by times and by cycles about cases whose clock was kept down on both sides.

    ``reasons``: what kept the clock down, by case; others stay as they are. A power cap lowers the clock of both sides
    alike, but not to the last per cent: the side that draws more power has the lower clock. So the time may differ
    where the work does not, and the work where the time does not. Both must agree. Each alone keeps its probability of
    error, and to ask for both at once can only lower it (Berger 1982).
    """
    return {
        name: in_time_and_cycles(decision, cycles[name], reasons[name]) if name in reasons else decision
        for name, decision in times.items()
    }


DRAWS = 40  # of each case: the number of unsure ones among 872 is then known to 2


def expected_unsure(effects: Collection[Effect], prior: Prior, runs: int, processes: int) -> float:
    """Return how many of these cases would be unsure if none had changed, by simulation.

    ``runs``: in the baseline. ``processes``: of the run that is compared with it. The true variance of a case is drawn
    from what its own spread and the prior say of it (a scaled inverse chi-squared distribution); medians are drawn
    with that variance, and judged as ``decide`` does.
    """
    from scipy import special  # noqa: PLC0415  # half a second that listing cases need not wait

    rng = np.random.default_rng(0)
    medians = np.tile([e.before for e in effects], DRAWS)
    spread, df = moderated(medians, prior, [(e.variance, e.df) for e in effects] * DRAWS)
    deviations = np.sqrt(spread * df / rng.chisquare(df))[:, None]
    old, new = (rng.standard_normal((len(medians), count)) * deviations for count in (runs, processes))
    squares_old, squares_new = (((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in (old, new))
    pooled = (squares_old + squares_new) / max(1, runs + processes - 2)
    variance, freedom = moderated(medians, prior, [(value, runs + processes - 2) for value in pooled])
    own, _ = moderated(medians, prior, [(value, runs - 1) for value in squares_old / max(1, runs - 1)])
    floors = learned_floors(medians, np.minimum(own, 1.0))  # beyond MAX_FLOOR by far; the largest drawn overflow
    half = special.stdtrit(freedom, 0.975) * np.sqrt(variance * (1 / runs + 1 / processes))
    change = np.abs(new.mean(axis=1) - old.mean(axis=1))
    same = (change + half < np.log1p(floors)) & (floors < MAX_FLOOR)
    return float(np.count_nonzero(~same)) / DRAWS
