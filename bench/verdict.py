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


@dataclass(frozen=True)
class Past:
    """One run of the baseline: its samples of a case, and the GPU that it ran on (its UUID)."""

    samples: Sequence[float]
    unit: str = ""


FALSE_ALARMS = 0.01  # runs on unchanged code in which any case is called slower: one in a hundred
FLOOR = 0.02  # a change below this is never called slower or faster: days and temperatures differ by as much
OWN_RUNS = 3  # so many runs on the very GPU at hand are enough to compare with these alone


@dataclass(frozen=True)
class Spread:
    """Expected standard deviation of a case's median: a share of it, and seconds that its start may vary.

    ``weight``: how many values of the case's own it counts for.
    """

    share: float
    seconds: float
    weight: int

    def of(self, median: float) -> float:
        return math.hypot(self.share, self.seconds / median)


# Medians of 484 cases on two H200s, three processes each: processes on one GPU differ by 0.04 % above 100 µs
# and by 0.08 µs below 10; two GPUs of one model by up to 3 %, and in one case in a hundred by more.
BETWEEN_PROCESSES = Spread(0.001, 0.08e-6, 8)
BETWEEN_GPUS = Spread(0.015, 0.08e-6, 16)


def judge(
    baseline: Sequence[Past],
    samples: Sequence[float],
    again: Sequence[float] | None = None,
    unit: str = "",
    cases: int = 1,
) -> Judgement:
    """Is a kernel slower than in its baseline?

    ``baseline``: earlier runs, a process each. ``again``: a second measurement with fresh buffers; without
    one, what looks slower is only unsure. ``unit``: the GPU at hand. ``cases``: how many this run judges.
    """
    logs, expected = comparable(baseline, unit)
    centre = math.exp(float(logs.mean()))
    limit = learned_limit(logs, expected.of(centre), expected.weight, cases)
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


def comparable(baseline: Sequence[Past], unit: str) -> tuple[npt.NDArray[np.float64], Spread]:
    """Logarithms of the medians to compare with, and the spread to expect between such.

    Rounds of one process agree far better than processes do, so a process is one value. With enough runs on
    the GPU at hand, these alone; otherwise one value for each GPU, since they differ more than processes do.
    """
    logs = {
        gpu: np.array([math.log(np.median(past.samples)) for past in baseline if past.unit == gpu])
        for gpu in dict.fromkeys(past.unit for past in baseline)
    }
    if len(logs.get(unit, ())) >= OWN_RUNS:
        return logs[unit], BETWEEN_PROCESSES
    return np.array([values.mean() for values in logs.values()]), BETWEEN_GPUS


def learned_limit(logs: npt.NDArray[np.float64], expected: float, weight: int, cases: int) -> float:
    """How far above its baseline a median may lie, as a share: an upper prediction limit for one further run.

    Student's t on the logarithms. Their variance is moderated by the expected one, as in limma (Smyth 2004),
    because that of five values is often far too small by chance: ``expected`` counts for ``weight`` values.
    FALSE_ALARMS is shared among the cases (Bonferroni).
    """
    from scipy.special import stdtrit  # noqa: PLC0415  # Student's t; half a second that listing cases need not wait

    freedom = len(logs) - 1
    spread = float(logs.var(ddof=1)) if freedom else 0.0
    variance = (weight * expected**2 + freedom * spread) / (weight + freedom)
    quantile = float(stdtrit(weight + freedom, 1 - FALSE_ALARMS / max(cases, 1)))
    return max(FLOOR, math.expm1(quantile * math.sqrt(variance * (1 + 1 / len(logs)))))
