"""Judges the figures of cases against the limits of their contracts: arithmetic without files, clock or pytest.

A figure of machine code is exact. A rate is the mean of several processes: it breaks its limit only where its whole
interval lies beyond, with enough processes, at the family-wise error rate of all verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, variance

import numpy as np

from warpwatch.verdict.rule import FAMILYWISE_ERROR, MEASURED, MIN_PROCESSES, holm, moderated

FEW = "{} of {} processes"
CROSSES = "its 95 % interval crosses the limit"
NOT_SIGNIFICANT = "beyond its limit, but not significant among so many limits"
OTHER_GPU = "the limit was taken from other GPUs than this one, and two of a model differ"
# A limit that was taken from other GPUs of a model is broken by more than this. Unchanged kernels on 15 H200s and H100s
# that a baseline lacks were up to 4.3 % beyond its limits (bench/recordings/tuning), and this is more than twice as
# much; on 26 others (scoring) 7.6 %.
BETWEEN_GPUS = 0.1


class BrokenContract(Exception):
    """Raised when a case breaks a limit; the message says by how much."""


class Standing(StrEnum):
    """Relation of a case to a limit of its contract."""

    KEPT = "kept"
    BROKEN = "broken"
    UNSURE = "unsure"
    UNKNOWN = "not checked"


@dataclass(frozen=True, kw_only=True)
class Clause:
    """A limit of a case, and how the case stands to it.

    ``name``: that of a field of ``Contract``. ``figure``: what was measured, None where nothing was, and its 95 %
    interval ``low`` to ``high``, None where it is exact. ``reason``: why it is unsure or not checked. ``since``: which
    saved runs kept the limit. ``next``: the command that finds the commit.
    """

    name: str
    limit: float
    standing: Standing
    figure: float | None = None
    low: float | None = None
    high: float | None = None
    processes: int = 0
    reason: str = ""
    since: str = ""
    next: str = ""

    @property
    def is_open(self) -> bool:
        """True where more processes may decide."""
        undecided = (CROSSES, NOT_SIGNIFICANT, FEW.format(self.processes, MIN_PROCESSES))
        return self.standing == Standing.UNSURE and self.processes < MIN_PROCESSES and self.reason in undecided

    @property
    def excess(self) -> float:
        """Share by which the figure is worse than the limit; 0 where it is not known, or the limit is 0."""
        if not self.figure or not self.limit:
            return 0.0
        return self.figure / self.limit - 1 if self.name == "seconds" else 1 - self.figure / self.limit


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A rate to judge.

    ``times``: of the kernel alone in seconds, one of each process. ``scale``: in seconds; the figure is the time itself
    where it is 0, or else ``scale`` over the time. ``references``: times of the reference case, by which that share is
    multiplied; ``scale`` is then a ratio. ``doubt``: why a time that is too long would not be the kernel's, or a share
    not be known. ``elsewhere``: the limit was taken from other GPUs of this model.
    """

    case: str
    name: str
    limit: float
    times: Sequence[float]
    scale: float = 0.0
    references: Sequence[float] = ()
    doubt: str = ""
    elsewhere: bool = False

    @property
    def allowance(self) -> float:
        """Logarithm by which the limit may be exceeded before it counts as broken."""
        return math.log1p(BETWEEN_GPUS) if self.elsewhere else 0.0


def exact(name: str, limit: float, figure: int) -> Clause:
    """Judge a figure of machine code, which is at most its limit or not."""
    return Clause(name=name, limit=limit, figure=figure, standing=Standing.KEPT if figure <= limit else Standing.BROKEN)


def judge(rates: Sequence[Rate]) -> list[Clause]:
    """Judge the rates of a run together."""
    from scipy import special  # noqa: PLC0415  # a quarter of a second that other runs need not wait

    if not rates:
        return []
    estimates = [_estimate(rate) for rate in rates]
    logs, errors, df = np.array(estimates).T
    allowed = np.array([rate.allowance for rate in rates])
    half, p = special.stdtrit(df, 0.975) * errors, special.stdtr(df, (allowed - logs) / errors)
    may_break = np.array([not rate.doubt for rate in rates])
    p[may_break] = holm(p[may_break])
    return [_clause(*each) for each in zip(rates, logs, half, p < FAMILYWISE_ERROR, strict=True)]


def _estimate(rate: Rate) -> tuple[float, float, float]:
    """Return the logarithm by which a rate is beyond its limit, its standard error, and the degrees of freedom."""
    mean, square, df = _mean(rate.times)
    if not rate.scale:
        return mean - math.log(rate.limit), math.sqrt(square), df
    beyond = math.log(rate.limit / rate.scale) + mean
    if rate.references:
        other, other_square, other_df = _mean(rate.references)
        beyond, square, df = beyond - other, square + other_square, min(df, other_df)
    return beyond, math.sqrt(square), df


def _mean(times: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean logarithm of times, the square of its standard error, and the degrees of freedom."""
    logs = [math.log(time) for time in times]
    own = (variance(logs) if len(logs) > 1 else 0.0, len(logs) - 1)
    spread, df = moderated(np.exp([fmean(logs)]), MEASURED, [own])
    return fmean(logs), float(spread[0]) / len(logs), float(df[0])


def _clause(rate: Rate, log: float, half: float, is_significant: bool) -> Clause:
    sign = -1 if rate.scale else 1
    figure, low, high = (rate.limit * math.exp(sign * (log + each)) for each in (0, -sign * half, sign * half))
    processes = min(len(rate.times), len(rate.references or rate.times))
    clause = Clause(
        name=rate.name,
        limit=rate.limit,
        figure=figure,
        low=low,
        high=high,
        processes=processes,
        standing=Standing.UNSURE,
    )
    if log + half <= 0:
        why = rate.doubt if rate.references else ""  # of a reference that is slow for once, the share is too large
    elif log - half <= rate.allowance:
        why = rate.doubt or (OTHER_GPU if log - half > 0 else CROSSES)
    else:
        few = FEW.format(processes, MIN_PROCESSES) if processes < MIN_PROCESSES else ""
        why = rate.doubt or few or ("" if is_significant else NOT_SIGNIFICANT)
    return replace(clause, reason=why, standing=Standing.UNSURE if why else _standing(log))


def _standing(log: float) -> Standing:
    return Standing.BROKEN if log > 0 else Standing.KEPT
