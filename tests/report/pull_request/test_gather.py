"""Tests of what is read from the runs of a job: failed tests, faults, verdicts and machine code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernels import FAMILIES
from tests.project import ROOT
from warpwatch.catalogue.selection import timed_cases
from warpwatch.report.pull_request.gather import (
    JunitTest,
    count_tests,
    count_verdicts,
    findings,
    read_code,
    read_tests,
    why_untested,
)
from warpwatch.report.pull_request.result import Kind
from warpwatch.report.sarif import first_line, place_of

TILED = "matmul-tiled-16x16-128x128x128-float32"
NAIVE = "matmul-naive-16x16-128x128x128-float32"
RAN = {"case": "a case's id", "launched": "yes"}
RACE = """softcuda: race in matmul_tiled
  /here/kernels/matmul/tiled.cu:31: thread (1, 0, 0) of block (0, 0, 0) read shared memory
  /here/kernels/matmul/tiled.cu:28: thread (0, 0, 0) of block (0, 0, 0) wrote it
"""


def outcome_of(name: str, outcome: str = "failed", text: str = "", **properties: str) -> JunitTest:
    return JunitTest(name=f"test_right[{name}]", outcome=outcome, text=text, properties=properties)


def slower(case: str, change: str) -> JunitTest:
    return outcome_of(
        case, verdict="slower", **RAN, comparison=f"slower: median 1.00 -> 2.00 µs, {change} % (95 %: ...)"
    )


def test_every_kernel_has_one_line_however_many_tests_fail() -> None:
    failed = [outcome_of(TILED, text=f"Failed: {TILED} is wrong in 3 of 9 elements\n  worst ...")] * 3
    failed += [
        outcome_of(NAIVE, text="Failed: no memory"),
        JunitTest(name="test_x", outcome="failed", text="", properties={}),
    ]
    found = list(findings(failed, FAMILIES, ROOT))
    assert [(each.kind, each.name, each.said) for each in found] == [
        (Kind.WRONG, TILED, "is wrong in 3 of 9 elements; 2 more tests of this kernel failed"),
        (Kind.WRONG, NAIVE, "no memory"),
        (Kind.WRONG, "test_x", "no message"),
    ]
    assert found[0].file == "kernels/matmul/tiled.cu"
    assert "__global__" in (ROOT / found[0].file).read_text().splitlines()[found[0].line - 1]


def test_a_fault_stands_at_its_line_once_and_its_test_is_not_wrong_besides() -> None:
    found = list(findings([outcome_of(TILED, text=RACE), outcome_of(NAIVE, text=RACE)], FAMILIES, Path("/here")))
    assert [(each.kind, each.file, each.line) for each in found] == [(Kind.FAULT, "kernels/matmul/tiled.cu", 31)]
    assert "and 1 other tests" in found[0].said


def test_a_compilers_error_stands_at_its_line() -> None:
    text = "the file does not compile\nkernels/copy/naive.cu(12): error: expected a ;\n"
    found = list(findings([outcome_of(NAIVE, text=text)], FAMILIES, ROOT))
    assert [(each.kind, each.file, each.line) for each in found] == [(Kind.NOT_COMPILED, "kernels/copy/naive.cu", 12)]


def test_the_slowest_case_comes_first_and_a_slower_case_is_right() -> None:
    tests = [slower(NAIVE, "+3.0"), slower(TILED, "+1,200.0"), outcome_of(NAIVE, "passed", verdict="same", **RAN)]
    found = list(findings(tests, FAMILIES, ROOT))
    assert [each.name for each in found] == [TILED, NAIVE]
    assert found[0].said.startswith("median 1.00 -> 2.00 µs, +1,200.0 %")
    assert count_tests(tests) == {"passed": 3}
    assert count_verdicts(tests) == {"slower": 2, "same": 1}


def test_the_explanation_is_beside_the_verdict() -> None:
    test = outcome_of(TILED, verdict="slower", comparison="slower: ...", explanation="more registers: 32 -> 64")
    (found,) = findings([test], FAMILIES, ROOT)
    assert found.likely == "more registers: 32 -> 64"


def test_the_first_line_of_every_kernel_of_this_repository_is_that_of_its_function() -> None:
    kernels = [case for case in timed_cases(FAMILIES) if not (case.variant.call or case.variant.on_host)]
    assert len(kernels) > 500
    for case in {case.build.source: case for case in kernels}.values():
        line = case.build.source.read_text().splitlines()[first_line(case) - 1]
        assert "__global__" in line, case.id
    assert place_of("matmul-cublas-vendor-128x128x128-float32", FAMILIES) == ("", 0)
    assert place_of("no such case", FAMILIES) == ("", 0)


JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase name="a[x]"><properties><property name="verdict" value="same"/></properties></testcase>
<testcase name="b"><failure message="Failed: off&#10;by one">off by one</failure></testcase>
<testcase name="c"><error message="no device">text</error></testcase>
<testcase name="d"><skipped message="too large">text</skipped></testcase>
<testcase name="e"><skipped type="pytest.xfail" message="">text</skipped></testcase>
</testsuite></testsuites>"""


