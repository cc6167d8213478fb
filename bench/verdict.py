"""Samples in, verdict out: pure arithmetic, no files, no clock, no pytest.

``judge`` is the whole rule; whoever wants another one replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit  # quantiles of Student's t


class Verdict(StrEnum):
    """What is said of a case."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNSURE = "unsure"
    NEW = "new"
    MISSING = "missing"
    INCOMPARABLE = "incomparable"


@dataclass(frozen=True)
class Judgement:
    """A verdict and what it rests on. Times in seconds; ``change`` and ``limit`` are shares of the baseline."""

    verdict: Verdict
    baseline: float = math.nan
    median: float = math.nan
    change: float = math.nan
    limit: float = math.nan
    reason: str = ""


FALSE_ALARMS = 0.01  # runs on unchanged code in which any case is called slower: one in a hundred
FLOOR = 0.01  # a change below this is never called slower or faster
# What two processes differ by even if the baseline's happened to agree: a share of the time, and seconds
# for what a single event can resolve and a launch can vary. PRIOR_RUNS says how many runs it weighs.
PRIOR_SHARE, PRIOR_SECONDS, PRIOR_RUNS = 0.002, 0.05e-6, 4


def judge(
    baseline: Sequence[Sequence[float]], samples: Sequence[float], again: Sequence[float] | None = None, cases: int = 1
) -> Judgement:
    """Is a kernel slower than in its baseline?

    ``baseline``: samples of earlier runs, a process each: the spread of their medians is the noise, since
    rounds of one process agree far better than processes do. ``again``: a second measurement with fresh
    buffers; without one, what looks slower is only unsure. ``cases``: how many are judged in this run.
    """
    medians = np.array([np.median(run) for run in baseline])
    centre = float(np.exp(np.log(medians).mean()))
    limit = learned_limit(medians, cases)
    median = float(np.median(samples))
    change = median / centre - 1
    first = Judgement(Verdict.UNSURE, centre, median, change, limit)
    if change <= limit:
        faster = change < 1 / (1 + limit) - 1
        return replace(first, verdict=Verdict.FASTER if faster else Verdict.SAME)
    if again is None:
        return replace(first, reason="not measured again")
    second = float(np.median(again))
    if second / centre - 1 <= limit:
        return replace(first, reason=f"measured again with fresh buffers: {100 * (second / centre - 1):+.1f} %")
    # Of two measurements that both lie beyond the limit, the milder one.
    median = min(median, second)
    return replace(first, verdict=Verdict.SLOWER, median=median, change=median / centre - 1)


def learned_limit(medians: npt.ArrayLike, cases: int) -> float:
    """How far above its baseline a median may lie: an upper prediction limit for one further run.

    Student's t on the logarithms of the runs' medians. Their variance is moderated by a prior, as in limma
    (Smyth 2004), because that of five runs is often far too small by chance. FALSE_ALARMS is shared among
    the cases (Bonferroni).
    """
    logs = np.log(np.asarray(medians))
    prior = math.hypot(PRIOR_SHARE, PRIOR_SECONDS / float(np.exp(logs.mean())))
    freedom = len(logs) - 1
    spread = float(logs.var(ddof=1)) if freedom else 0.0
    variance = (PRIOR_RUNS * prior**2 + freedom * spread) / (PRIOR_RUNS + freedom)
    quantile = float(stdtrit(PRIOR_RUNS + freedom, 1 - FALSE_ALARMS / max(cases, 1)))
    return max(FLOOR, math.expm1(quantile * math.sqrt(variance * (1 + 1 / len(logs)))))
