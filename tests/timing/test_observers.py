"""Tests of the registry of observers: what each records, and who is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.gpu import Device
from warpwatch.devices.runner import Loaded
from warpwatch.timing import nvml, observers
from warpwatch.timing.nvml import Clock
from warpwatch.timing.observers import energy
from warpwatch.timing.observers.energy import BATCH_SECONDS, LaunchEnergy, batch_of

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
    assert {"sm_clock_mhz", "throttle", "other_processes", "overhead", "joules", "watts"} == set(facts)


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
    with batch_of(cast("Device", device), cast("list[Loaded]", copies)) as batch:
        assert batch.launches == launches
        batch.queue()
    assert device.log == ["start", "start", "finish", *queued, "finish", *["graph ends"] * (not is_call)]
