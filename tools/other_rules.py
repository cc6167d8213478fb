"""Applies other tools' rules, with their defaults, to the same samples as ours: for tools/replay.py alone.

Each takes the baseline's processes, oldest first, and the new ones, as samples in seconds, and says whether it would
call the case slower. Thresholds and sources: the tools' own code or manuals, as of 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]
Rule = Callable[[Sequence[Samples], Sequence[Samples]], bool]

SIMPLE_PROCESSES, SIMPLE_MARGIN = 5, 1.005


def minimum_5(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """pytest-benchmark 5.3, --benchmark-compare-fail=min:5%, against the last run."""
    return bool(np.min(new[0]) > 1.05 * np.min(past[-1]))


def median_5(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """pytest-benchmark 5.3, --benchmark-compare-fail=median:5%, against the last run."""
    return bool(np.median(new[0]) > 1.05 * np.median(past[-1]))


def nvbench_legacy(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """nvbench-compare-legacy: the means differ by more than the smaller of both relative deviations."""
    old = past[-1]
    noise = min(side.std(ddof=1) / side.mean() for side in (old, new[0]))
    return bool(new[0].mean() / old.mean() - 1 > noise)


def nvbench_robust(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """nvbench-compare-robust: [minimum, third quartile] lie apart by 0.5 %; its test of cycles is left out."""
    return bool(np.min(new[0]) > 1.005 * np.percentile(past[-1], 75))


def benchstat(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """Go's benchstat: Mann-Whitney U, two-sided, 5 %. Samples of one process stand where it would be given runs."""
    from scipy import stats  # noqa: PLC0415  # half a second that listing tests need not wait

    old = past[-1]
    # The medians first, because they are quick and often decide.
    return bool(np.median(new[0]) > np.median(old) and stats.mannwhitneyu(old, new[0]).pvalue < 0.05)


def criterion(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """Criterion.rs 0.7: t-test at 5 %, and the 95 % interval of the change of means beyond 1 %.

    Its bootstrap is replaced by what it approximates at a hundred samples: the normal distribution of a mean.
    """
    from scipy import stats  # noqa: PLC0415  # half a second that listing tests need not wait

    old = past[-1]
    change = new[0].mean() / old.mean() - 1
    error = np.hypot(*(side.std(ddof=1) / np.sqrt(len(side)) / side.mean() for side in (old, new[0]))) * (1 + change)
    # The interval first, because it is quick and mostly decides.
    return bool(change - 1.96 * error > 0.01 and stats.ttest_ind(old, new[0], equal_var=False).pvalue < 0.05)


def bencher(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """Bencher 0.6: above the 99 % prediction limit of Student's t over the means of up to 64 runs."""
    from scipy import stats  # noqa: PLC0415  # half a second that listing tests need not wait

    means = np.array([side.mean() for side in past[-64:]])
    limit = stats.t.ppf(0.99, len(means) - 1) * means.std(ddof=1) * np.sqrt(1 + 1 / len(means))
    return bool(new[0].mean() > means.mean() + limit)


def triton(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """Triton's tests of performance: the utilisation by the fastest sample is 5 % below the recorded one.

    triton-lang/triton, python/test/regression/test_performance.py at 00693c1c: ``do_bench(return_mode="min")``, then
    ``assert_close(rtol=0.05, atol=0.01)``. Its absolute hundredth of the roof is left out, since times do not show it:
    with it, a kernel at a tenth of the roof may take 17.6 % longer. The reference is the last run's.
    """
    return bool(np.min(past[-1]) / np.min(new[0]) < 0.95)


def tritonbench(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """tritonbench's regression detector: the figures of two runs are 10 % apart; a latency is a median.

    meta-pytorch/tritonbench, .ci/bisect/regression_detector.py at aafd7f51, REGRESSION_THRESHOLD of 10.
    """
    return bool(np.median(new[0]) > 1.10 * np.median(past[-1]))


def simple(past: Sequence[Samples], new: Sequence[Samples]) -> bool:
    """The slowest of the old processes, and 0.5 %, is still faster than the fastest of five new ones."""
    slowest, fastest = max(map(np.median, past)), min(map(np.median, new[:SIMPLE_PROCESSES]))
    return bool(slowest * SIMPLE_MARGIN < fastest)


def helion_paired(old: Samples, new: Samples) -> bool:
    """Helion's paired comparison, of samples in turns in one process: the median difference is above 1 %.

    pytorch/helion#3523 ranks configurations by interleaved samples (interleaved_bench in helion/autotuner/
    benchmarking.py at ef091f41), #2626 by the median of paired differences. Both take any difference for one, which
    calls half of all unchanged kernels slower; 1 % is what #3533 keeps a pinned configuration for.
    """
    return bool(np.median(new - old) > 0.01 * np.median(old))


SIMPLE = f"slowest of 5 old × {SIMPLE_MARGIN} < fastest of 5 new"
RULES: dict[str, Rule] = {
    SIMPLE: simple,
    "pytest-benchmark `min:5%`": minimum_5,
    "pytest-benchmark `median:5%`": median_5,
    "Triton": triton,
    "tritonbench": tritonbench,
    "nvbench, legacy": nvbench_legacy,
    "nvbench, robust": nvbench_robust,
    "benchstat": benchstat,
    "Criterion": criterion,
    "Bencher": bencher,
}
HELION = "Helion, paired"
