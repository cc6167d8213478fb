"""Runs kernels with nvcuda::wmma on the software device: products of one warp, and of a block with tiles."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

Matrix = np.ndarray[Any, Any]
SOURCE = ROOT / "tests/softcuda/wmma.cu"
NAMES = re.findall(r"^PRODUCT\((\w+), .*, (\d+), (\d+), (\d+), (\w+), (\w+)\)", SOURCE.read_text(), re.MULTILINE)
TYPES = {
    "half": np.float16, "bfloat16": ml_dtypes.bfloat16, "tf32": np.float32, "double": np.float64, "float": np.float32,
    "int8": np.int8, "uint8": np.uint8, "int32": np.int32,
}  # fmt: skip


def in_memory(values: Matrix, layout: str, more: int) -> Matrix:
    """Lines of a matrix, each with ``more`` elements behind it."""
    lines = values if layout == "row" else values.T
    return np.pad(lines, ((0, 0), (0, more)), constant_values=77)


def run(checked: Device, name: str, arrays: list[Matrix], size: int, kind: Any) -> Matrix:
    given = [np.ascontiguousarray(each) for each in arrays]
    return checked.computed(checked.unchecked.image(SOURCE), name, given, size, kind)


@pytest.mark.parametrize(("types", "m", "n", "k", "layout_a", "layout_b"), NAMES)
def test_a_product_of_a_warp(checked: Device, types: str, m: str, n: str, k: str, layout_a: str, layout_b: str) -> None:
    """Exactly, with whole numbers so small that no sum is rounded."""
    rng = np.random.default_rng(2)
    kind, sums = (TYPES[each] for each in types.split("_"))
    rows, columns, depth = int(m), int(n), int(k)
    low, high = (0, 200) if kind == np.uint8 else (-100, 100) if kind == np.int8 else (-4, 5)
    a, b = rng.integers(low, high, (rows, depth)), rng.integers(low, high, (depth, columns))
    c = rng.integers(-50, 50, (rows, columns))
    more = 64 // np.dtype(kind).itemsize
    arrays = [in_memory(a, layout_a, more).astype(kind), in_memory(b, layout_b, more).astype(kind)]
    arrays.append(in_memory(c, layout_a, 0).astype(sums))
    name = f"{types}_{m}x{n}_{layout_a}_{layout_b}"
    left = run(checked, name, arrays, c.size * np.dtype(sums).itemsize, sums)
    got = left.reshape(rows, columns) if layout_a == "row" else left.reshape(columns, rows).T
    assert (got.astype(np.float64) == a @ b + 2 * c).all()


def test_saturation_and_rounding_to_tf32(checked: Device) -> None:
    left = run(checked, "stays_in_range", [], 1024, np.int32)
    assert (left == 2**31 - 1).all()
    values = np.linspace(1, 2, 30, dtype=np.float32)
    values = np.concatenate([values, np.array([1 + 2.0**-11, np.inf], np.float32)]) * np.float32(-1)
    wanted = np.sign(values) * np.floor(np.abs(values) * 1024 + 0.5) / 1024  # to nearest, away from zero in the middle
    assert (run(checked, "to_tf32", [values], 128, np.float32) == wanted).all()


def test_sums_of_one_type_are_added_to_those_of_another(checked: Device) -> None:
    left = run(checked, "mixed", [], 512, np.float16)
    assert (left == np.arange(256) + 64).all()


def matmul(device: Device, macros: dict[str, str], name: str) -> list[bytes | str]:
    """What two warps leave of C in each order, or what is said of them."""
    image = device.image(ROOT / "tests/softcuda/tensor_matmul.cu", macros)
    return device.in_orders(calls.run_on_arrays, image, name, [*operands()], 4096, None, 64)


def operands() -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(32, 64)).astype(np.float16), rng.normal(size=(64, 32)).astype(np.float16)


@pytest.mark.parametrize("name", ["by_wmma", "by_ptx"])
def test_a_tile_kernel_on_tensor_cores(either: Device, name: str) -> None:
    """Within what rounding to float32 after each of four steps can change."""
    a, b = (each.astype(np.float64) for each in operands())
    for left in matmul(either, {}, name):
        assert isinstance(left, bytes), left
        got = np.frombuffer(left, np.float32).reshape(32, 32)
        assert (abs(got - a @ b) <= 4 * 2.0**-24 * (abs(a) @ abs(b))).all()


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("name", ["by_wmma", "by_ptx"])
@pytest.mark.parametrize("barrier", ["FIRST", "SECOND"])
def test_a_missing_barrier_of_a_tile_kernel_is_found(checked: Device, name: str, barrier: str) -> None:
    for said in map(str, matmul(checked, {barrier: "((void)0)"}, name)):
        assert re.search(rf"softcuda: (?:race|uninitialised memory) in {name}\n.*tensor_matmul\.cu:\d+: ", said), said
