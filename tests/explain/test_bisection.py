"""Tests the search for steps among machine codes, with costs that are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpwatch.explain.bisection import Found, Range, Unusable, search
from warpwatch.verdict.rule import Decision, Verdict

FLOOR = 0.005


class Costs:
    """Answers as a GPU would on which the codes take these times. ``wrong``: codes whose results are wrong."""

    def __init__(self, times: Sequence[float], wrong: Sequence[int] = ()) -> None:
        self.times, self.wrong = times, wrong
        self.rounds: list[list[Range]] = []

    def __call__(self, ranges: Sequence[Range]) -> dict[Range, Decision | Unusable]:
        self.rounds.append(list(ranges))
        return {key: self._one(*key) for key in ranges}

    def _one(self, i: int, j: int) -> Decision | Unusable:
        for code in (i, j):
            if code in self.wrong:
                return Unusable(code, f"{code} is wrong")
        ratio = self.times[j] / self.times[i]
        verdict = Verdict.SLOWER if ratio > 1 + FLOOR else Verdict.FASTER if ratio < 1 / (1 + FLOOR) else Verdict.SAME
        return Decision(verdict=verdict, ratio=ratio)


def found(times: Sequence[float], wrong: Sequence[int] = ()) -> Found:
    return search(len(times), Costs(times, wrong))


def test_one_step_takes_few_rounds() -> None:
    costs = Costs([1.0] * 9 + [1.02] * 8)
    assert list(search(17, costs).steps) == [(8, 9)]
    assert len(costs.rounds) <= 6  # both ends, and four halvings and the last
    assert sum(map(len, costs.rounds)) <= 1 + 2 * 4


def test_two_steps_are_both_found_with_their_ratios() -> None:
    steps = found([1, 1, 1.03, 1.03, 1.03, 1.05, 1.05]).steps
    assert list(steps) == [(1, 2), (4, 5)]
    assert math.isclose(math.prod(each.ratio for each in steps.values()), 1.05)


def test_what_is_not_slower_is_not_searched() -> None:
    costs = Costs([1, 1.2, 1])
    assert not search(3, costs).steps
    assert costs.rounds == [[(0, 2)]]
    assert found([1, 1]).ends.verdict == Verdict.SAME  # type: ignore[union-attr]
    assert found([1.1, 1]).ends.verdict == Verdict.FASTER  # type: ignore[union-attr]


def test_a_drift_in_parts_below_the_floor_is_a_range() -> None:
    result = found([1, 1.004, 1.008])
    assert not result.steps
    assert list(result.ranges) == [(0, 2)]


def test_a_step_beside_a_gain_is_found() -> None:
    assert list(found([1, 1.10, 1.10, 1.02]).steps) == [(0, 1)]


@pytest.mark.parametrize("wrong", [[0], [3], [2, 3], [6], [0, 6], [1, 2, 4, 5]])
def test_codes_that_cannot_be_measured_are_left_out(wrong: list[int]) -> None:
    result = found([1, 1, 1, 1.05, 1.05, 1.05, 1.05], wrong)
    assert set(result.unusable) <= set(wrong)
    ((first, last),) = result.steps
    assert first < 3 <= last
    assert not {first, last} & set(wrong)
    assert set(range(first + 1, last)) <= set(wrong)


def test_where_nothing_can_be_measured_that_is_said() -> None:
    result = found([1, 1, 1], [0, 1, 2])
    assert result.ends is None
    assert len(result.unusable) == 2  # one is left, and there is nothing to measure it against


@given(st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.02, 0.05]), min_size=1, max_size=12))
def test_every_step_is_found_where_no_code_is_faster_than_the_one_before(logs: list[float]) -> None:
    times = [1.0]
    for log in logs:
        times.append(times[-1] * math.exp(log))
    expected = [(i, i + 1) for i, (a, b) in enumerate(pairwise(times)) if b > a * (1 + FLOOR)]
    assert sorted(found(times).steps) == expected
