"""Tests when the samples of a process are enough."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.worker import Kernel
from warpwatch.timing import observers, sampling
from warpwatch.timing.measurement import PILOT_SAMPLES, Budget, Measured, prepare
from warpwatch.timing.stopping import FEWEST, FEWEST_TURNS, MOST_TURNS, PRECISE, of_samples, of_turns_apart

CASE = find_case(FAMILIES, "copy-naive-256-1048576-float32")
Sampler = Callable[[float], list[float]]


def test_the_spread_is_that_of_the_logarithms() -> None:
    samples = [1e-3, 1.1e-3, 0.9e-3, 1.05e-3]
    rule, logs = of_samples(1, 100, samples), np.log(samples)
    assert rule.count == 4
    assert rule.mean == pytest.approx(logs.mean())
    assert math.sqrt(rule.squares / 3) == pytest.approx(logs.std(ddof=1))


@pytest.mark.parametrize(("scatter", "precise"), [(0.9, True), (1.2, False)])
def test_samples_are_precise_by_their_standard_error(scatter: float, precise: bool) -> None:
    step = scatter * PRECISE * math.sqrt(FEWEST - 1)  # of samples that alternate, the error is step / sqrt(count - 1)
    samples = [1e-3 * math.exp(step * (-1) ** i) for i in range(FEWEST)]
    assert of_samples(1, 100, samples).is_finished is precise
    assert not of_samples(1, 100, samples[:-1]).is_finished


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Measured]:
    """Make a case whose samples scatter by a share; a call takes at most ten of them."""

    def make(scatter: float, fewest: int, most: int) -> Measured:
        noise, clock = random.Random(3), count()
        monkeypatch.setattr(sampling, "sample", lambda kind: (1e-3 * noise.gauss(1, scatter), 0))
        monkeypatch.setattr("time.perf_counter", lambda: next(clock) * sampling.CALL_SECONDS / 9.5)
        kernel = SimpleNamespace(worker=SimpleNamespace(call=lambda function, *args: function(*args)))
        facts: dict[str, Any] = {"hold_timeouts": 0}
        case = Measured(kernel=cast("Kernel", kernel), case=CASE, kind="cold", facts=facts)
        case.fewest, case.most = fewest, most
        return case

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


@pytest.mark.parametrize(("seconds", "wanted"), [(0.0, FEWEST_TURNS), (60.0, MOST_TURNS)])
def test_turns_in_two_processes_end_by_time_or_number_alone(seconds: float, wanted: int) -> None:
    rule = of_turns_apart(seconds)
    while not rule.is_finished:
        rule.add(0.0)
    assert rule.count == wanted


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
    monkeypatch.setattr(sampling, "sample", lambda kind: (1e-3 * next(numbers), 2))

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        return answers[function] if function in answers else function(*arguments)

    image = SimpleNamespace(path=Path(), source_hash="", image_hash="")
    kernel = SimpleNamespace(worker=SimpleNamespace(call=call), image=image, checked=image)
    case = prepare(cast("Kernel", kernel), CASE, True, Budget(10.0, 20, warm_up))
    case.take_for_rounds()
    assert [round(1e3 * seconds) for seconds in case.pending][:5] == [discarded + number for number in range(1, 6)]
    assert case.facts["hold_timeouts"] == 2 * len(case.pending)
    assert next(numbers) == len(case.pending) + discarded + 1
