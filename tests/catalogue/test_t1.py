"""Tests the import of T1 files: what a family has of them, and what pages show."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from tests.catalogue.t1_files import REVERSED, WEIGHTED, WEIGHTED_CU, cases, changed, import_file, weighted
from tests.project import ROOT
from warpwatch.catalogue.arrays import Array, Role
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.importers.t1 import from_t1
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.validation import problems


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Family]:
    return functools.partial(import_file, tmp_path)


def test_a_file_of_kernel_tuner_becomes_a_family(imported: Callable[..., Family]) -> None:
    family = imported(tolerance=ww.relative(1e-6))
    (case,) = cases(family)
    assert case.id == "weighted_sums-weighted-64-1000-float32"
    assert (case.launch.grid, case.launch.block, case.launch.shared_bytes) == ((16, 1, 1), (64, 1, 1), 0)
    macros = {"block_size_x": "64", "tile_size_x": "1", "fused": "1", "kernel_tuner": "1"}
    assert case.build.macros == macros | {"block_size_y": "1", "block_size_z": "1"}
    assert case.entry == "weighted"
    assert case.build.source.read_text() == WEIGHTED_CU
    assert case.variant.flags == ("--use_fast_math",)  # C++17 has what C++11 has
    assert case.variant.symbols == {"weights": "weights"}
    roles = [(array.name, array.role, array.shape, array.dtype) for array in case.arrays]
    assert roles == [
        ("y", Role.OUT, (1000,), "float32"),
        ("x", Role.IN, (1001,), "float32"),
        ("weights", Role.IN, (2,), "float32"),
    ]
    passed = case.arguments(case.steps[0], {"y": 512, "x": 1024, "weights": 2048})
    assert passed == (np.uint64(512), np.uint64(1024), np.float32(1.5), np.int32(1000))
    assert [type(each) for each in passed] == [np.uint64, np.uint64, np.float32, np.int32]


def test_inputs_are_filled_as_the_file_says(imported: Callable[..., Family]) -> None:
    (case,) = cases(imported())
    inputs = random_inputs(case, 1)
    assert inputs["weights"].tolist() == [0.25, 0.25]
    assert 1.9 < inputs["x"].max() < 2
    assert 0 <= inputs["x"].min() < 0.1
    assert case.arrays[0].initial == 0
    (other,) = cases(imported(draw=lambda rng, problem_x: {"x": np.full(problem_x + 1, 7)}))
    assert random_inputs(other, 1)["x"].tolist() == [7] * 1001
    (whole,) = cases(imported(REVERSED, lambda state: state))
    assert np.unique(random_inputs(whole, 1)["state"]).tolist() == [*range(10)]


def test_shapes_are_problem_sizes(imported: Callable[..., Family]) -> None:
    one, two = cases(imported(tests=((65,), (1,))))
    assert (one.launch.grid, two.launch.grid) == ((2, 1, 1), (1, 1, 1))
    assert [array.shape for array in one.arrays] == [(65,), (66,), (2,)]
    assert one.family.benchmarks == ((1000,),)


def test_a_file_with_a_global_size_becomes_a_family(imported: Callable[..., Family]) -> None:
    family = imported(REVERSED, lambda state: state, name="parts")
    (case,) = cases(family)
    assert case.id == "parts-reversed_parts-64-1024-int32"
    assert (case.launch.grid, case.launch.shared_bytes) == ((16, 1, 1), 256)
    assert case.entry == "reversed_parts<int>"
    assert case.build.macros == {"BLOCK": "64"}
    assert [(array.role, array.shape) for array in case.arrays] == [(Role.IN_OUT, (1024,))]
    blocks = changed(REVERSED, "KernelSpecification GlobalSizeType", "CUDA")
    assert cases(imported(blocks, lambda state: state))[0].launch.grid == (1024, 1, 1)


def test_configurations_are_chosen_by_the_caller(imported: Callable[..., Family]) -> None:
    given: list[dict[str, Any]] = [{}, {"tile_size_x": 2}, {"block_size_x": 16, "fused": False, "name": "small"}]
    labels = {case.build.block_name: case.launch.grid[0] for case in cases(imported(configurations=given))}
    assert labels == {"64": 16, "64_tile_size_x2": 8, "small": 63}


def test_some_configurations_are_the_same_in_each_run_and_satisfy_the_conditions(
    imported: Callable[..., Family],
) -> None:
    five, again, every = ([case.build.macros for case in cases(imported(configurations=n))] for n in (5, 5, 1000))
    assert five == again
    assert len(five) == 5
    assert five[0]["block_size_x"] == "64"
    assert len(every) == 19  # of 24: 5 of tile size 3 or of more than 256 elements are not allowed
    assert all(int(c["block_size_x"]) * int(c["tile_size_x"]) <= 256 for c in every)
    assert not any(c["tile_size_x"] == "3" and c["fused"] == "0" for c in every)


def test_defaults_that_break_a_condition_are_not_taken(imported: Callable[..., Family]) -> None:
    broken = changed(WEIGHTED, "ConfigurationSpace TuningParameters 2 Values", "[False]")
    broken = changed(broken, "ConfigurationSpace TuningParameters 1 Default", 3)
    (case,) = cases(imported(broken))
    assert case.build.macros["tile_size_x"] in ("1", "2")


def test_a_default_that_is_none_of_the_values_is_not_taken(imported: Callable[..., Family]) -> None:
    (case,) = cases(imported(changed(WEIGHTED, "ConfigurationSpace TuningParameters 1 Default", 4)))
    assert case.build.macros["tile_size_x"] == "1"


def test_constant_memory_of_kernel_tuner_is_an_argument_too(imported: Callable[..., Family]) -> None:
    constant = changed(WEIGHTED, "KernelSpecification Arguments 4 MemoryType", "Vector")
    constant = changed(constant, "KernelSpecification Arguments 4 AccessType", "ReadOnly")
    constant = changed(constant, "KernelSpecification Arguments 4 MemType", "Constant")
    (case,) = cases(imported(constant))
    assert case.variant.symbols == {"weights": "weights"}
    assert case.arguments(case.steps[0], {"y": 512, "x": 1024, "weights": 2048})[-1] == 2048


def test_a_long_name_of_a_configuration_is_cut(imported: Callable[..., Family]) -> None:
    names = [f"parameter_with_a_long_name_{i}" for i in range(4)]
    many = deepcopy(WEIGHTED)
    many["ConfigurationSpace"]["TuningParameters"] += [
        {"Name": name, "Type": "int", "Values": "[1, 2]"} for name in names
    ]
    given = [dict.fromkeys(names, 2), {names[0]: 2}]
    first, second = (case.build.block_name for case in cases(imported(many, configurations=given)))
    assert len(first) == len("64_") + 8
    assert second == f"64_{names[0]}2"


def test_vector_types_have_a_second_axis(imported: Callable[..., Family]) -> None:
    pairs = changed(WEIGHTED, "KernelSpecification Arguments 1 Type", "float4")
    (case,) = cases(imported(pairs, lambda x: x[:1000, 0]))
    assert (case.arrays[1].shape, case.arrays[1].dtype, case.arrays[1].aligned) == ((1001, 4), "float32", 16)


def test_a_value_that_memory_cannot_be_filled_with_is_an_input(imported: Callable[..., Family]) -> None:
    tenth = changed(WEIGHTED, "KernelSpecification Arguments 0 FillValue", 0.1)
    tenth = changed(tenth, "KernelSpecification Arguments 0 Type", "double")
    (case,) = cases(imported(tenth))
    assert case.arrays[0].role is Role.IN_OUT
    assert random_inputs(case, 1)["y"].tolist() == [0.1] * 1000


def test_members_of_arguments_can_be_changed(imported: Callable[..., Family]) -> None:
    (case,) = cases(imported(arguments={"n": {"FillValue": 7, "Type": "int64"}}))
    passed = case.arguments(case.steps[0], {"y": 512, "x": 1024, "weights": 2048})
    assert passed[3] == 7
    assert isinstance(passed[3], np.int64)


def documented(family: str) -> dict[str, Any]:
    """Run the block of docs/your-kernels.md that declares a family, and return its names."""
    page = (ROOT / "docs" / "your-kernels.md").read_text()
    (block,) = (each for each in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if f"{family} = " in each)
    names: dict[str, Any] = {"np": np, "ww": ww, "weighted": weighted}
    exec(compile(block, str(ROOT / "docs" / "your-kernels.md"), "exec"), names)
    return names


def test_the_import_that_the_documentation_shows_is_sound(
    imported: Callable[..., Family], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    imported()
    monkeypatch.setattr(ww, "from_t1", lambda path, **fields: from_t1(tmp_path / "file.json", **fields))
    found = documented("WEIGHTED")["WEIGHTED"]
    assert [case.build.block_name for case in cases(found)] == ["64", "64", "32_tile_size_x2", "32_tile_size_x2"]


def test_the_submission_that_the_documentation_declares_fills_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for PyTorch and the submission, because this needs a GPU otherwise."""
    streams: list[int] = []

    def custom_kernel(data: tuple[Array, Array, Array]) -> Array:
        data[2][...] = data[0] + data[1]
        return data[2]

    def stream(queue: int) -> AbstractContextManager[None]:
        streams.append(queue)
        return nullcontext()

    cuda = SimpleNamespace(ExternalStream=int, stream=stream)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, as_tensor=lambda array, device: array))
    monkeypatch.setitem(sys.modules, "submission", SimpleNamespace(custom_kernel=custom_kernel))
    family = documented("VECTORADD")["VECTORADD"]
    one = Case(Build(family, family.variants[0], family.variants[0].listed[0], "float16"), (127,))
    assert problems((family,)) == ()
    inputs = random_inputs(one, 1)
    out = np.zeros((127, 127), np.float16)
    launch = family.variants[0].call.prepare(**inputs, out=out, stream=5)
    assert not out.any()  # nothing is queued before what is timed
    launch()
    assert np.array_equal(out, family.reference(**inputs).astype(np.float16))
    assert streams == [5]
