"""Tests how many turns a pair takes: until what they scatter says that their mean is known."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from warpwatch.timing import worker_pairs, worker_samples
from warpwatch.timing.worker_pairs import FEWEST_TURNS, MOST_TURNS, TURNS_TO_TELL, Plan

PLAN = Plan(kind="cold", swap=False, check=False, seconds=60.0, warm_up=0.0)


def turns(scatter: float, monkeypatch: pytest.MonkeyPatch, plan: Plan = PLAN) -> int:
    """Take turns in which the new side is slower and faster by ``scatter``, alternately; return how many there were."""
    taken: list[str] = []

    def sample_of(side: str, timer: object) -> tuple[float, int]:
        taken.append(side)
        turn = (len(taken) - 1) // 4
        return (math.exp(scatter * (-1) ** turn) if side == "new" else 1.0), 0

    monkeypatch.setattr(worker_samples, "sample_of", sample_of)
    monkeypatch.setattr(worker_samples, "timer_of", lambda kind: None)
    pairs = worker_pairs._take(cast("Any", [("old", "new")]), plan)
    assert len(taken) == 4 * (len(pairs.old) // 2)
    return len(pairs.old) // 2


@pytest.mark.parametrize(
    ("scatter", "wanted"),
    [
        (0.0002, FEWEST_TURNS),  # their mean's standard error is 0.0001
        (0.0008, TURNS_TO_TELL),  # after four turns it is 0.00046, after six 0.00036
        (0.005, 70),  # where 0.005 / sqrt(turns - 1) falls below 0.0006
        (0.01, MOST_TURNS),
    ],
)
def test_quieter_kernels_take_fewer_turns(scatter: float, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert abs(turns(scatter, monkeypatch) - wanted) <= 2 * (wanted == 70)


def test_a_pair_whose_time_is_over_has_the_fewest_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        turns(0.01, monkeypatch, Plan(kind="cold", swap=False, check=False, seconds=0.0, warm_up=0.0)) == FEWEST_TURNS
    )
