"""Tests how the wait is found that slows a kernel by a wanted share, on an imitation of a GPU without noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpwatch.timing import side_by_side
from warpwatch.timing.delayed import VARIABLES, write_delayed
from warpwatch.timing.side_by_side import Delay, Plan

CLOCK, SECONDS = 1e9, 1e-3  # of the imitated GPU, and of the kernel that does not wait


@dataclass
class Gpu:
    """A GPU on which a kernel that waits takes ``share`` of the wait longer: the rest is hidden behind its own work."""

    share: float
    waits: dict[str, int] = field(default_factory=dict)  # in cycles, by side
    info: Any = field(default_factory=lambda: SimpleNamespace(multiprocessors=4, clock_hz=CLOCK, has_gpu_clock=True))

    def resident_blocks(self, function: str, launch: object) -> int:
        return 2

    def set_variable(self, function: str, name: str, value: Any) -> None:
        if name == VARIABLES[0]:
            self.waits[function] = int(value)
        else:
            assert int(value) == 8  # blocks that are resident at once

    def take(self, pairs: object, plan: Plan) -> Any:
        slowdown = self.share * self.waits["new"] / CLOCK / SECONDS
        return SimpleNamespace(old=(SECONDS,) * 5, log=math.log1p(slowdown))


@pytest.mark.parametrize("share", [0.15, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("wanted", [0.01, 0.1, 1.0])
def test_the_wait_that_is_found_slows_as_much_as_is_wanted(
    monkeypatch: pytest.MonkeyPatch, wanted: float, share: float
) -> None:
    gpu = Gpu(share)
    monkeypatch.setattr(side_by_side, "gpu", lambda: gpu)
    monkeypatch.setattr(side_by_side, "_take", gpu.take)
    old, new = (SimpleNamespace(function=name, case=SimpleNamespace(launch=None)) for name in ("old", "new"))
    plan = Plan(kind="warm", swap=False, check=False, seconds=0.1, warm_up=0.1)
    cycles = side_by_side._delay([(old, new)], plan, Delay(wanted))  # type: ignore[list-item]
    assert gpu.waits == {"old": 0, "new": cycles}
    assert math.expm1(gpu.take(None, plan).log) == pytest.approx(wanted, rel=0.01)
    known = Delay(wanted, 12_345)
    assert side_by_side._delay([(old, new)], plan, known) == gpu.waits["new"] == 12_345  # type: ignore[list-item]


def test_a_source_that_is_not_utf_8_is_delayed_as_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "kernel.cu"
    source.write_bytes(b"// gr\xf6\xdfe\n__global__ void kernel() {}\n")
    for _ in range(2):
        assert b"// gr\xf6\xdfe\n" in write_delayed(source).read_bytes()
