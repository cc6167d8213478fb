"""Tests weighted totals: their figures by hand, their intervals by simulation, and what they do not claim."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from warpwatch.report.tables import total_lines
from warpwatch.verdict.rule import Decision, Verdict
from warpwatch.verdict.totals import Total, total

SMALL, LARGE = "softmax-rows-256-1x1024-float32", "softmax-rows-256-2048x1024-float32"
WEIGHTS = {SMALL: 90.0, LARGE: 10.0}


def decision(before: float, ratio: float, half: float = 0.01, **more: Any) -> Decision:
    facts: dict[str, Any] = {"verdict": Verdict.SAME, "before": before, "after": before * ratio, "ratio": ratio}
    return Decision(**facts | {"low": ratio - half, "high": ratio + half} | more)


def test_each_case_counts_by_its_time_and_in_the_mean_by_its_runs() -> None:
    each = total(WEIGHTS, {SMALL: decision(2e-6, 1.5), LARGE: decision(42e-6, 0.9, 0.02)})
    assert each is not None
    assert each.before == pytest.approx(90 * 2e-6 + 10 * 42e-6)
    assert each.shares == pytest.approx({SMALL: 0.3, LARGE: 0.7})
    assert each.ratio == pytest.approx((90 * 3e-6 + 10 * 37.8e-6) / (90 * 2e-6 + 10 * 42e-6))
    assert each.after == pytest.approx(90 * 3e-6 + 10 * 37.8e-6)
    assert (each.low, each.high) == pytest.approx((1.08 - 0.017, 1.08 + 0.017))
    assert each.mean == pytest.approx(1.5**0.9 * 0.9**0.1)
    assert (each.mean_low, each.mean_high) == pytest.approx((1.49**0.9 * 0.88**0.1, 1.51**0.9 * 0.92**0.1))


def test_a_ratio_of_pairs_counts_and_not_that_of_the_medians() -> None:
    (each,) = [total({SMALL: 1}, {SMALL: decision(2e-6, 1.01, after=3e-6)})]
    assert each is not None
    assert (each.ratio, each.after) == pytest.approx((1.01, 2.02e-6))


def within(*figures: float | None) -> bool:
    low, value, high = (float(each or math.nan) for each in figures)
    return low <= value <= high


@pytest.mark.parametrize("common", [0.0, 0.5, 1.0])
def test_the_interval_covers_what_is_true_however_errors_depend_on_each_other(common: float) -> None:
    rng, runs, count = np.random.default_rng(3), 1000, 6
    names = [f"a-b-1-{number}-float32" for number in range(count)]
    weights = dict(zip(names, rng.uniform(1, 100, count), strict=True))
    true, times, errors = rng.uniform(0.9, 1.1, count), rng.uniform(1e-6, 1e-4, count), rng.uniform(0.002, 0.01, count)
    shared = rng.standard_normal((runs, 1))
    noise = errors * (math.sqrt(common) * shared + math.sqrt(1 - common) * rng.standard_normal((runs, count)))
    covered = np.zeros(2)
    exact = total(weights, {n: decision(t, r) for n, t, r in zip(names, times, true, strict=True)})
    assert exact is not None
    for logs in np.log(true) + noise:
        limits = [
            (math.exp(x), math.exp(x - 1.96 * e), math.exp(x + 1.96 * e)) for x, e in zip(logs, errors, strict=True)
        ]
        found = total(weights, {
            name: decision(time, ratio, low=low, high=high)
            for name, time, (ratio, low, high) in zip(names, times, limits, strict=True)
        })  # fmt: skip
        assert found is not None
        covered += [within(found.low, exact.ratio, found.high), within(found.mean_low, exact.mean, found.mean_high)]
    assert (covered / runs >= 0.93).all()  # 0.95 less three standard errors of 1,000 runs
    if common == 1.0:
        assert (covered / runs <= 0.97).all()  # it is no wider than it must be


def test_a_shape_without_figures_leaves_the_total_unknown() -> None:
    known = decision(2e-6, 1.5)
    for other in (Decision(verdict=Verdict.IDENTICAL), Decision(verdict=Verdict.NEW, after=1e-6)):
        assert total(WEIGHTS, {SMALL: known, LARGE: other}) == Total(
            reason="1 of 2 shapes with weights were not compared"
        )
    assert total(WEIGHTS, {SMALL: known}) == Total(reason="1 of 2 shapes with weights were not compared")
    assert total(WEIGHTS, {SMALL: Decision(verdict=Verdict.IDENTICAL)}) is None
    assert total({}, {SMALL: known}) is None


def test_a_total_says_how_many_weighted_shapes_its_build_is_not_timed_on() -> None:
    each = total({SMALL: 1.0}, {SMALL: decision(2e-6, 1.5, verdict=Verdict.UNSURE)}, 2)
    assert each is not None
    assert each.reason == "1 of 1 shapes are unsure; without 2 of 3 shapes with weights, on which it is not timed"


def test_lines_have_the_slowest_first_and_say_what_is_unsure() -> None:
    slow = total(WEIGHTS, {SMALL: decision(2e-6, 1.5, verdict=Verdict.UNSURE), LARGE: decision(42e-6, 0.9, 0.02)})
    fast = total({SMALL: 1.0}, {SMALL: decision(2e-6, 0.5)})
    assert slow is not None
    assert fast is not None
    lines = total_lines({"a-b-1-float32": fast, "softmax-rows-256-float32": slow, "c-d-1-float32": Total(reason="why")})
    assert lines == [
        "total of c-d-1-float32: unknown, because why",
        "total of softmax-rows-256-float32: 600.00 -> 648.00 µs, +8.0 % (95 %: +6.3 to +9.7), "
        "geometric mean +42.5 % (95 %: +41.4 to +43.7); 70.0 % of the time is 2048x1024; 1 of 2 shapes are unsure",
        "total of a-b-1-float32: 2.00 -> 1.00 µs, -50.0 % (95 %: -51.0 to -49.0), "
        "geometric mean -50.0 % (95 %: -51.0 to -49.0); 100.0 % of the time is 1x1024",
    ]
    cut = total_lines({"a-b-1-float32": fast, "softmax-rows-256-float32": slow}, 1)
    assert cut[1] == "... and 1 more totals; a run with -v prints all"
