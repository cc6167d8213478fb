"""Tests of observers: what each records, who is asked, and how the energy of a launch is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import pytest

from kernels import FAMILIES
from tests import own
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.gpu import Device
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.runner import Loaded
from warpwatch.timing import nvml, observers
from warpwatch.timing.nvml import Clock
from warpwatch.timing.observers import energy
from warpwatch.timing.observers.energy import BATCH_SECONDS, Energy, LaunchEnergy, batch_of, measure

COPY, HELLO = (
    cast("Loaded", SimpleNamespace(case=find_case(FAMILIES, name)))
    for name in ("copy-naive-256-1048576-float32", "hello-hello-5x5-4-none")
)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> list[Clock]:
    """Clocks that NVML tells of, one after the other."""
    told: list[Clock] = []
    monkeypatch.setattr(nvml, "clocks", lambda: SimpleNamespace(read=lambda: told.pop(0), ask=lambda question: None))
    return told


def test_clocks_are_read_before_and_after_samples(clocks: list[Clock]) -> None:
    clocks += [Clock(1980, ()), Clock(1755, ("software power cap",))]
    observers.begin()
    assert observers.end() == {"sm_clock_mhz": (1980, 1755), "throttle": ((), ("software power cap",))}


def test_others_at_work_are_recorded_once(clocks: list[Clock]) -> None:
    clocks += [Clock(1980, (), ("a (process 1)",)), Clock(1980, (), ("b (process 2)", "a (process 1)"))]
    observers.begin()
    assert observers.end()["other_processes"] == ("a (process 1)", "b (process 2)")


def test_a_case_on_the_host_has_no_overhead_of_events() -> None:
    assert observers.constants(on_host=True) == {"overhead": 0.0}


def test_each_fact_has_a_unit_and_one_observer() -> None:
    facts = [fact for observer in observers.OBSERVERS for fact in observer.units]
    assert len(facts) == len(set(facts))
    clock = {"sm_clock_mhz", "throttle", "other_processes"}
    host = {"host_seconds", "host_iqr", "graph_seconds", "graph_of_one_seconds", "allocated_bytes"}
    assert clock | host | {"overhead", "remarks", "data", "joules", "watts"} == set(facts)


def test_only_observers_that_are_asked_for_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "_energy_of", lambda *given: LaunchEnergy(0.05, 400.04))
    assert observers.launch([], [COPY]) == {}
    assert observers.launch(["energy"], [COPY]) == {"joules": 0.05, "watts": 400.0}
    assert observers.launch(["energy"], [HELLO]) == {}
    assert observers.launch_sides(["energy"], [(HELLO, HELLO)]) == {}


def test_energies_of_two_sides_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = COPY, cast("Loaded", SimpleNamespace(case=COPY.case))
    taken: list[str] = []

    def energy_of(loaded: tuple[Loaded], *given: float, **named: float) -> LaunchEnergy:
        taken.append("new" if loaded[0] is new else "old")
        return LaunchEnergy(len(taken), 0.0)

    monkeypatch.setattr(energy, "_energy_of", energy_of)
    assert observers.launch_sides(["energy"], [(old, new)]) == {"joules": ((2, 5), (3, 4))}
    assert taken == ["old", "old", "new", "new", "old"]  # the first until the power is that of these launches


def test_what_nvml_does_not_count_is_an_objection(clocks: list[Clock], monkeypatch: pytest.MonkeyPatch) -> None:
    for has_gpu_clock, words in ((True, "NVML does not count the energy of X"), (False, "X is not a GPU")):
        info = SimpleNamespace(name="X", has_gpu_clock=has_gpu_clock)
        monkeypatch.setattr(energy, "gpu", lambda info=info: SimpleNamespace(info=info))
        assert observers.objection(["energy"]).startswith(words)
        assert observers.objection([]) == ""


class Recorder:
    """A device that writes down what it is asked for; a launch takes ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.log = seconds, list[str]()

    def finish(self) -> None:
        self.log.append("finish")

    def time(self, start: Any) -> float:
        return self.seconds

    @contextmanager
    def graph(self, starts: list[Any]) -> Iterator[Any]:
        self.log.append(f"graph of {len(starts)}")
        yield lambda: self.log.append("graph")
        self.log.append("graph ends")  # what is queued has ended then

    def end_of_queue(self) -> Any:
        return lambda: True


