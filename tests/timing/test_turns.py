"""Tests how many turns a pair takes: until what they scatter says that their mean is known."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from warpwatch.timing import sampling, side_by_side
from warpwatch.timing.side_by_side import Plan
from warpwatch.timing.stopping import FEWEST_TURNS, MOST_TURNS, PRECISE_TURNS, QUIET, TURNS_TO_TELL

PLAN = Plan(kind="cold", swap=False, check=False, seconds=60.0, warm_up=0.0)


def turns(scatter: float, monkeypatch: pytest.MonkeyPatch, plan: Plan = PLAN) -> int:
    """Take turns in which the new side is slower and faster by ``scatter``, alternately; return how many there were."""
    taken: list[str] = []

    def sample_of(side: str, timer: object) -> tuple[float, int]:
        taken.append(side)
        turn = (len(taken) - 1) // 4
        return (math.exp(scatter * (-1) ** turn) if side == "new" else 1.0), 0

    monkeypatch.setattr(sampling, "sample_of", sample_of)
    monkeypatch.setattr(sampling, "timer_of", lambda kind: None)
    pairs = side_by_side._take(cast("Any", [("old", "new")]), plan)
    assert len(taken) == 4 * (len(pairs.old) // 2)
    return len(pairs.old) // 2


@pytest.mark.parametrize(
    ("scatter", "wanted"),
    [
        # The standard error of the mean of n turns is the scatter over the root of n - 1.
        (0.0005, FEWEST_TURNS),
        (0.00055, TURNS_TO_TELL),
        (0.99 * QUIET * math.sqrt(FEWEST_TURNS - 1), FEWEST_TURNS),
        (1.01 * QUIET * math.sqrt(FEWEST_TURNS - 1), TURNS_TO_TELL),
        (0.99 * PRECISE_TURNS * math.sqrt(TURNS_TO_TELL - 1), TURNS_TO_TELL),
        (1.01 * PRECISE_TURNS * math.sqrt(TURNS_TO_TELL - 1), TURNS_TO_TELL + 2),
        (PRECISE_TURNS * math.sqrt(70 - 0.5), 72),  # after 71 it would be small enough, but turns come in twos
        (0.01, MOST_TURNS),
    ],
)
def test_quieter_kernels_take_fewer_turns(scatter: float, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert turns(scatter, monkeypatch) == wanted


def test_a_pair_whose_time_is_over_has_the_fewest_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        turns(0.01, monkeypatch, Plan(kind="cold", swap=False, check=False, seconds=0.0, warm_up=0.0)) == FEWEST_TURNS
    )
