"""Tests that what cannot be imported of a T1 file is one sentence, and that imported kernels run."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warpwatch as ww
from tests.catalogue.t1_files import (
    ARGUMENT,
    REVERSED,
    REVERSED_CU,
    SPACE,
    SPEC,
    WEIGHTED,
    WEIGHTED_CU,
    cases,
    changed,
    import_file,
    weighted,
)
from tests.stranger import run_pytest
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.validation import problems


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Family]:
    return functools.partial(import_file, tmp_path)


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
    imported: Callable[..., Family], path: str, value: Any, said: str
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
def test_what_a_case_shows_is_one_sentence_too(
    imported: Callable[..., Family], path: str, value: Any, said: str
) -> None:
    assert said in sentence(imported(changed(WEIGHTED, path, value)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
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
def test_what_the_caller_gives_wrongly_is_a_sentence(
    imported: Callable[..., Family], fields: dict[str, Any], said: str
) -> None:
    assert said in sentence(imported(**fields))


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "file.json: is not valid JSON: "), ("[1]", "file.json: is not an object with Conf")],
)
def test_a_file_that_is_no_object_is_a_sentence(imported: Callable[..., Family], text: str, said: str) -> None:
    assert said in sentence(imported(text))


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    family = ww.from_t1(tmp_path / "absent.json", reference=weighted)
    assert sentence(family).endswith("absent.json cannot be read: No such file or directory")


def test_inputs_that_a_draw_leaves_out_are_a_sentence(imported: Callable[..., Family]) -> None:
    script = changed(WEIGHTED, f"{ARGUMENT} 1 FillType", "Script")
    assert "(x) has the FillType 'Script', and draw= does not return it" in sentence(imported(script, draw=lambda: {}))


def test_another_shape_of_a_file_with_fixed_sizes_is_a_sentence(imported: Callable[..., Family]) -> None:
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
def test_no_value_of_any_member_stops_the_other_families(
    imported: Callable[..., Family], given: dict[str, Any], strange: Any
) -> None:
    for path in places(given):
        if strange is not None or not path[-1].isdigit():  # None takes a member away
            family = imported(changed(given, path, strange), weighted if given is WEIGHTED else lambda state: state)
            assert all("\n" not in str(problem) for problem in problems((family,)))
