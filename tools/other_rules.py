"""Applies other tools' rules, with their defaults, to the same samples as ours: for tools/score.py alone.

Each takes the baseline's processes, oldest first, and the new process, as samples in seconds, and says whether it
would call the case slower. Thresholds and sources: the tools' own code or manuals, as of 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]
Rule = Callable[[Sequence[Samples], Samples], bool]


def minimum_5(past: Sequence[Samples], new: Samples) -> bool:
    """pytest-benchmark 5.3, --benchmark-compare-fail=min:5%, against the last run."""
    return bool(np.min(new) > 1.05 * np.min(past[-1]))


def median_5(past: Sequence[Samples], new: Samples) -> bool:
    """pytest-benchmark 5.3, --benchmark-compare-fail=median:5%, against the last run."""
    return bool(np.median(new) > 1.05 * np.median(past[-1]))


def nvbench_legacy(past: Sequence[Samples], new: Samples) -> bool:
    """nvbench-compare-legacy: the means differ by more than the smaller of both relative deviations."""
    old = past[-1]
    noise = min(side.std(ddof=1) / side.mean() for side in (old, new))
    return bool(new.mean() / old.mean() - 1 > noise)


def nvbench_robust(past: Sequence[Samples], new: Samples) -> bool:
    """nvbench-compare-robust: [minimum, third quartile] lie apart by 0.5 %; its test of cycles is left out."""
    return bool(np.min(new) > 1.005 * np.percentile(past[-1], 75))


def benchstat(past: Sequence[Samples], new: Samples) -> bool:
    """Go's benchstat: Mann-Whitney U, two-sided, 5 %. Samples of one process stand where it would be given runs."""
    from scipy import stats  # noqa: PLC0415  # half a second that listing tests need not wait

    old = past[-1]
    # The medians first, because they are quick and often decide.
    return bool(np.median(new) > np.median(old) and stats.mannwhitneyu(old, new).pvalue < 0.05)


def criterion(past: Sequence[Samples], new: Samples) -> bool:
    """Criterion.rs 0.7: t-test at 5 %, and the 95 % interval of the change of means beyond 1 %.

    Its bootstrap is replaced by what it approximates at a hundred samples: the normal distribution of a mean.
    """
    from scipy import stats  # noqa: PLC0415  # half a second that listing tests need not wait

    old = past[-1]
    change = new.mean() / old.mean() - 1
    error = np.hypot(*(side.std(ddof=1) / np.sqrt(len(side)) / side.mean() for side in (old, new))) * (1 + change)
    # The interval first, because it is quick and mostly decides.
    return bool(change - 1.96 * error > 0.01 and stats.ttest_ind(old, new, equal_var=False).pvalue < 0.05)


def bencher(past: Sequence[Samples], new: Samples) -> bool:
    """Bencher 0.6: above the 99 % prediction limit of Student's t over the means of up to 64 runs."""
    from scipy import stats  # noqa: PLC0415  # half a second that listing tests need not wait

    means = np.array([side.mean() for side in past[-64:]])
    limit = stats.t.ppf(0.99, len(means) - 1) * means.std(ddof=1) * np.sqrt(1 + 1 / len(means))
    return bool(new.mean() > means.mean() + limit)


RULES: dict[str, Rule] = {
    "pytest-benchmark `min:5%`": minimum_5,
    "pytest-benchmark `median:5%`": median_5,
    "nvbench, legacy": nvbench_legacy,
    "nvbench, robust": nvbench_robust,
    "benchstat": benchstat,
    "Criterion": criterion,
    "Bencher": bencher,
}
