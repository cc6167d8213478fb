"""Tests that a rate breaks its limit only where that is certain, and how often one at its limit is called broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpwatch.verdict.contracts import CROSSES, NOT_SIGNIFICANT, OTHER_GPU, Rate, Standing, exact, judge
from warpwatch.verdict.rule import MEASURED

SECONDS = 50e-6


def times(factor: float, processes: int = 5, seed: int = 0) -> list[float]:
    """Return times of processes that differ as those of an H200 do."""
    noise = np.random.default_rng(seed).normal(0, np.sqrt(MEASURED.variance(SECONDS)), processes)
    return [float(factor * SECONDS * np.exp(each)) for each in noise]


def rate(factor: float, processes: int = 5, seed: int = 0, **fields: object) -> Rate:
    given = {"case": "a", "name": "seconds", "limit": SECONDS, "times": times(factor, processes, seed)}
    return Rate(**given | fields)  # type: ignore[arg-type]


@pytest.mark.slow
def test_no_more_than_one_run_in_a_hundred_breaks_a_limit_that_all_cases_just_keep() -> None:
    broken = sum(
        any(clause.standing == Standing.BROKEN for clause in judge([rate(1.0, seed=20 * run + i) for i in range(20)]))
        for run in range(1000)
    )
    assert broken <= 10 + 3 * 10**0.5


@pytest.mark.parametrize(
    ("factor", "processes", "standing", "reason"),
    [
        (0.97, 1, Standing.KEPT, ""),
        (1.0, 5, Standing.UNSURE, CROSSES),
        (1.02, 5, Standing.BROKEN, ""),
        (1.02, 4, Standing.UNSURE, "4 of 5 processes"),
    ],
)
def test_a_limit_is_broken_by_five_processes_beyond_it(
    factor: float, processes: int, standing: Standing, reason: str
) -> None:
    (clause,) = judge([rate(factor, processes)])
    assert (clause.standing, clause.reason, clause.processes) == (standing, reason, processes)
    assert clause.low is not None
    assert clause.high is not None
    assert clause.figure == pytest.approx(factor * SECONDS, rel=3e-3)
    assert clause.low < factor * SECONDS < clause.high


def test_among_many_limits_a_small_excess_is_not_significant() -> None:
    few, many = ([rate(1.0035)] + [rate(0.9, seed=i) for i in range(count)] for count in (0, 300))
    assert judge(few)[0].standing == Standing.BROKEN
    assert (judge(many)[0].standing, judge(many)[0].reason) == (Standing.UNSURE, NOT_SIGNIFICANT)


def test_a_doubt_keeps_a_slow_case_unsure_and_a_fast_one_kept() -> None:
    slow, fast = judge([rate(1.1, doubt="power cap"), rate(0.9, doubt="power cap")])
    assert (slow.standing, slow.reason) == (Standing.UNSURE, "power cap")
    assert fast.standing == Standing.KEPT


@pytest.mark.parametrize(
    ("factor", "processes", "standing", "reason"),
    [
        (0.97, 1, Standing.KEPT, ""),
        (1.07, 5, Standing.UNSURE, OTHER_GPU),
        (1.15, 1, Standing.UNSURE, "1 of 5 processes"),
        (1.15, 5, Standing.BROKEN, ""),
    ],
)
def test_a_limit_of_other_gpus_is_broken_by_more_than_gpus_of_a_model_differ(
    factor: float, processes: int, standing: Standing, reason: str
) -> None:
    (clause,) = judge([rate(factor, processes, elsewhere=True)])
    assert (clause.standing, clause.reason) == (standing, reason)
    assert clause.is_open == reason.endswith("processes")


def test_a_share_is_of_both_times_and_unsure_where_either_is_in_doubt() -> None:
    share: dict[str, Any] = {"name": "reference", "limit": 0.8, "scale": 1.0, "references": times(0.7, seed=1)}
    clause, doubtful = judge([rate(1.0, **share), rate(0.8, **share, doubt="power cap")])
    assert clause.standing == Standing.BROKEN
    assert clause.figure == pytest.approx(0.7, rel=3e-3)
    assert clause.excess == pytest.approx(1 - 0.7 / 0.8, rel=0.02)
    assert clause.low is not None
    assert clause.high is not None
    assert clause.low < 0.7 < clause.high
    assert doubtful.standing == Standing.UNSURE


def test_a_share_of_the_roof_is_the_roofs_time_over_the_cases() -> None:
    (clause,) = judge([rate(1.0, name="roof", limit=0.5, scale=0.6 * SECONDS)])
    assert clause.figure == pytest.approx(0.6, rel=3e-3)
    assert clause.standing == Standing.KEPT


def test_a_figure_of_machine_code_is_kept_up_to_its_limit() -> None:
    assert [exact("registers", 64, figure).standing for figure in (64, 65)] == [Standing.KEPT, Standing.BROKEN]
    assert judge([]) == []
