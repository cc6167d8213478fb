"""Tests of the use of NVML's clocks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from warpwatch.timing import clocks
from warpwatch.timing import worker_samples as sampling
from warpwatch.timing.clocks import Clock, Clocks
from warpwatch.timing.pair_samples import log_ratio


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a list of one number; only sleeping advances it."""
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    monkeypatch.setattr("warpwatch.timing.clocks.time.sleep", sleep)
    monkeypatch.setattr("warpwatch.timing.clocks.time.monotonic", lambda: time[0])
    return time


def until(monkeypatch: pytest.MonkeyPatch, now: Sequence[float], end: Sequence[float]) -> Clocks:
    """Imitate a GPU that throttles until a time."""
    made = Clocks("")
    monkeypatch.setattr(made, "read", lambda: Clock(1980, ("software power cap",) if now[0] < end[0] else ()))
    return made


def test_what_other_cases_did_to_the_clock_is_waited_for(monkeypatch: pytest.MonkeyPatch, now: list[float]) -> None:
    gpu = until(monkeypatch, now, [1.2])
    gpu.settle()
    assert now[0] == pytest.approx(1.2, abs=0.02)
    gpu.settle()
    assert now[0] == pytest.approx(1.2, abs=0.02)


def test_what_does_not_pass_is_waited_for_once(monkeypatch: pytest.MonkeyPatch, now: list[float]) -> None:
    end = [100.0]
    gpu = until(monkeypatch, now, end)
    for _ in range(9):
        gpu.settle()
    assert now[0] == pytest.approx(clocks.SETTLE_SECONDS, abs=0.02)
    now[0] = 101.0
    gpu.settle()  # it is over, so that the next is waited for again
    end[0] = 102.0
    gpu.settle()
    assert now[0] == pytest.approx(102.0, abs=0.02)


def test_a_ratio_of_turns_shrugs_off_drift_and_outliers() -> None:
    drift = [1.0 + 0.01 * i for i in range(80)]  # old new new old, new old old new
    order = [0, 1, 1, 0, 1, 0, 0, 1] * 10
    old = [t for t, new in zip(drift, order, strict=True) if not new]
    new = [1.02 * t for t, new in zip(drift, order, strict=True) if new]
    assert log_ratio(old, new) == pytest.approx(0.0198, abs=2e-4)
    spoiled = [5 * t if i in (3, 10, 21) else t for i, t in enumerate(new)]
    assert log_ratio(old, spoiled) == pytest.approx(0.0198, abs=2e-3)


@pytest.mark.parametrize(
    ("before", "after", "megahertz", "down"),
    [
        (Clock(1980, ()), (), (1980.0, 1980.0, 1975.0, 1980.0), False),
        (Clock(1980, ()), (), (1755.0, 1740.0, 1755.0, 1980.0), True),
        (Clock(1980, ()), (), (1980.0, 1980.0, 1755.0, 1980.0), False),
        (Clock(1980, ()), ("software power cap",), (1980.0, 1980.0, 1980.0, 1980.0), True),
        (Clock(1410, ()), (), (1410.0, 1410.0, 1410.0, 1410.0), False),  # a GPU whose clock is locked
        (Clock(1980, ("software power cap",)), (), (1755.0, 1755.0, 1755.0, 1755.0), False),  # an earlier case's fault
        (Clock(0, ()), (), (1980.0, 1980.0, 1980.0, 1980.0), False),  # NVML does not say
    ],
)
def test_a_pair_slows_the_clock_that_nvml_sees_kept_down_or_that_fell_beside_its_samples(
    before: Clock, after: tuple[str, ...], megahertz: tuple[float, ...], down: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "read_clock", lambda: Clock(1980, after))
    assert sampling.is_clock_down(before, megahertz) == down