def test_junits_file_is_read_with_outcomes_and_properties(tmp_path: Path) -> None:
    path = tmp_path / "tests.xml"
    path.write_text(JUNIT)
    tests = read_tests(path)
    assert [(each.name, each.outcome) for each in tests] == [
        ("a[x]", "passed"),
        ("b", "failed"),
        ("c", "failed"),
        ("d", "skipped"),
        ("e", "failed as expected"),
    ]
    assert count_tests(tests) == {}
    assert why_untested(tests) == "no kernel was tested: 5 tests ran, and none is of a case or build"
    assert why_untested([]) == "no kernel was tested: no test ran"
    assert tests[0].parameters == "x"
    path.write_text(JUNIT[:200])
    with pytest.raises(ValueError, match="is not whole"):
        read_tests(path)


def test_tests_of_kernels_alone_are_counted_and_only_those_that_ran_one_passed() -> None:
    case = {"case": "a case's id"}
    tests = [outcome_of("x", "passed"), outcome_of("y", "skipped"), *(outcome_of("z", "passed", **case) for _ in "12")]
    tests += [outcome_of("u", "failed as expected", **RAN), outcome_of("v", "skipped", **case)]
    assert count_tests(tests) == {"skipped": 1, "failed as expected": 1, "ran no kernel": 2}
    assert why_untested(tests) == (
        "no kernel was tested: of the tests of kernels, 1 skipped, 1 failed as expected, 2 ran no kernel"
    )
    assert why_untested([*tests, outcome_of("w", "failed", **case)]) == ""
    assert why_untested([*tests, outcome_of("w", "passed", **RAN)]) == ""


def side(local: int, share: float, registers: int = 32) -> dict[str, Any]:
    occupancy = {"threads": 128, "dynamic_bytes": 0, "occupancy": {"share": share, "blocks": 1, "limited_by": "x"}}
    return {"needs": {"registers": registers, "local_bytes": local}, "occupancies": [occupancy]}


def test_machine_code_that_got_worse_is_said_and_other_differences_are_counted(tmp_path: Path) -> None:
    kernels = [
        {"old": side(0, 1.0), "new": side(24, 0.5, 64)},
        {"old": side(0, 0.5), "new": side(0, 1.0)},
        {"old": None, "new": side(8, 0.1)},
    ]
    builds = [{"id": f"b{i}", "arch": "sm_90", "kernels": [kernel]} for i, kernel in enumerate(kernels)]
    path = tmp_path / "diff.json"
    path.write_text(json.dumps({"counts": {"sm_90": {"different": 3}}, "builds": builds, "notes": ["a note"]}))
    counts, worse, notes = read_code(path)
    assert counts == {"sm_90": {"different": 3}}
    assert notes == ["a note"]
    assert [(each.kind, each.name, each.said) for each in worse] == [
        (Kind.WORSE_CODE, "b0 (sm_90)", "local memory 0 -> 24 B, occupancy 1.00 -> 0.50 (registers 32 -> 64)")
    ]
