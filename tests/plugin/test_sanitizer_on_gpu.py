"""Tests ``--sanitizer`` with NVIDIA's own tools, on kernels that are right and have a fault that one of them finds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.stranger import run_pytest
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.opening import NoDevice
from warpwatch.devices.sanitizer import find_program

KERNELS = """extern "C" __global__ void bounds(float* x, int n)
{
    const float past = x[n + 16];  // found by memcheck
    if (threadIdx.x < n)
        x[threadIdx.x] = past == 123.0f ? 9 : 8;
}

extern "C" __global__ void race(float* x, int n)
{
    __shared__ float all[64];
    all[threadIdx.x] = 8;
    if (threadIdx.x < n)
        x[threadIdx.x] = all[63 - threadIdx.x];  // found by racecheck
}

extern "C" __global__ void unset(float* x, int n)
{
    if (threadIdx.x < n)
        x[threadIdx.x] = x[threadIdx.x] == 123.0f ? 9 : 8;  // found by initcheck
}

extern "C" __global__ void barrier(float* x, int n)
{
    __shared__ float all[64];
    all[threadIdx.x] = 8;
    if (threadIdx.x < 32) {
        __syncthreads();  // found by synccheck
        if (threadIdx.x < n)
            x[threadIdx.x] = all[63 - threadIdx.x];
    } else {
        all[threadIdx.x] += 0;
        __syncthreads();  // found by synccheck
        if (threadIdx.x < n)
            x[threadIdx.x] = all[63 - threadIdx.x];
    }
}

extern "C" __global__ void good(float* x, int n)
{
    __shared__ float all[64];
    all[threadIdx.x] = 8;
    __syncthreads();
    if (threadIdx.x < n)
        x[threadIdx.x] = all[63 - threadIdx.x];
}
"""
DECLARED = """
import numpy as np
import warpwatch as ww

FAMILIES = [
    ww.Family(
        name,
        sizes=("n",),
        arrays=lambda n: {"x": ww.Out(n, "float32")},
        reference=lambda n: np.full(n, 8.0),
        tests=((50,), (64,)),
        variants=(ww.kernel("k", source="k.cu", entry=name, configurations=(64,), grid=1, arguments="x n"),),
    )
    for name in ("bounds", "race", "unset", "barrier", "good")
]
"""
TEST = "import pytest\n\n@pytest.mark.cases('tested')\ndef test_one(check):\n    check()\n"
TOOLS = {"memcheck": "bounds", "racecheck": "race", "initcheck": "unset", "synccheck": "barrier"}


@pytest.mark.slow
def test_each_tool_finds_its_fault_by_line_and_nothing_in_a_good_kernel(tmp_path: Path, device: DeviceInfo) -> None:
    if not device.has_gpu_clock:
        pytest.skip("needs a GPU, which compute-sanitizer is for: run it where there is one, with --device=gpu")
    try:
        find_program()
    except NoDevice as missing:
        pytest.skip(str(missing))
    (tmp_path / "perf").mkdir()
    (tmp_path / "perf" / "__init__.py").write_text(DECLARED)
    (tmp_path / "perf" / "k.cu").write_text(KERNELS)
    (tmp_path / "test_one.py").write_text(TEST)
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')
    done = run_pytest(tmp_path, "--device=gpu", f"--sanitizer={','.join(TOOLS)}", "--json=out.json")
    print(done.stdout, done.stderr)
    assert done.returncode == 1
    lines = KERNELS.splitlines()
    cases = {case["id"]: case for case in json.loads((tmp_path / "out.json").read_text())["cases"]}
    for tool, kernel in TOOLS.items():
        for size in (50, 64):
            faults = cases[f"{kernel}-k-64-{size}-float32"]["faults"]
            places = [place for fault in faults for place in (fault["place"], *fault.get("others", ()))]
            assert any(f"found by {tool}" in lines[place["line"] - 1] for place in places), (tool, faults)
    named = set(re.findall(r"^compute-sanitizer (\w+): .* in (\w+)$", done.stdout, re.MULTILINE))
    assert named == set(TOOLS.items())
    assert all(cases[f"good-k-64-{size}-float32"]["outcome"] == "passed" for size in (50, 64))
