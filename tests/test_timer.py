"""The timer's arithmetic, and how many rounds a case gets."""

from __future__ import annotations

import time

import pytest

from bench import timer
from bench.measure import MOST_ROUNDS, choose_rounds


def test_readings_subtract_to_the_samples_between() -> None:
    start = timer.read()
    for seconds in (1e-6, 2e-6, 4e-6):
        timer.note(seconds)
    assert timer.read() - start == pytest.approx(7e-6, rel=1e-15)
    assert timer.read() - timer.read() == 0


def test_a_microsecond_survives_a_week_of_samples() -> None:
    for _ in range(100):
        timer.note(6000.0)
    start = timer.read()
    timer.note(1.25e-6)
    assert timer.read() - start == 1.25e-6


def test_the_hosts_timer_reads_the_wall_clock() -> None:
    assert timer.HostTimer().sample(lambda: time.sleep(0.02)) == pytest.approx(0.02, rel=0.5)


@pytest.mark.parametrize(
    ("seconds", "cost", "fewest", "rounds"),
    [
        (0.3, 0.010, 3, 30),  # as many as fit
        (0.3, 0.010, 50, 50),  # --benchmark-min-rounds goes before time, as in pytest-benchmark
        (0.3, 2.000, 3, 3),
        (-0.1, 0.010, 3, 3),  # warm-up and pilot have used it up
        (0.3, 50e-6, 3, MOST_ROUNDS),
        (0.3, 50e-6, 1000, 1000),
    ],
)
def test_rounds(seconds: float, cost: float, fewest: int, rounds: int) -> None:
    assert choose_rounds(seconds, cost, fewest) == rounds
