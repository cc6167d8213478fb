"""Tests the import of T1 files: what a family has of them, what pages show, and what cannot be imported."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from tests.project import ROOT
from tests.stranger import run_pytest
from warpwatch.catalogue.arrays import Array, Role
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.importers.t1 import from_t1
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.validation import problems

Import = Callable[..., Family]
SPEC, SPACE, ARGUMENT = "KernelSpecification", "ConfigurationSpace", "KernelSpecification Arguments"
# As Kernel Tuner reads it: with a ProblemSize that blocks divide.
WEIGHTED: dict[str, Any] = json.loads("""
{"General": {"BenchmarkName": "Weighted sums", "FormatVersion": 1},
 "ConfigurationSpace": {
  "TuningParameters": [
   {"Name": "block_size_x", "Type": "int", "Values": "[2**i for i in range(4, 8)]", "Default": 64},
   {"Name": "tile_size_x", "Type": "int", "Values": "[1, 2, 3]", "Default": 1},
   {"Name": "fused", "Type": "bool", "Values": "[True, False]"}],
  "Conditions": [
   {"Parameters": ["block_size_x", "tile_size_x"], "Expression": "block_size_x * tile_size_x <= 256"},
   {"Parameters": ["tile_size_x", "fused"], "Expression": "fused or tile_size_x not in [3]"}]},
 "KernelSpecification": {
  "Language": "CUDA", "CompilerOptions": ["-std=c++11", "--use_fast_math"],
  "KernelName": "weighted", "KernelFile": "weighted.cu",
  "LocalSize": {"X": "block_size_x", "Y": "1", "Z": "1"}, "GlobalSize": {"X": "1"}, "GlobalSizeType": "CUDA",
  "GridDivX": ["block_size_x", "tile_size_x"], "ProblemSize": [1000], "SharedMemory": 0, "Stream": null,
  "Arguments": [
   {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "FillType": "Constant",
    "FillValue": 0.0, "Size": "ProblemSize[0]", "Output": 1},
   {"Name": "x", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadOnly", "FillType": "Random",
    "FillValue": 2.0, "Size": "ProblemSize[0] + max(tile_size_x) - 2"},
   {"Name": "alpha", "Type": "float", "MemoryType": "Scalar", "FillValue": 1.5},
   {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": "ProblemSize[0]"},
   {"Name": "weights", "Type": "float", "MemoryType": "Symbol", "FillType": "Constant", "FillValue": 0.25,
    "Size": 2}]}}
""")
WEIGHTED_CU = """
__constant__ float weights[2];

__global__ void weighted(float *y, const float *x, float alpha, int n)
{
    for (int t = 0; t < tile_size_x; t++) {
        int i = (blockIdx.x * tile_size_x + t) * block_size_x + threadIdx.x;
        if (i < n)
            y[i] = alpha * (weights[0] * x[i] + weights[1] * x[i + 1]);
    }
}
"""
# As KTT and BAT read it: with a GlobalSize, and no ProblemSize.
REVERSED: dict[str, Any] = json.loads("""
{"ConfigurationSpace": {
  "TuningParameters": [{"Name": "BLOCK", "Type": "uint", "Values": "[32, 64]", "Default": 64}]},
 "KernelSpecification": {
  "Language": "CUDA", "KernelName": "reversed_parts", "KernelTypeNames": ["int"], "KernelFile": "reversed.cu",
  "GlobalSizeType": "OpenCL", "GlobalSize": {"X": "512 * 2", "Y": 1}, "LocalSize": {"X": "BLOCK"},
  "SharedMemory": "4 * BLOCK",
  "Arguments": [
   {"Name": "state", "Type": "int32", "MemoryType": "Vector", "AccessType": "ReadWrite", "FillType": "Random",
    "FillValue": 9, "Size": 1024}]}}
""")
REVERSED_CU = """
template <typename T> __global__ void reversed_parts(T *state)
{
    extern __shared__ int part[];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    part[threadIdx.x] = state[i];
    __syncthreads();
    state[i] = part[BLOCK - 1 - threadIdx.x];
}
"""


def weighted(x: Array, weights: Array, alpha: float, problem_x: int) -> Array:
    x = x.astype(np.float64)
    return np.asarray(alpha * (weights[0] * x[:problem_x] + weights[1] * x[1 : problem_x + 1]))


def changed(given: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of a file with one member changed; ``path``: its names and places, joined by blanks."""
    made: Any = deepcopy(given)
    *names, last = (int(name) if name.isdigit() else name for name in path.split())
    inner = made
    for name in names:
        inner = inner[name]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return made  # type: ignore[no-any-return]


def cases(family: Family) -> list[Case]:
    """The cases of a sound family on the shapes that are tested."""
    assert problems((family,)) == ()
    (variant,), (dtype,) = family.variants, family.dtypes_of(family.variants[0])
    return [Case(Build(family, variant, each, dtype), shape) for each in variant.listed for shape in family.tests]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Return a function that writes a file and the kernels, and imports it."""

    def write(given: Any = WEIGHTED, reference: Callable[..., Any] = weighted, **fields: Any) -> Family:
        (tmp_path / "weighted.cu").write_text(WEIGHTED_CU)
        (tmp_path / "reversed.cu").write_text(REVERSED_CU)
        (tmp_path / "file.json").write_text(given if isinstance(given, str) else json.dumps(given))
        return ww.from_t1(tmp_path / "file.json", reference=reference, **fields)

    return write


def test_a_file_of_kernel_tuner_becomes_a_family(imported: Import) -> None:
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


def test_inputs_are_filled_as_the_file_says(imported: Import) -> None:
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


def test_shapes_are_problem_sizes(imported: Import) -> None:
    one, two = cases(imported(tests=((65,), (1,))))
    assert (one.launch.grid, two.launch.grid) == ((2, 1, 1), (1, 1, 1))
    assert [array.shape for array in one.arrays] == [(65,), (66,), (2,)]
    assert one.family.benchmarks == ((1000,),)


def test_a_file_with_a_global_size_becomes_a_family(imported: Import) -> None:
    family = imported(REVERSED, lambda state: state, name="parts")
    (case,) = cases(family)
    assert case.id == "parts-reversed_parts-64-1024-int32"
    assert (case.launch.grid, case.launch.shared_bytes) == ((16, 1, 1), 256)
    assert case.entry == "reversed_parts<int>"
    assert case.build.macros == {"BLOCK": "64"}
    assert [(array.role, array.shape) for array in case.arrays] == [(Role.IN_OUT, (1024,))]
    blocks = changed(REVERSED, "KernelSpecification GlobalSizeType", "CUDA")
    assert cases(imported(blocks, lambda state: state))[0].launch.grid == (1024, 1, 1)


def test_configurations_are_chosen_by_the_caller(imported: Import) -> None:
    given: list[dict[str, Any]] = [{}, {"tile_size_x": 2}, {"block_size_x": 16, "fused": False, "name": "small"}]
    labels = {case.build.block_name: case.launch.grid[0] for case in cases(imported(configurations=given))}
    assert labels == {"64": 16, "64_tile_size_x2": 8, "small": 63}


def test_some_configurations_are_the_same_in_each_run_and_satisfy_the_conditions(imported: Import) -> None:
    five, again, every = ([case.build.macros for case in cases(imported(configurations=n))] for n in (5, 5, 1000))
    assert five == again
    assert len(five) == 5
    assert five[0]["block_size_x"] == "64"
    assert len(every) == 19  # of 24: 5 of tile size 3 or of more than 256 elements are not allowed
    assert all(int(c["block_size_x"]) * int(c["tile_size_x"]) <= 256 for c in every)
    assert not any(c["tile_size_x"] == "3" and c["fused"] == "0" for c in every)


def test_defaults_that_break_a_condition_are_not_taken(imported: Import) -> None:
    broken = changed(WEIGHTED, "ConfigurationSpace TuningParameters 2 Values", "[False]")
    broken = changed(broken, "ConfigurationSpace TuningParameters 1 Default", 3)
    (case,) = cases(imported(broken))
    assert case.build.macros["tile_size_x"] in ("1", "2")


def test_a_default_that_is_none_of_the_values_is_not_taken(imported: Import) -> None:
    (case,) = cases(imported(changed(WEIGHTED, "ConfigurationSpace TuningParameters 1 Default", 4)))
    assert case.build.macros["tile_size_x"] == "1"


def test_constant_memory_of_kernel_tuner_is_an_argument_too(imported: Import) -> None:
    constant = changed(WEIGHTED, "KernelSpecification Arguments 4 MemoryType", "Vector")
    constant = changed(constant, "KernelSpecification Arguments 4 AccessType", "ReadOnly")
    constant = changed(constant, "KernelSpecification Arguments 4 MemType", "Constant")
    (case,) = cases(imported(constant))
    assert case.variant.symbols == {"weights": "weights"}
    assert case.arguments(case.steps[0], {"y": 512, "x": 1024, "weights": 2048})[-1] == 2048


def test_a_long_name_of_a_configuration_is_cut(imported: Import) -> None:
    names = [f"parameter_with_a_long_name_{i}" for i in range(4)]
    many = deepcopy(WEIGHTED)
    many["ConfigurationSpace"]["TuningParameters"] += [
        {"Name": name, "Type": "int", "Values": "[1, 2]"} for name in names
    ]
    given = [dict.fromkeys(names, 2), {names[0]: 2}]
    first, second = (case.build.block_name for case in cases(imported(many, configurations=given)))
    assert len(first) == len("64_") + 8
    assert second == f"64_{names[0]}2"


def test_vector_types_have_a_second_axis(imported: Import) -> None:
    pairs = changed(WEIGHTED, "KernelSpecification Arguments 1 Type", "float4")
    (case,) = cases(imported(pairs, lambda x: x[:1000, 0]))
    assert (case.arrays[1].shape, case.arrays[1].dtype, case.arrays[1].aligned) == ((1001, 4), "float32", 16)


def test_a_value_that_memory_cannot_be_filled_with_is_an_input(imported: Import) -> None:
    tenth = changed(WEIGHTED, "KernelSpecification Arguments 0 FillValue", 0.1)
    tenth = changed(tenth, "KernelSpecification Arguments 0 Type", "double")
    (case,) = cases(imported(tenth))
    assert case.arrays[0].role is Role.IN_OUT
    assert random_inputs(case, 1)["y"].tolist() == [0.1] * 1000


def test_members_of_arguments_can_be_changed(imported: Import) -> None:
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
    imported: Import, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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


# Mistakes


def sentence(family: Family) -> str:
    (problem,) = problems((family,))
    assert "\n" not in str(problem)
    return str(problem)


PLACE = "family file: arrays cannot be used: file.json: "


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (f"{SPEC} Language", "OpenCL", "KernelSpecification.Language is 'OpenCL': kernels in CUDA alone can be"),
        (SPEC, None, "has no KernelSpecification"),
        (SPEC, 3, "KernelSpecification is 3: an object with Language is due"),
        (f"{SPEC} KernelName", None, "KernelSpecification has no KernelName"),
        (f"{SPEC} KernelFile", 5, "KernelSpecification.KernelFile is 5: a text is due"),
        (f"{SPEC} LocalSize X", "block_size", "LocalSize.X cannot be calculated: block_size is not known; there are"),
        (f"{SPEC} LocalSize X", "block_size_x / 3", "LocalSize.X is 21.333333333333332: a whole number from 1 on is"),
        (f"{SPEC} ProblemSize", [1, 2, 3, 4], "KernelSpecification.ProblemSize has 4 sizes: a grid has at most 3"),
        (f"{SPEC} ProblemSize", [0], "KernelSpecification.ProblemSize[0] is 0: a whole number from 1 on is due"),
        (f"{SPACE} TuningParameters", None, "ConfigurationSpace has no TuningParameters"),
        (f"{SPACE} TuningParameters 0 Name", "name", "has the parameter 'name', which is there twice or cannot be a"),
        (f"{SPACE} TuningParameters 0 Name", "fused", "has the parameter 'fused', which is there twice or cannot be a"),
        (f"{SPACE} TuningParameters 0 Values", "[]", "TuningParameters[0].Values is '[]': a list of numbers or texts"),
        (f"{SPACE} TuningParameters 0 Values", "os.listdir()", "Values cannot be calculated: 'os.listdir()' is not"),
        (f"{SPACE} Conditions 0 Expression", "block_size_x && 1", "Conditions[0].Expression cannot be calculated: 'bl"),
        (f"{SPACE} Conditions 0 Expression", "block_size_x < 1", "Conditions hold for none of 24 configurations"),
        (f"{SPACE} Conditions 0 Expression", 3, "ConfigurationSpace.Conditions[0].Expression is 3: a text is due"),
        (f"{ARGUMENT} 0 Name", "x", "KernelSpecification.Arguments have a Name twice: x, x, alpha, n, weights"),
        (ARGUMENT, [3], "KernelSpecification.Arguments[0] is 3: an object with Name is due"),
        (f"{ARGUMENT} 0 Type", "float8", "Arguments[0] (y).Type is 'float8', which cannot be imported: bool or int8"),
        (f"{ARGUMENT} 0 Type", "custom", "Arguments[0] (y).Type is 'custom', which cannot be imported: bool or int8"),
        (f"{ARGUMENT} 2 Type", "float2", "Arguments[2] (alpha).Type is 'float2': a scalar of a vector type cannot"),
        (f"{ARGUMENT} 0 MemoryType", "Local", "(y).MemoryType is 'Local', which cannot be imported: Vector or Scalar"),
        (f"{ARGUMENT} 0 AccessType", None, "Arguments[0] (y) has no AccessType"),
        (f"{ARGUMENT} 0 AccessType", "ReadOnly", "Arguments have no Vector that is WriteOnly or ReadWrite: change the"),
        (f"{ARGUMENT} 0 Size", "n * 2", "(y).Size cannot be calculated: n is not known; there are block_size_x,"),
        (f"{ARGUMENT} 1 FillType", "Script", "(x) has the FillType 'Script': give draw=, a function that returns x"),
        (f"{ARGUMENT} 2 FillValue", None, "(alpha) has no FillValue, which is the value of a scalar"),
        (f"{ARGUMENT} 3 FillValue", "ProblemSize[", "(n).FillValue cannot be calculated: 'ProblemSize[' is no"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence_with_file_and_field(
    imported: Import, path: str, value: Any, said: str
) -> None:
    found = sentence(imported(changed(WEIGHTED, path, value)))
    assert found.startswith(PLACE)
    assert said in found


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            f"{SPEC} GridDivX",
            ["tile"],
            "weighted: grid cannot be used: file.json: KernelSpecification.GridDivX[0] cannot",
        ),
        (f"{SPEC} SharedMemory", -4, "weighted: shared_bytes cannot be used: file.json: KernelSpecification.SharedMem"),
        (f"{SPEC} KernelFile", "other.cu", "weighted: source is missing: there is no file "),
        (f"{ARGUMENT} 3 FillValue", "ProblemSize[0] * 2**40", "(n) has the value 1099511627776000, which does not fit"),
    ],
)
def test_what_a_case_shows_is_one_sentence_too(imported: Import, path: str, value: Any, said: str) -> None:
    assert said in sentence(imported(changed(WEIGHTED, path, value)))


SCRIPT = changed(WEIGHTED, f"{ARGUMENT} 1 FillType", "Script")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"given": "{"}, "file.json: is not valid JSON: "),
        ({"given": "[1]"}, "file.json: is not an object with Conf"),
        ({"given": SCRIPT, "draw": lambda: {}}, "(x) has the FillType 'Script', and draw= does not return it"),
        ({"configurations": [{"block": 3}]}, "ConfigurationSpace has no parameter block; there are block_size_x, tile"),
        ({"configurations": [{"tile_size_x": 4}]}, "tile_size_x = 4 is none of its values [1, 2, 3]"),
        (
            {"configurations": [{"tile_size_x": 3, "fused": False}]},
            "Conditions[1].Expression (fused or tile_size_x not in [3]) does not hold for {'block_size_x': 64",
        ),
        ({"configurations": []}, "configurations= is empty: give values by parameter, or how many"),
        ({"arguments": {"z": {}}}, "KernelSpecification.Arguments have no z; there are y, x, alpha, n, weights"),
    ],
)
def test_what_the_caller_gives_wrongly_is_a_sentence(imported: Import, fields: dict[str, Any], said: str) -> None:
    assert said in sentence(imported(**fields))


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    family = ww.from_t1(tmp_path / "absent.json", reference=weighted)
    assert sentence(family).endswith("absent.json cannot be read: No such file or directory")


def test_another_shape_of_a_file_with_fixed_sizes_is_a_sentence(imported: Import) -> None:
    fixed = changed(changed(WEIGHTED, f"{ARGUMENT} 0 Size", 1000), f"{ARGUMENT} 1 Size", 1001)
    assert cases(imported(fixed))[0].shape == (1000,)
    found = sentence(imported(fixed, tests=((5,),)))
    assert "tests has (5,): file.json describes 1000 alone, because no Size there names ProblemSize" in found
    follows = {"y": {"Size": "ProblemSize[0]"}, "x": {"Size": "ProblemSize[0] + 1"}}
    assert cases(imported(fixed, tests=((5,),), arguments=follows))[0].shape == (5,)


DECLARATIONS = """
import numpy as np
import warpwatch as ww


def weighted(x, weights, alpha, problem_x):
    x = x.astype(np.float64)
    return alpha * (weights[0] * x[:problem_x] + weights[1] * x[1 : problem_x + 1])


CHOSEN = [{}, {"block_size_x": 16, "tile_size_x": 2}]
GIVEN = dict(reference=weighted, tolerance=ww.relative(1e-6), configurations=CHOSEN, tests=((1,), (1000,)))
RIGHT = ww.from_t1("weighted.json", **GIVEN)
WRONG = ww.from_t1("../planted/weighted.json", name="planted", **GIVEN)
STATE = ww.from_t1("reversed.json", reference=lambda state: state.reshape(-1, 64)[:, ::-1].reshape(-1))
OPENCL = ww.from_t1("opencl.json", reference=weighted)
FAMILIES = (RIGHT, WRONG, STATE, OPENCL)
"""
TEST = """
import pytest


@pytest.mark.cases("tested")
def test_right(check):
    check()
"""
TEST_NAME = "tests/test_kernels.py::test_right"
CASES = ("64-1", "64-1000", "16_tile_size_x2-1", "16_tile_size_x2-1000")


@pytest.mark.slow
def test_imported_kernels_are_right_a_planted_mistake_is_found_and_others_run(tmp_path: Path) -> None:
    """The mistake is one element too many, which only a memory checker sees."""
    for name in ("perf", "planted", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "perf" / "__init__.py").write_text(DECLARATIONS)
    (tmp_path / "perf" / "weighted.cu").write_text(WEIGHTED_CU)
    (tmp_path / "perf" / "reversed.cu").write_text(REVERSED_CU)
    (tmp_path / "planted" / "weighted.cu").write_text(WEIGHTED_CU.replace("if (i < n)", "if (i <= n)"))
    for name in ("perf", "planted"):
        (tmp_path / name / "weighted.json").write_text(json.dumps(WEIGHTED))
    (tmp_path / "perf" / "reversed.json").write_text(json.dumps(REVERSED))
    (tmp_path / "perf" / "opencl.json").write_text(json.dumps(changed(WEIGHTED, f"{SPEC} Language", "OpenCL")))
    (tmp_path / "tests" / "test_kernels.py").write_text(TEST)
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')
    done = run_pytest(tmp_path, "tests", "--warpwatch-device=software", "-rA", "--tb=short")
    found = [line.split(" - ")[0] for line in done.stdout.splitlines() if re.match("(PASSED|FAILED|ERROR) ", line)]
    assert sorted(found) == sorted(
        [
            *(f"PASSED {TEST_NAME}[weighted_sums-weighted-{case}-float32]" for case in CASES),
            *(f"FAILED {TEST_NAME}[planted-weighted-{case}-float32]" for case in CASES),
            f"PASSED {TEST_NAME}[reversed_parts-reversed_parts-64-1024-int32]",
            f"ERROR {TEST_NAME}[opencl]",
        ]
    ), done.stdout
    assert done.stdout.count("softcuda: out of bounds in ") >= len(CASES)
    assert "opencl.json: KernelSpecification.Language is 'OpenCL': kernels in CUDA alone can be imported" in done.stdout


def places(value: Any, path: str = "") -> Iterator[str]:
    """List every member and element of a file."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield f"{path} {name}".strip()
        yield from places(each, f"{path} {name}")


@pytest.mark.once
@pytest.mark.parametrize("strange", [None, 3, -1.5, "x(", "2", [], [3], {}, True, float("nan")], ids=repr)
@pytest.mark.parametrize("given", [WEIGHTED, REVERSED], ids=["weighted", "reversed"])
def test_no_value_of_any_member_stops_the_other_families(imported: Import, given: dict[str, Any], strange: Any) -> None:
    for path in places(given):
        if strange is not None or not path[-1].isdigit():  # None takes a member away
            family = imported(changed(given, path, strange), weighted if given is WEIGHTED else lambda state: state)
            assert all("\n" not in str(problem) for problem in problems((family,)))
