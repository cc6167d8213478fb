"""Tests of the use of NVML's clocks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from warpwatch.timing import nvml
from warpwatch.timing.nvml import POWER_CAP, Clock, Clocks
from warpwatch.timing.pair_samples import log_ratio


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a list of one number; only sleeping advances it."""
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    monkeypatch.setattr("warpwatch.timing.nvml.time.sleep", sleep)
    monkeypatch.setattr("warpwatch.timing.nvml.time.monotonic", lambda: time[0])
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
    assert now[0] == pytest.approx(nvml.SETTLE_SECONDS, abs=0.02)
    now[0] = 101.0
    gpu.settle()  # it is over, so that the next is waited for again
    end[0] = 102.0
    gpu.settle()
    assert now[0] == pytest.approx(102.0, abs=0.02)


@pytest.mark.parametrize(
    ("reasons", "others", "up_at", "waited"),
    [
        ((POWER_CAP,), (), 0.05, 0.05),
        ((POWER_CAP,), (), 9.0, 0.4),  # the clock stays low
        ((POWER_CAP, "hardware slowdown"), (), 0.05, 0.4),
        ((POWER_CAP,), ("another process",), 0.05, 0.4),
    ],
)
def test_only_a_power_cap_is_not_waited_for_once_the_clock_is_measured_to_be_high(
    reasons: tuple[str, ...],
    others: tuple[str, ...],
    up_at: float,
    waited: float,
    monkeypatch: pytest.MonkeyPatch,
    now: list[float],
) -> None:
    gpu = Clocks("")
    slowed = Clock(1905, reasons, others)
    monkeypatch.setattr(gpu, "read", lambda: slowed if now[0] < 0.4 else Clock(1980, ()))
    gpu.settle(lambda: now[0] >= up_at)
    assert now[0] == pytest.approx(waited, abs=0.02)
    now[0] = 0.0
    gpu.settle()
    assert now[0] == pytest.approx(0.4, abs=0.02)


def test_after_a_wait_in_vain_a_clock_that_is_high_lets_the_next_one_wait_again(
    monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    gpu = until(monkeypatch, now, [3.0])
    gpu.settle()  # in vain
    gpu.settle(lambda: True)
    gpu.settle()
    assert now[0] == pytest.approx(3.0, abs=0.02)


def test_a_ratio_of_turns_shrugs_off_drift_and_outliers() -> None:
    drift = [1.0 + 0.01 * i for i in range(80)]  # old new new old, new old old new
    order = [0, 1, 1, 0, 1, 0, 0, 1] * 10
    old = [t for t, new in zip(drift, order, strict=True) if not new]
    new = [1.02 * t for t, new in zip(drift, order, strict=True) if new]
    assert log_ratio(old, new) == pytest.approx(0.0198, abs=2e-4)
    spoiled = [5 * t if i in (3, 10, 21) else t for i, t in enumerate(new)]
    assert log_ratio(old, spoiled) == pytest.approx(0.0198, abs=2e-3)
