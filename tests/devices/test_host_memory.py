"""Tests that a case which takes more memory than the host has is refused before anything is allocated."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.selection import builds
from warpwatch.cli import run
from warpwatch.devices import host_memory
from warpwatch.devices.host import Host
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import Settings
from warpwatch.devices.references import expected
from warpwatch.devices.worker import Worker
from warpwatch.plugin import fixtures
from warpwatch.timing.inputs import Shared

CASE = find_case(FAMILIES, "matmul-serial-host-300x200x100-float64")
MEMINFO = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    9000 kB\n"
KB = 1024


def files(root: Path, texts: dict[str, str]) -> Path:
    for name, text in ({"proc/meminfo": MEMINFO} | texts).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_what_the_cache_of_files_holds_counts_as_available(tmp_path: Path) -> None:
    assert host_memory.available(files(tmp_path, {})) == 9000 * KB
    assert host_memory.available() > 0


def test_a_limit_of_a_control_group_counts_wherever_it_is_set(tmp_path: Path) -> None:
    two = "sys/fs/cgroup/a"
    texts = {
        "proc/self/cgroup": "0::/a/b\n",
        f"{two}/b/memory.max": "max\n",
        f"{two}/memory.max": f"{5000 * KB}\n",
        f"{two}/memory.current": f"{3000 * KB}\n",
        f"{two}/memory.stat": f"anon 7\ninactive_file {1000 * KB}\n",
    }
    assert host_memory.available(files(tmp_path / "two", texts)) == 3000 * KB
    one = "sys/fs/cgroup/memory/job"
    texts = {
        "proc/self/cgroup": "5:cpu:/\n4:memory:/job\n0::/\n",
        f"{one}/memory.limit_in_bytes": f"{4000 * KB}\n",
        f"{one}/memory.usage_in_bytes": f"{1500 * KB}\n",
    }
    assert host_memory.available(files(tmp_path / "one", texts)) == 2500 * KB
    texts = {"proc/self/cgroup": "0::/elsewhere\n", "sys/fs/cgroup/memory.max": "512\n"}  # as in a container
    assert host_memory.available(files(tmp_path / "container", texts)) == 512


def refusals() -> dict[str, Any]:
    """All ways to run a case that draw inputs."""
    kernel = Kernel(Worker(PROJECT), CASE.build, None)  # type: ignore[arg-type]
    return {
        "correctness": lambda: fixtures.assert_right(kernel, CASE, "again", exact=True),
        "bench": lambda: Shared.upload(Host(), CASE, reference=True),
        "by hand": lambda: run.run_case(CASE, seed=1, print_arrays=False, settings=Settings()),
    }


@pytest.mark.parametrize("way", refusals())
def test_a_case_that_host_memory_cannot_hold_is_refused_before_it_is_drawn(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The arrays alone would fit, but not the reference in float64 and the copies."""
    monkeypatch.setattr(host_memory, "available", lambda: CASE.array_bytes + 1000)
    monkeypatch.setattr(np, "empty", None)
    with pytest.raises(DeviceError) as caught:
        refusals()[way]()
    assert str(caught.value).startswith(f"{CASE.id} needs about ")
    assert f"{CASE.array_bytes + 1000:,} are available" in str(caught.value)


SHAPES = {"matmul": (600, 500, 400), "conv2d": (500, 400, 3), "separable": (500, 400, 3), "matvec": (700, 600)}
CASES = [
    Case(build, SHAPES[build.family.name])
    for build in {(b.family.name, b.dtype): b for b in builds(FAMILIES) if b.family.name in SHAPES}.values()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_estimate_is_no_less_than_what_a_reference_takes(case: Case) -> None:
    expected(case, random_inputs(case, 1))  # the first reference of a process imports what it needs
    tracemalloc.start()
    try:
        _result = expected(case, random_inputs(case, 1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= host_memory.peak_bytes(case, copies=0) + 2**20
