"""Tests of pytest's half of a measurement: rounds, first samples, and samples until they are precise."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.kernel import Kernel
from warpwatch.timing import measurement, observers, sampling
from warpwatch.timing.measurement import MOST_ROUNDS, PILOT_SAMPLES, Budget, Measured, prepare
from warpwatch.timing.stopping import FEWEST, of_samples
from warpwatch.timing.timer import HostTimer

CASE = find_case(FAMILIES, "copy-naive-256-1048576-float32")


def played(*seconds: float) -> Measured:
    """Return a case whose rounds are these."""
    return Measured(kernel=cast("Kernel", None), case=CASE, kind="cold", pending=list(seconds))


def test_readings_subtract_to_the_samples_between() -> None:
    start, case = measurement.read(), played(1e-6, 2e-6, 4e-6)
    assert [case.sample() for _ in range(3)] == [1e-6, 2e-6, 4e-6]
    assert measurement.read() - start == pytest.approx(7e-6, rel=1e-15)
    assert measurement.read() - measurement.read() == 0


def test_a_microsecond_survives_a_week_of_samples() -> None:
    case = played(*[6000.0] * 100, 1.25e-6)
    for _ in range(100):
        case.sample()
    start = measurement.read()
    case.sample()
    assert measurement.read() - start == 1.25e-6


def test_the_hosts_timer_reads_the_wall_clock() -> None:
    assert HostTimer().sample(lambda: time.sleep(0.02)) == pytest.approx(0.02, rel=0.5)


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
    assert measurement._choose_rounds(seconds, cost, fewest) == rounds


def kernel_that(call: Callable[..., Any]) -> Kernel:
    """Make a kernel whose worker answers by ``call``."""
    image = SimpleNamespace(path=Path(), source_hash="", image_hash="", seconds=None)
    return cast("Kernel", SimpleNamespace(worker=SimpleNamespace(call=call), image=image, checked=image))


@pytest.mark.parametrize(("case", "prints"), [("hello-hello-5x5-4-none", True), (CASE.id, False)])
def test_it_is_recorded_that_a_kernel_prints(case: str, prints: bool) -> None:
    kernel = kernel_that(lambda *_: None)
    assert measurement.facts_before_launch(kernel, find_case(FAMILIES, case))["prints"] == prints


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
        if function is sampling.take_samples:  # they scatter so much that all are taken, in calls of ten
            _, most, before = arguments[1:]
            return [(0.001 * (1 + i % 2), 0) for i in range(min(10, most - len(before)))]
        facts: dict[Any, dict[str, int]] = {sampling.prepare: {"hold_timeouts": 0}, observers.end: {}}
        return facts.get(function, (0.001, 0))

    case = find_case(FAMILIES, "matmul-tensor-64x64-4096x4096x4096-float64")
    measured = prepare(kernel_that(call), case, cold=True, budget=Budget(0.3, 3, True))
    measured.take_for_rounds()
    assert measured.rounds > 50


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Measured]:
    """Make a case whose samples scatter by a share; a call takes at most ten of them."""

    def make(scatter: float, fewest: int, most: int) -> Measured:
        noise, clock = random.Random(3), count()
        monkeypatch.setattr(sampling, "_next_sample", lambda kind: (1e-3 * noise.gauss(1, scatter), 0))
        monkeypatch.setattr("time.perf_counter", lambda: next(clock) * sampling.CALL_SECONDS / 9.5)
        kernel, facts = kernel_that(lambda function, *args: function(*args)), {"hold_timeouts": 0}
        return Measured(kernel=kernel, case=CASE, kind="cold", facts=facts, fewest=fewest, most=most)

    return make


@pytest.mark.parametrize(
    ("scatter", "fewest", "most", "taken"),
    [
        (0.0001, 3, 100, FEWEST),
        (0.1, 3, 100, 100),
        (0.0001, 3, 7, 7),  # no more time
        (0.0001, 50, 100, 50),  # --benchmark-min-rounds
        (0.0001, 200, 200, 200),
        (0.0001, 1, 1, 1),
    ],
)
def test_samples_are_taken_until_they_are_precise(
    measured: Callable[..., Measured], scatter: float, fewest: int, most: int, taken: int
) -> None:
    assert len(measured(scatter, fewest, most).take_all()) == taken


def test_a_scatter_between_takes_as_many_as_it_needs(measured: Callable[..., Measured]) -> None:
    samples = measured(0.002, 3, 100).take_all()
    assert FEWEST < len(samples) < 100
    assert of_samples(3, 100, samples).is_finished
    assert not of_samples(1, 100, samples[:-1]).is_finished


def test_rounds_that_are_sampled_one_by_one_get_all_samples_of_a_call(measured: Callable[..., Measured]) -> None:
    """A serial variant's samples follow each other in the worker process, without a call between most of them."""
    case = measured(0.0001, 40, 40)
    calls = 0

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return function(*arguments)

    cast("Any", case.kernel).worker.call = call
    for _ in range(40):
        case.sample()
    assert calls < 10
    assert (len(case.before), case.pending) == (40, [])


@pytest.mark.parametrize(("warm_up", "discarded"), [(True, 0), (False, PILOT_SAMPLES)])
def test_the_first_samples_count_where_the_gpu_was_warmed_up(
    monkeypatch: pytest.MonkeyPatch, warm_up: bool, discarded: int
) -> None:
    """What chooses the number of rounds are samples like the others, except where they alone warm the GPU up."""
    numbers = count(1)
    answers: dict[Callable[..., Any], Any] = {
        sampling.prepare: {"hold_timeouts": 0},
        sampling.settle: None,
        sampling.begin_ahead: None,
        sampling.warm_up: None,
        observers.begin: None,
        observers.end: {},
    }
    monkeypatch.setattr(sampling, "_next_sample", lambda kind: (1e-3 * next(numbers), 2))

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        return answers[function] if function in answers else function(*arguments)

    case = prepare(kernel_that(call), CASE, True, Budget(10.0, 20, warm_up))
    case.take_for_rounds()
    assert [round(1e3 * seconds) for seconds in case.pending][:5] == [discarded + number for number in range(1, 6)]
    assert case.facts["hold_timeouts"] == 2 * len(case.pending)
    assert next(numbers) == len(case.pending) + discarded + 1
