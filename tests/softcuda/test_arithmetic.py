"""Arithmetic of the software device, held against the table of tools/arithmetic_table.py, and its switches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.arithmetic.operations import OPERATIONS, computed, documented, same, source
from tests.softcuda.device import Device
from warpwatch.devices.compile.compiler import compile_text
from warpwatch.devices.worker import gpu

TABLE = json.loads((ROOT / "tests/softcuda/arithmetic/table.json").read_text())
RESULTS = {row["operation"]: [int(word, 16) for word in row["results"]] for row in TABLE["operations"]}


def computed_here(image: Path, numbers: list[int]) -> list[list[int]]:
    return computed(gpu(), image, [OPERATIONS[number] for number in numbers])


def differences(device: Device, numbers: list[int], text: str = "") -> list[str]:
    """What is wrong with the results of operations, or of the text that stands for them."""
    operations = [OPERATIONS[number] for number in numbers]
    image = compile_text(text or source(operations), "arithmetic.cu", device.target)
    return [
        f"{operation.name}: {row} gives {got:#x} and not {wanted:#x}"
        for operation, words in zip(operations, device.worker.call(computed_here, image.path, numbers), strict=True)
        for row, got, wanted in zip(operation.values, words, RESULTS[operation.name], strict=True)
        if not same(got, wanted, operation.result)
    ]


def test_the_table_has_every_operation_and_agrees_with_the_documents() -> None:
    assert [operation.name for operation in OPERATIONS] == list(RESULTS)
    assert sum(map(len, RESULTS.values())) >= 300
    wrong = [
        (operation.name, row)
        for operation in OPERATIONS
        for row, got, wanted in zip(operation.values, RESULTS[operation.name], documented(operation), strict=True)
        if not same(got, wanted, operation.result)
    ]
    assert wrong == []


def test_all_results_are_those_of_the_table(checked: Device) -> None:
    assert differences(checked.unchecked, list(range(len(OPERATIONS)))) == []


@pytest.mark.slow
def test_the_checks_change_no_result(checked: Device) -> None:
    defined = [number for number, each in enumerate(OPERATIONS) if each.code[:4] not in ("a <<", "a >>")]
    assert differences(checked, defined) == []


def test_a_wrong_result_is_found(checked: Device) -> None:
    wrong = replace(OPERATIONS[0], code=f"({OPERATIONS[0].code}) + 1")
    assert len(differences(checked.unchecked, [0], source([wrong]))) == len(wrong.values)


SHIFTS = """
extern "C" __global__ void shifted(unsigned* out) { out[threadIdx.x] = 1u << threadIdx.x + 1; }
extern "C" __global__ void negative(int* out) { out[threadIdx.x] = 256 >> (int)(threadIdx.x - 1); }
extern "C" __global__ void tested(unsigned* out)
{
    out[threadIdx.x] = threadIdx.x < 31 ? 1u << threadIdx.x + 1 : 0;
}
extern "C" __global__ void clamped(unsigned* out) { out[threadIdx.x] = __funnelshift_lc(0, 1, threadIdx.x + 1); }
"""


def test_a_shift_by_the_width_is_a_finding(checked: Device) -> None:
    image = checked.image(SHIFTS)
    said = {entry: checked.said(image, entry, 128) for entry in ("shifted", "negative", "tested", "clamped")}
    assert said["shifted"].endswith(
        "softcuda: undefined shift in shifted\n  kernel.cu:2: thread (31, 0) of block (0, 0) shifts unsigned int of 32 "
        "bits by 32, which C++ leaves undefined: a count must be less than 32 (a GPU shifts everything out, and a "
        "compiler may assume that it does not happen)"
    )
    assert "kernel.cu:3: thread (0, 0) of block (0, 0) shifts int of 32 bits by -1" in said["negative"]
    assert said["tested"] == said["clamped"] == ""


MODES = """
extern "C" __global__ void product(const float* x, float* y, int n) { *y = x[0] * x[1] + x[2]; }
"""


@pytest.mark.parametrize(
    ("flag", "x", "y"),
    [
        ("-fmad=true", [1 + 2**-12, 1 + 2**-12, -1], 2**-11 + 2**-24),
        ("-fmad=false", [1 + 2**-12, 1 + 2**-12, -1], 2**-11),
        ("-ftz=false", [2**-100, 2**-40, 0], 2.0**-140),
        ("-ftz=true", [2**-100, 2**-40, 0], 0),
        ("-use_fast_math", [2**-140, 2**13, 0], 0),
    ],
)
def test_contraction_and_denormals_are_as_nvcc_is_told(checked: Device, flag: str, x: list[float], y: float) -> None:
    image = compile_text(MODES, "modes.cu", checked.unchecked.target, (flag,))
    left = checked.worker.call(calls.run_on_arrays, image.path, "product", [np.array(x, np.float32)], 4, 1)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32) == np.float32(y)
