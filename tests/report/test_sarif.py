"""Tests that a run's faults become SARIF: which lines, which message, each fault once."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpwatch.report.sarif import document
from warpwatch.runs.faults import Fault, Place, merged, reported, sentence

RACE = """matmul-tiled-16x16-17x33x65-float32: the kernel failed: cuEventQuery failed: unspecified launch failure
softcuda: race in matmul_tiled
  kernels/matmul/tiled.cu:28: thread (1, 0) of block (0, 0) reads 4 bytes of shared a_tile at byte 0
  kernels/matmul/tiled.cu:21: thread (0, 0) of block (0, 0) wrote them, with no barrier between
    the address depends on row (kernels/matmul/tiled.cu:15)
  again     pytest "correctness/test_kernels.py::test_exact[matmul-tiled-16x16-17x33x65-float32]"
"""
BOUNDS = """softcuda: out of bounds in ln::forward<float>
  csrc/ops/rows.cuh:7 (called at csrc/layernorm.cu:31, csrc/layernorm.cu:40): thread (3, 0) of block (0, 0) writes
"""
GXX = "copy-naive-256: nvcc refuses it\nkernels/copy/naive.cu:12:5: error: expected ';' before '}' token\n"
NVCC = 'kernels/copy/naive.cu(9): error: identifier "n" is undefined\n'


def test_a_finding_is_at_its_first_line_and_names_the_other_side() -> None:
    (fault,) = reported(RACE)
    assert (fault.kind, fault.kernel) == ("race", "matmul_tiled")
    assert (fault.place.file, fault.place.line) == ("kernels/matmul/tiled.cu", 28)
    assert [(other.file, other.line) for other in fault.others] == [("kernels/matmul/tiled.cu", 21)]
    assert sentence(fault, ("test_exact[one]",)) == (
        "race in matmul_tiled: thread (1, 0) of block (0, 0) reads 4 bytes of shared a_tile at byte 0; "
        "kernels/matmul/tiled.cu:21: thread (0, 0) of block (0, 0) wrote them, with no barrier between; "
        "found by test_exact[one]"
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (BOUNDS, [("csrc/ops/rows.cuh", 7)]),
        (GXX, [("kernels/copy/naive.cu", 12)]),
        (NVCC, [("kernels/copy/naive.cu", 9)]),
        (RACE + BOUNDS, [("kernels/matmul/tiled.cu", 28), ("csrc/ops/rows.cuh", 7)]),
        ("assert 1 == 2\n  kernels/copy/naive.cu:12: not a finding\n", []),
    ],
)
def test_each_message_with_a_line_is_a_fault(message: str, expected: list[tuple[str, int]]) -> None:
    assert [(fault.place.file, fault.place.line) for fault in reported(message)] == expected


def found_by(text: str, *tests: str) -> list[tuple[Fault, str]]:
    return [(fault, test) for test in tests for fault in reported(text)]


def test_a_fault_that_many_tests_find_is_one() -> None:
    faults = found_by(RACE, "one", "two", "three")
    other = found_by(RACE.replace("tiled.cu:28", "tiled.cu:29"), "four")
    assert [tests for _, tests in merged([*faults, *other])] == [("one", "two", "three"), ("four",)]
    assert sentence(*merged(faults)[0]).endswith("; found by one and 2 other tests")


def test_the_document_has_rules_and_paths_as_code_hosts_want_them() -> None:
    absolute = RACE.replace("kernels/matmul", "/home/me/repo/kernels/a b")
    faults = merged([*found_by(absolute, "one"), *found_by(GXX, "two"), *found_by(BOUNDS, "three")])
    (run,) = document(faults, Path("/home/me/repo"))["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert rules == {"race", "compile-error", "out-of-bounds"} == {result["ruleId"] for result in run["results"]}
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "kernels/a%20b/tiled.cu"}, "region": {"startLine": 28}}
    assert run["results"][0]["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 21}


def test_no_fault_is_a_document_without_results() -> None:
    assert document([], Path("/home/me/repo"))["runs"][0]["results"] == []


@pytest.mark.parametrize(("line", "shown"), [(0, 1), (1, 1), (28, 28)])
def test_a_place_without_a_line_is_at_the_first_one(tmp_path: Path, line: int, shown: int) -> None:
    fault = Fault(kind="race", place=Place(file="tiled.cu", line=line))
    (run,) = document([(fault, ("test_x",))], tmp_path)["runs"]
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": shown}
