"""Tests of the forecast of unsure cases: against runs of unchanged kernels on H200s that were recorded later."""

from __future__ import annotations

import pytest

from tests.project import ROOT
from warpwatch.compare.processes import Processes, SampledCase
from warpwatch.runs.record import CaseRecord, RunRecord, read_run
from warpwatch.verdict.rule import MEASURED, Effect, Verdict, expected_unsure, unpaired

RECORDED = ROOT / "bench" / "recordings" / "tuning" / "nvidia-h200"
NIGHTS = {"one H200": (16, 17, 18), "another": (22, 23, 24)}


def cases_of(run: RunRecord) -> dict[str, CaseRecord]:
    return {name: timed for name, timed in run.cases.items() if timed.facts.cache != "host"}


def compared(past: list[RunRecord], run: RunRecord) -> Processes:
    """Compare a saved run with earlier ones of its GPU."""
    measured = {name: SampledCase(timed.facts, [timed.samples]) for name, timed in cases_of(run).items()}
    return Processes(past, measured, run.gpu_uuid, "")


@pytest.mark.once
@pytest.mark.parametrize("gpu", NIGHTS)
def test_one_run_foretells_how_many_are_unsure_with_one_and_with_two(gpu: str) -> None:
    first, second, last = (read_run(RECORDED / f"{number:04}_h200.json.xz") for number in NIGHTS[gpu])
    early = compared([first], second)
    early.decide()
    assert early.prior
    effects = [early._effect(name) for name in early.cases]
    for past in ([first], [first, second]):
        verdicts = [each.verdict for each in compared(past, last).decide().values()]
        unsure = len(verdicts) - verdicts.count(Verdict.SAME)  # with two runs it is excused, because its work is known
        foretold = expected_unsure(effects, early.prior, len(past), 1)
        assert unsure > 80
        assert unsure / 1.3 < foretold < unsure * 1.3


def noisy(spread: float) -> list[Effect]:
    return [unpaired([1e-4, 1e-4 * (1 + spread)], [1e-4 * (1 + spread / 2)]) for _ in range(50)]


def test_more_runs_and_processes_leave_fewer_unsure_and_quiet_cases_none() -> None:
    left = [expected_unsure(noisy(0.004), MEASURED, runs, 1) for runs in (1, 2, 3, 5, 9)]
    assert left == sorted(left, reverse=True)
    assert left[0] > 3 * left[-1]
    assert expected_unsure(noisy(0.004), MEASURED, 3, 3) < left[2]
    assert expected_unsure(noisy(0.0), MEASURED, 5, 3) < 1


def test_cases_that_vary_too_much_stay_unsure() -> None:
    assert expected_unsure(noisy(0.3), MEASURED, 5, 3) == pytest.approx(50, abs=2)
