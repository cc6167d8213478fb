"""The rule, in worlds of which the truth is known: how often it cries wolf, and what it sees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.verdict import FLOOR, Past, Verdict, judge

CASES = 500


def past(*medians: float, unit: str = "") -> list[Past]:
    return [Past([median] * 3, unit) for median in medians]


def test_the_same_is_the_same() -> None:
    judgement = judge(past(1e-3, 1e-3, 1e-3), [1e-3])
    assert judgement.verdict == Verdict.SAME
    assert judgement.change == pytest.approx(0, abs=1e-12)
    assert judgement.limit == FLOOR


def test_slower_is_called_only_after_a_second_measurement() -> None:
    history = past(100e-6, 100e-6, 100e-6)
    assert judge(history, [110e-6]).verdict == Verdict.UNSURE
    assert judge(history, [110e-6]).reason == "not measured again"
    second = judge(history, [110e-6], [101e-6])
    assert second.verdict == Verdict.UNSURE
    assert second.reason == "measured again with fresh buffers: +1.0 %"
    slower = judge(history, [110e-6], [108e-6])
    assert slower.verdict == Verdict.SLOWER
    assert (slower.median, slower.change) == pytest.approx((108e-6, 0.08))


def test_faster_is_the_mirror_of_slower() -> None:
    history = past(100e-6, 100e-6, 100e-6)
    limit = judge(history, [100e-6]).limit
    assert judge(history, [100e-6 / (1 + limit) * 1.0001]).verdict == Verdict.SAME
    assert judge(history, [100e-6 / (1 + limit) * 0.9999]).verdict == Verdict.FASTER


def test_medians_count_and_not_stragglers() -> None:
    history = [Past([1e-3, 1e-3, 9e-3])] * 3
    assert judge(history, [1e-3, 1e-3, 5e-3]).verdict == Verdict.SAME


def test_the_limit_follows_the_baselines_own_spread() -> None:
    quiet = judge(past(1e-3, 1.0001e-3, 0.9999e-3, 1e-3, 1e-3), [1e-3], cases=CASES).limit
    noisy = judge(past(1.00e-3, 1.03e-3, 0.97e-3, 1.02e-3, 0.98e-3), [1e-3], cases=CASES).limit
    assert quiet == FLOOR
    assert noisy > 4 * quiet


def test_the_limit_of_a_short_kernel_is_wider_and_falls_with_more_runs() -> None:
    limits = [judge(past(*[5e-6] * runs), [5e-6], cases=CASES).limit for runs in (3, 5, 10)]
    assert limits == sorted(limits, reverse=True)
    assert limits[0] > 2 * FLOOR


def test_enough_runs_on_this_gpu_are_compared_with_alone() -> None:
    here, there = past(100e-6, 100e-6, 100e-6, unit="here"), past(90e-6, 91e-6, 90e-6, unit="there")
    judgement = judge(here + there, [101e-6], unit="here")
    assert judgement.baseline == pytest.approx(100e-6)
    assert judgement.limit == FLOOR


def test_on_a_gpu_that_the_baseline_does_not_know_the_limit_is_that_of_the_model() -> None:
    known = past(100e-6, 100e-6, 100e-6, unit="one") + past(102e-6, unit="two")
    judgement = judge(known, [106e-6], [106e-6], unit="three", cases=CASES)
    assert judgement.baseline == pytest.approx(math.sqrt(100 * 102) * 1e-6), "a GPU counts once, however many its runs"
    assert judgement.verdict == Verdict.SAME
    assert 0.05 < judgement.limit < 0.15
    assert judge(known, [130e-6], [130e-6], unit="three", cases=CASES).verdict == Verdict.SLOWER


def nights(rng: np.random.Generator, spread: float, runs: int, tail: float) -> np.ndarray:
    """Medians of processes: normal with that spread, now and then (5 %) slower by ``tail``."""
    factors = np.exp(rng.normal(0, spread, (CASES, runs + 2)))
    return factors * np.where(rng.random(factors.shape) < 0.05, 1 + tail, 1)


@pytest.mark.parametrize(
    ("time", "spread", "tail"),
    [
        (1e-3, 0.0004, 0.0),  # quiet, as measured on an H200 above 100 µs
        (30e-6, 0.0033, 0.0),  # as measured from 10 to 100 µs
        (7e-6, 0.011, 0.0),  # as measured below 10 µs
        (30e-6, 0.006, 0.0),  # twice as noisy as the rule expects
        (1e-3, 0.0004, 0.004),  # two modes
    ],
)
def test_whole_runs_on_unchanged_code_are_quiet_and_a_slowdown_is_seen(time: float, spread: float, tail: float) -> None:
    rng = np.random.default_rng(7)
    alarms, seen = 0, 0
    for _ in range(8):  # runs over 500 cases
        worlds = time * nights(rng, spread, 5, tail)
        for *history, now, again in worlds:
            judgement = judge(past(*history), [now], [again], cases=CASES)
            alarms += judgement.verdict == Verdict.SLOWER
            slower = 1 + max(0.03, 12 * spread)
            seen += judge(past(*history), [now * slower], [again * slower], cases=CASES).verdict == Verdict.SLOWER
    assert alarms == 0
    assert seen >= 0.95 * 8 * CASES
