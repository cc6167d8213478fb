"""Tests what changes from process to process of a pair: which side is loaded first, and that the first one checks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.project import PROJECT
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.pairs import Pair
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.timing.measurement import Measured
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import Plan


def test_the_first_process_checks_and_the_side_that_is_loaded_first_changes() -> None:
    plans: list[Plan] = []

    def call(function: object, *given: Any) -> PairSamples:
        plans.append(given[-1])
        return PairSamples(old=(1.0,), new=(1.0,))

    kernel = cast("Kernel", SimpleNamespace(worker=SimpleNamespace(call=call)))
    measured = Measured(kernel=kernel, case=next(iter(timed_cases(PROJECT.families))), kind="cold")
    pair = Pair(measured=measured, other=cast("OtherKernel", None), other_image=Path(), image=Path())
    for process in range(4):
        pair.take(process)
    assert [plan.swap for plan in plans] == [False, True, False, True]
    assert [plan.check for plan in plans] == [True, False, False, False]
