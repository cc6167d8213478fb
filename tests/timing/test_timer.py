"""Tests of the timer's arithmetic, and of the number of rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.worker import Kernel
from warpwatch.timing import observers, sampling, timer
from warpwatch.timing.measurement import Budget, prepare
from warpwatch.timing.stopping import MOST_ROUNDS, choose_rounds


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


def noisy(fewest: int, most: int, before: Sequence[float]) -> list[tuple[float, int]]:
    """Samples that scatter so much that all are taken, in calls of ten."""
    return [(0.001 * (1 + i % 2), 0) for i in range(min(10, most - len(before)))]


def kernel_that(call: Callable[..., Any]) -> Kernel:
    """Make a kernel whose worker answers by ``call``."""
    image = SimpleNamespace(path=Path(), source_hash="", image_hash="")
    return cast("Kernel", SimpleNamespace(worker=SimpleNamespace(call=call), image=image, checked=image))


@pytest.mark.once
@pytest.mark.parametrize(
    ("shape", "serial_rounds", "pilots", "rounds"),
    [("4096x4096", None, 0, 3), ("4096x4096", 2, 0, 2), ("4096x4096", 9, 0, 3), ("3x5", None, 1, 3), ("3x5", 2, 1, 3)],
)
def test_a_serial_kernel_that_fills_its_budget_has_no_pilot_and_own_rounds(
    shape: str, serial_rounds: int | None, pilots: int, rounds: int
) -> None:
    called: list[str] = []

    def call(function: Any, *arguments: Any) -> Any:
        called.append(function.__name__)
        time.sleep(0.2)
        return {} if function.__name__ == "prepare" else (0.2, 0)

    case = find_case(FAMILIES, f"transpose-serial-host-{shape}-float32")
    budget = Budget(0.3, 3, True, serial_rounds=serial_rounds)
    measured = prepare(kernel_that(call), case, cold=True, budget=budget)
    assert called.count("sample") == pilots
    assert [measured.fewest, measured.rounds, measured.most] == [rounds] * 3


def test_waiting_for_the_clock_takes_no_samples_from_a_case() -> None:
    def call(function: Any, *arguments: Any) -> Any:
        time.sleep({"settle": 0.4, "sample": 0.001}.get(function.__name__, 0))
        if function is sampling.take_samples:
            return noisy(*arguments[1:])
        facts: dict[Any, dict[str, int]] = {sampling.prepare: {"hold_timeouts": 0}, observers.end: {}}
        return facts.get(function, (0.001, 0))

    case = find_case(FAMILIES, "matmul-tensor-64x64-4096x4096x4096-float64")
    measured = prepare(kernel_that(call), case, cold=True, budget=Budget(0.3, 3, True))
    measured.take_for_rounds()
    assert measured.rounds > 50
