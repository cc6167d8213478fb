"""Times every kernel of this repository on the shapes that its family is timed on; the only benchmark."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kernels import FAMILIES
from warpwatch.catalogue.declaration import Case
from warpwatch.catalogue.selection import timed_cases
from warpwatch.catalogue.validation import problems
from warpwatch.compare.comparison import Comparison
from warpwatch.devices.worker import Kernel
from warpwatch.timing.parent_samples import Budget
from warpwatch.timing.timer import read


@pytest.mark.benchmark(timer=read)
@pytest.mark.cases(timed_cases(FAMILIES), problems(FAMILIES))
def bench_kernel(
    benchmark: BenchmarkFixture, kernel: Kernel, case: Case, cold: bool, budget: Budget, comparison: Comparison
) -> None:
    """Check, time, and check again. A slower kernel fails after all cases are timed, because it is known only then."""
    measured = comparison.measure(kernel, case, cold, budget)
    if measured is None:
        return
    benchmark.params = case.parameters
    benchmark.extra_info = measured.facts
    benchmark.pedantic(measured.sample, rounds=measured.rounds)
    if benchmark.stats:
        measured.finish(benchmark.stats.stats.median)
    try:
        measured.check_last_result()
    except Exception:
        discard(benchmark)
        raise
    if benchmark.stats:
        comparison.add(measured, benchmark.stats.stats.data)


def discard(benchmark: BenchmarkFixture) -> None:
    """Discard the samples of a wrong kernel, so that they are neither saved nor shown."""
    benchmark.has_error = True
    if benchmark.stats:
        benchmark.stats.stats.data.clear()
