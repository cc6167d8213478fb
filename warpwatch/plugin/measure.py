"""Checks and times a case by pytest-benchmark and the comparison of the run: what the fixture ``measure`` gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from pytest_benchmark.fixture import BenchmarkFixture

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.names import print_short
from warpwatch.compare.comparison import Comparison
from warpwatch.devices.worker import Kernel
from warpwatch.revision.declared import of_code, own_identity
from warpwatch.timing.measurement import Budget, announce_next


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Checks, times and checks again the case of a test, as ``measure()``.

    ``cold``: L2 is scrubbed before each launch that is timed. ``budget``: the time that a case may take.
    ``later``: the cases that will be measured after this one.
    """

    benchmark: BenchmarkFixture
    kernel: Kernel
    case: Case
    cold: bool
    budget: Budget
    comparison: Comparison
    later: Iterable[Case] = ()

    def __repr__(self) -> str:
        return f"Measure({self.case.id})"

    _repr_pretty_ = print_short

    def __call__(self) -> None:
        """Measure. A slower kernel fails after all cases are timed, because it is known only then."""
        if not self.case.variant.on_host and self.comparison.measures(self.case, self.kernel.image):
            announce_next(self.kernel.worker, self.case, self.later)
        measured = self.comparison.measure(self.kernel, self.case, self.cold, self.budget)
        if measured is None:
            return
        benchmark = self.benchmark
        if benchmark.enabled:
            measured.take_for_rounds()
        if not self.case.variant.on_host:
            version = measured.facts.get("library", "")
            identity = of_code(own_identity(self.case), self.kernel.image.image_hash, version)
            measured.facts["identity"] = msgspec.to_builtins(identity)
        benchmark.params = self.case.parameters
        benchmark.extra_info = measured.facts
        benchmark.pedantic(measured.sample, rounds=measured.rounds)
        if benchmark.stats:
            measured.finish(benchmark.stats.stats.median)
        try:
            measured.check_last_result()
        except Exception:
            _discard(benchmark)
            raise
        measured.observe(self.budget.observers)
        if benchmark.stats:
            self.comparison.add(measured, benchmark.stats.stats.data)


def _discard(benchmark: BenchmarkFixture) -> None:
    """Discard the samples of a wrong kernel, so that they are neither saved nor shown."""
    benchmark.has_error = True
    if benchmark.stats:
        benchmark.stats.stats.data.clear()
