"""Tests that others' work on the GPU is seen, by an imitation of NVML."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from warpwatch.timing.nvml import Clock, at_work

STRANGER = 1  # the first process of a machine is no child of this one's parent


class NVMLError(Exception):
    """What the vendor's binding raises."""


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


def test_others_disturb_as_a_throttled_clock_does() -> None:
    assert Clock(1980, (), ("train (process 1)",)).is_disturbed
    assert Clock(1980, ("software power cap",)).is_disturbed
    assert not Clock(1980, ()).is_disturbed
