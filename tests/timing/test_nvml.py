"""Tests of what NVML is asked, by imitations of it: clocks, settings of the GPU, and others' work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from warpwatch.timing import nvml
from warpwatch.timing.nvml import POWER_CAP, Clock, Clocks, at_work, host_remarks, remarks

STRANGER = 1  # the first process of a machine is no child of this one's parent


class NVMLError(Exception):
    """What the vendor's binding raises."""


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


# Settings


class SetUp:
    """An imitation of NVML; ``settings`` are the answers to its questions, by name."""

    NVMLError = NVMLError
    QUIET: dict[str, Any] = {  # noqa: RUF012  # never changed
        "IsMigDeviceHandle": False,
        "GetMigMode": [0, 0],
        "GetMPSComputeRunningProcesses": [],
        "GetPersistenceMode": 1,
        "GetEccMode": [1, 1],
        "GetApplicationsClock": 1980,
        "GetDefaultApplicationsClock": 1980,
        "GetDisplayActive": 0,
    }
    NVML_CLOCK_SM = 1

    def __init__(self, **settings: Any) -> None:
        self.settings = self.QUIET | settings

    def __getattr__(self, name: str) -> Any:
        answer = self.settings[name.removeprefix("nvmlDevice")]

        def tell(handle: object, *which: int) -> Any:
            if isinstance(answer, type):
                raise answer
            return answer

        return tell


def test_a_gpu_set_up_for_times_has_no_remarks() -> None:
    assert remarks(SetUp(), None) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"IsMigDeviceHandle": True}, "this is a slice of a GPU (MIG)"),
        ({"GetMigMode": [1, 1]}, "divided into slices (MIG)"),
        ({"GetMPSComputeRunningProcesses": [1]}, "through MPS"),
        ({"GetPersistenceMode": 0}, "persistence mode is off"),
        ({"GetEccMode": [0, 0]}, "ECC is off"),
        ({"GetApplicationsClock": 1200}, "application clocks are not the default ones"),
        ({"GetDisplayActive": 1}, "a display is attached"),
    ],
)
def test_what_matters_is_one_sentence(settings: dict[str, Any], said: str) -> None:
    (sentence,) = remarks(SetUp(**settings), None)
    assert said in sentence


@pytest.mark.parametrize("name", sorted(SetUp.QUIET))
@pytest.mark.parametrize("error", [NVMLError, AttributeError])
def test_what_is_not_told_hides_nothing_else(name: str, error: type[Exception]) -> None:
    settings: dict[str, Any] = {"GetDisplayActive": 1, "GetPersistenceMode": 0, name: error}
    found = remarks(SetUp(**settings), None)
    assert len(found) == 2 - (name in ("GetDisplayActive", "GetPersistenceMode"))


def test_a_busy_host_is_told() -> None:
    assert host_remarks(8.0, 8) == []
    (sentence,) = host_remarks(8.4, 8)
    assert "load 8.4 on 8 cores" in sentence


# Others' work


@dataclass(kw_only=True)
class Nvml:
    """An imitation of NVML. ``shares``: of the GPU's time, by process; None where it measures none."""

    listed: tuple[int, ...]
    shares: dict[int, int] | None = field(default_factory=dict)
    name: str | bytes = b"/usr/bin/train --epochs 9"
    NVMLError = NVMLError

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=1) for pid in self.listed]

    def nvmlDeviceGetProcessUtilization(self, handle: object, since: int) -> list[SimpleNamespace]:  # noqa: N802
        if self.shares is None:
            raise NVMLError
        return [SimpleNamespace(pid=pid, smUtil=share, timeStamp=since + 1) for pid, share in self.shares.items()]

    def nvmlSystemGetProcessName(self, pid: int) -> str | bytes:  # noqa: N802
        if not self.name:
            raise NVMLError
        return self.name


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """The numbers of a process and of its child."""
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        yield parent.pid, int(parent.stdout.readline())
        parent.kill()


@pytest.mark.parametrize(
    ("shares", "seen"),
    [
        ({STRANGER: 40}, True),
        ({STRANGER: 0}, False),  # it holds memory and computes nothing
        ({}, True),  # nothing was measured of it yet
        (None, True),
        ({os.getpid(): 90}, True),
    ],
)
def test_another_process_is_seen_unless_it_is_idle(shares: dict[int, int] | None, seen: bool) -> None:
    nvml = Nvml(listed=(STRANGER, os.getpid()), shares=shares)
    assert at_work(nvml, None) == (("train (process 1)",) if seen else ())


def test_a_run_alone_sees_nobody() -> None:
    assert at_work(Nvml(listed=(os.getpid(),), shares={os.getpid(): 90}), None) == ()
    assert at_work(Nvml(listed=()), None) == ()


def test_the_other_side_of_a_call_is_of_this_run(monkeypatch: pytest.MonkeyPatch, family: tuple[int, int]) -> None:
    parent, sibling = family
    nvml = Nvml(listed=(os.getpid(), sibling), shares={sibling: 50})
    assert at_work(nvml, None) == (f"train (process {sibling})",)
    monkeypatch.setattr(os, "getppid", lambda: parent)
    assert at_work(nvml, None) == ()


def test_numbers_of_another_namespace_tell_nothing() -> None:
    assert at_work(Nvml(listed=(STRANGER, 4_000_000), shares={STRANGER: 50}), None) == ()


@pytest.mark.parametrize("name", ["", b"", b"\xff\xfe"])
def test_a_process_without_a_name_is_told_by_its_number(name: str | bytes) -> None:
    (said,) = at_work(Nvml(listed=(os.getpid(), STRANGER), shares=None, name=name), None)
    assert said.endswith("(process 1)")
    assert said.split(" (")[0]


def test_others_are_asked_for_four_times_a_second(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, seen, told = Clocks(""), list[float](), list[tuple[str, ...]]()

    def at_work(*_: object) -> tuple[str, ...]:
        seen.append(now[0])
        return (f"train at {now[0]}",)

    monkeypatch.setattr(nvml, "at_work", at_work)
    monkeypatch.setattr(clocks, "_nvml", SetUp(GetClockInfo=1980, GetCurrentClocksEventReasons=0))
    monkeypatch.setattr(clocks, "_handle", None, raising=False)
    for _ in range(9):
        told.append(clocks.read().others)
        now[0] += 0.1
    assert seen == pytest.approx([0.0, 0.3, 0.6])
    assert told[:4] == [("train at 0.0",)] * 3 + [(f"train at {seen[1]}",)]


def test_others_disturb_as_a_throttled_clock_does() -> None:
    assert Clock(1980, (), ("train (process 1)",)).is_disturbed
    assert Clock(1980, ("software power cap",)).is_disturbed
    assert not Clock(1980, ()).is_disturbed