@pytest.mark.parametrize(
    ("is_call", "seconds", "launches", "queued"),
    [
        (False, BATCH_SECONDS / 9, 10, ["graph of 10", "graph"]),
        (False, BATCH_SECONDS / 2499, 3000, ["graph of 1000", *["graph"] * 3]),
        (True, BATCH_SECONDS / 9, 10, ["start"] * 10),
    ],
)
def test_a_batch_is_a_graph_unless_it_is_of_a_call(
    is_call: bool, seconds: float, launches: int, queued: list[str]
) -> None:
    device = Recorder(seconds)
    case = SimpleNamespace(variant=SimpleNamespace(call="a call" if is_call else None))
    copies = [SimpleNamespace(start=lambda: device.log.append("start"), case=case)] * 2
    with batch_of(cast("Device", device), cast("list[Loaded]", copies)) as (queue, count):
        assert count == launches
        queue()
    assert device.log == ["start", "start", "finish", *queued, "finish", *["graph ends"] * (not is_call)]


# Energy, on a GPU that is played: its power, its counter and its launches


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


EnergyOf: TypeAlias = Callable[[Gpu, float], LaunchEnergy]


@pytest.fixture
def energy_of(monkeypatch: pytest.MonkeyPatch) -> EnergyOf:
    """Measure on a played GPU; returns joules of a launch, and watts."""

    def measured(gpu: Gpu, seconds: float) -> LaunchEnergy:
        monkeypatch.setattr("warpwatch.timing.observers.energy.time.sleep", gpu.sleep)
        return measure(gpu.queue, gpu.launches, gpu.joules, seconds=seconds, patience=5.0, now=lambda: gpu.now)

    return measured


@pytest.mark.parametrize("launch", [2e-4, 2e-3, 0.03])
@pytest.mark.parametrize("period", [0.02, 0.1])
def test_the_energy_is_power_times_time(energy_of: EnergyOf, launch: float, period: float) -> None:
    gpu = Gpu(launch=launch, period=period)
    joules, watts = energy_of(gpu, 1.0)
    assert watts == pytest.approx(500.0, rel=0.004)  # the idle time before is no part of it
    assert joules == pytest.approx(500.0 * launch, rel=0.006)
    assert gpu.now - 100.0 > 1.3


def test_the_counter_is_asked_where_a_step_may_come(energy_of: EnergyOf) -> None:
    gpu = Gpu(cost=0.0001)
    energy_of(gpu, 1.0)
    assert len(gpu.looks) < 0.3 * 1.5 / 0.0006  # of the looks that one after the other would be


def test_a_counter_that_stands_still_is_an_error(energy_of: EnergyOf) -> None:
    with pytest.raises(DeviceError, match="counter of energy did not advance within 2 s"):
        energy_of(Gpu(watts=0.0, idle=0.0), 1.0)


def test_launches_that_do_not_end_are_an_error(energy_of: EnergyOf) -> None:
    with pytest.raises(DeviceError, match="did not end within 5 s"):
        energy_of(Gpu(launch=1e9), 1.0)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("matmul-naive-8x8-128x128x128-float32", ""),
        ("matmul-serial-host-128x128x128-float32", "it runs on the host"),
        ("hello-hello-5x5-4-none", "its launches print"),
        ("scale-two_steps-steps-1000-float32", ""),
        ("add-atomic-64-1000-int32", "a launch changes what the next one begins with"),
        ("count-words-4-4x128-int32", "a launch changes what the next one begins with"),  # a counter begins at 0
    ],
)
def test_which_cases_have_an_energy(case: str, reason: str) -> None:
    assert Energy().leaves_out(find_case((*FAMILIES, *own.FAMILIES), case)) == reason
