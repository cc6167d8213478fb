"""Tests how the energy of a launch is measured, on a GPU that is played: its power, its counter and its launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.machine import DeviceError
from warpwatch.timing.observers.energy import BATCH_SECONDS, Batch, Energy, measure


@dataclass
class Gpu:
    """A GPU that takes ``watts`` while launches run, and ``idle`` before; its counter steps every ``period`` seconds.

    ``cost``: seconds that a look at the counter takes. ``launch``: seconds of a launch. ``ready``: seconds until the
    power is that of the launches.
    """

    launch: float = 2e-3
    watts: float = 500.0
    idle: float = 100.0
    ready: float = 0.2
    period: float = 0.1
    cost: float = 0.003
    now: float = 100.0
    busy_until: float = 0.0
    looks: list[float] = field(default_factory=list)

    @property
    def launches(self) -> int:
        """Launches of a batch."""
        return max(1, round(BATCH_SECONDS / self.launch))

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def joules(self) -> float:
        self.now += self.cost
        self.looks.append(self.now)
        passed = self.now // self.period * self.period - 100.0
        slow = min(passed, self.ready)
        return self.idle * slow + self.watts * (passed - slow)

    def queue(self) -> Callable[[], bool]:
        self.busy_until = max(self.busy_until, self.now) + self.launches * self.launch
        end = self.busy_until
        return lambda: self.now >= end


@pytest.fixture
def energy_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Gpu, float], tuple[float, float]]:
    """Measure on a played GPU; returns joules of a launch, and watts."""

    def measured(gpu: Gpu, seconds: float) -> tuple[float, float]:
        monkeypatch.setattr("warpwatch.timing.observers.energy.time.sleep", gpu.sleep)
        batch = Batch(queue=gpu.queue, launches=gpu.launches)
        found = measure(batch, gpu.joules, seconds=seconds, patience=5.0, now=lambda: gpu.now)
        return found.joules, found.watts

    return measured


@pytest.mark.parametrize("launch", [2e-4, 2e-3, 0.03])
@pytest.mark.parametrize("period", [0.02, 0.1])
def test_the_energy_is_power_times_time(
    energy_of: Callable[[Gpu, float], tuple[float, float]], launch: float, period: float
) -> None:
    gpu = Gpu(launch=launch, period=period)
    joules, watts = energy_of(gpu, 1.0)
    assert watts == pytest.approx(500.0, rel=0.004)  # the idle time before is no part of it
    assert joules == pytest.approx(500.0 * launch, rel=0.006)
    assert gpu.now - 100.0 > 1.3


def test_the_counter_is_asked_where_a_step_may_come(energy_of: Callable[[Gpu, float], tuple[float, float]]) -> None:
    gpu = Gpu(cost=0.0001)
    energy_of(gpu, 1.0)
    assert len(gpu.looks) < 0.3 * 1.5 / 0.0006  # of the looks that one after the other would be


def test_a_counter_that_stands_still_is_an_error(energy_of: Callable[[Gpu, float], tuple[float, float]]) -> None:
    with pytest.raises(DeviceError, match="counter of energy did not advance within 2 s"):
        energy_of(Gpu(watts=0.0, idle=0.0), 1.0)


def test_launches_that_do_not_end_are_an_error(energy_of: Callable[[Gpu, float], tuple[float, float]]) -> None:
    with pytest.raises(DeviceError, match="did not end within 5 s"):
        energy_of(Gpu(launch=1e9), 1.0)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("matmul-naive-8x8-128x128x128-float32", ""),
        ("matmul-serial-host-128x128x128-float32", "it runs on the host"),
        ("hello-hello-5x5-4-none", "its launches print"),
    ],
)
def test_which_cases_have_an_energy(case: str, reason: str) -> None:
    assert Energy().leaves_out(find_case(FAMILIES, case)) == reason
