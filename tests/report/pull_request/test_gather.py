"""Tests of what is made of the records of a job's runs: failed tests, faults, verdicts and machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels import FAMILIES
from tests.cli.code_changes import change, difference, kernel, write
from tests.project import ROOT
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.selection import timed_cases
from warpwatch.report.pull_request.comment import About, headline
from warpwatch.report.pull_request.gather import Gathered, count_tests, findings
from warpwatch.report.pull_request.result import Kind, Result
from warpwatch.runs.faults import CONTRACT, FAILED, WRONG, Fault, Place, reported
from warpwatch.runs.record import Outcome, RunRecord, TestRecord
from warpwatch.verdict.contracts import Clause, Standing
from warpwatch.verdict.rule import Decision, Verdict

TILED = "matmul-tiled-16x16-128x128x128-float32"
NAIVE = "matmul-naive-16x16-128x128x128-float32"
RACE = """softcuda: race in matmul_tiled
  /here/kernels/matmul/tiled.cu:31: thread (1, 0, 0) of block (0, 0, 0) read shared memory
  /here/kernels/matmul/tiled.cu:28: thread (0, 0, 0) of block (0, 0, 0) wrote it
"""


def record_of(tests: Sequence[TestRecord], **decisions: Decision) -> RunRecord:
    named = {name.replace("_", "-"): each for name, each in decisions.items()}
    return RunRecord(path=Path(), tests=tests, decisions=named)


def a_test(case: str, outcome: Outcome = Outcome.FAILED, *faults: Fault, launched: bool = True) -> TestRecord:
    known = find_case(FAMILIES, case) if case.count("-") == 4 else None
    return TestRecord(
        id=f"tests/test_x.py::test_right[{case}]",
        outcome=outcome,
        case=case,
        kernel=f"{known.family.name}-{known.variant.name}" if known else case,
        launched=launched,
        place=Place.of_kernel(known) if known else Place(),
        faults=faults,
    )


def wrong(case: str, message: str) -> TestRecord:
    return a_test(case, Outcome.FAILED, Fault(kind=WRONG, place=Place(message=message)))


def slower(change: float) -> Decision:
    ratio = 1 + change / 100
    times: dict[str, Any] = {"before": 1e-6, "after": ratio * 1e-6, "ratio": ratio, "low": ratio, "high": ratio}
    return Decision(verdict=Verdict.SLOWER, **times, floor=0.01, processes=3)


def test_every_kernel_has_one_line_however_many_tests_fail() -> None:
    failed = [wrong(TILED, f"{TILED} is wrong in 3 of 9 elements")] * 3
    failed += [wrong(NAIVE, "no memory")]
    place = Place(file="test_x.py", line=3, message="no message")
    failed += [TestRecord(id="test_x", outcome=Outcome.FAILED, faults=(Fault(kind=FAILED, place=place),))]
    found = list(findings([record_of(failed)], ROOT))
    assert [(each.kind, each.name, each.said) for each in found] == [
        (Kind.WRONG, TILED, "is wrong in 3 of 9 elements; 2 more tests of this kernel failed"),
        (Kind.WRONG, NAIVE, "no memory"),
        (Kind.WRONG, "test_x", "no message"),
    ]
    assert found[0].file == "kernels/matmul/tiled.cu"
    assert "__global__" in (ROOT / found[0].file).read_text().splitlines()[found[0].line - 1]


def test_a_kernel_beyond_a_limit_is_not_called_wrong() -> None:
    said = "contract: 40 registers a thread, at most 32 (8 too many)"
    limited = [a_test(case, Outcome.FAILED, Fault(kind=CONTRACT, place=Place(message=said))) for case in (TILED, NAIVE)]
    found = list(findings([record_of([*limited, wrong(NAIVE, "no memory")])], ROOT))
    assert [(each.kind, each.name) for each in found] == [
        (Kind.BROKEN, TILED), (Kind.BROKEN, NAIVE), (Kind.WRONG, NAIVE)
    ]  # fmt: skip
    assert found[0].said == said
    assert headline([Result(findings=tuple(found), failed=True)], About(marker="")) == (
        "Kernels: 1 kernel wrong, 2 kernels beyond a limit"
    )


def test_a_slower_case_beyond_a_limit_has_both_in_its_line() -> None:
    clause = Clause(name="registers", limit=32, figure=40, standing=Standing.BROKEN)
    kept = Clause(name="local_bytes", limit=0, figure=0, standing=Standing.KEPT)
    record = replace(record_of([a_test(TILED)], **{TILED: slower(3.0)}), contracts={TILED: (clause, kept)})
    (found,) = findings([record], ROOT)
    assert found.said.endswith("; contract: 40 registers a thread, at most 32 (8 too many)")


def test_a_fault_stands_at_its_line_once_and_its_test_is_not_wrong_besides() -> None:
    tests = [a_test(case, Outcome.FAILED, *reported(RACE)) for case in (TILED, NAIVE)]
    found = list(findings([record_of(tests)], Path("/here")))
    assert [(each.kind, each.file, each.line) for each in found] == [(Kind.FAULT, "kernels/matmul/tiled.cu", 31)]
    assert "and 1 other tests" in found[0].said


def test_a_compilers_error_stands_at_its_line() -> None:
    faults = reported("the file does not compile\nkernels/copy/naive.cu(12): error: expected a ;\n")
    found = list(findings([record_of([a_test(NAIVE, Outcome.FAILED, *faults)])], ROOT))
    assert [(each.kind, each.file, each.line) for each in found] == [(Kind.NOT_COMPILED, "kernels/copy/naive.cu", 12)]


def test_the_slowest_case_comes_first_and_a_slower_case_is_right() -> None:
    tests = [a_test(NAIVE), a_test(TILED), a_test("other", Outcome.PASSED)]
    decisions = {NAIVE: slower(3.0), TILED: slower(1200.0), "other": Decision(verdict=Verdict.SAME)}
    record = RunRecord(path=Path(), tests=tests, decisions=decisions)
    found = list(findings([record], ROOT))
    assert [each.name for each in found] == [TILED, NAIVE]
    assert found[0].said.startswith("median 1.00 -> 13.00 µs, +1200.0 %")
    assert found[0].file == "kernels/matmul/tiled.cu"
    gathered = Gathered(root=ROOT, tests=record, timed=record)
    result = gathered.result(job="", where="", commit="", against="", inside="")
    assert (result.tests, result.verdicts) == ({"passed": 3}, {"slower": 2, "same": 1})


def test_the_explanation_and_the_reason_are_beside_the_verdict() -> None:
    unsure = Decision(verdict=Verdict.UNSURE, reason="clock throttled", explanation="more registers: 32 -> 64")
    (found,) = findings([record_of([], **{TILED: unsure})], ROOT)
    assert (found.kind, found.said, found.likely) == (Kind.UNSURE, "unsure; clock throttled", unsure.explanation)


def test_the_first_line_of_every_kernel_of_this_repository_is_that_of_its_function() -> None:
    kernels = [case for case in timed_cases(FAMILIES) if not (case.variant.call or case.variant.on_host)]
    assert len(kernels) > 500
    for case in {case.build.source: case for case in kernels}.values():
        line = case.build.source.read_text().splitlines()[Place.of_kernel(case).line - 1]
        assert "__global__" in line, case.id
    assert Place.of_kernel(find_case(FAMILIES, "matmul-cublas-vendor-128x128x128-float32")) == Place()


def why_untested(record: RunRecord) -> str:
    """Return why a job whose tests these are is red, if it is."""
    gathered = Gathered(root=ROOT)
    gathered.take_tests(record)
    assert gathered.failed == bool(gathered.notes)
    return "".join(gathered.notes)


def test_no_test_of_a_kernel_shows_nothing() -> None:
    tests = [TestRecord(id=str(number), outcome=Outcome.PASSED) for number in range(5)]
    assert count_tests(record_of(tests)) == {}
    assert why_untested(record_of(tests)) == "no kernel was tested: 5 tests ran, and none is of a case or build"
    assert why_untested(record_of([])) == "no kernel was tested: no test ran"


def test_tests_of_kernels_alone_are_counted_and_only_those_that_ran_one_passed() -> None:
    plain = [TestRecord(id="x", outcome=Outcome.PASSED), TestRecord(id="y", outcome=Outcome.SKIPPED)]
    tests = plain + [a_test("z", Outcome.PASSED, launched=False)] * 2
    tests += [a_test("u", Outcome.EXPECTED), a_test("v", Outcome.SKIPPED)]
    assert count_tests(record_of(tests)) == {"skipped": 1, "failed as expected": 1, "ran no kernel": 2}
    assert why_untested(record_of(tests)) == (
        "no kernel was tested: of the tests of kernels, 1 skipped, 1 failed as expected, 2 ran no kernel"
    )
    assert why_untested(record_of([*tests, a_test("w", launched=False)])) == ""
    assert why_untested(record_of([*tests, a_test("w", Outcome.PASSED)])) == ""


def test_machine_code_that_got_worse_is_said_and_other_differences_are_counted(tmp_path: Path) -> None:
    half, whole = kernel(local=0, shares={128: 0.5}), kernel(local=0, shares={128: 1.0})
    worse = kernel(local=24, registers=64, shares={128: 0.5})
    pairs = [(whole, worse), (half, whole), (None, kernel(shares={128: 0.1}))]
    changes = [change(old, new, name=f"b{i}") for i, (old, new) in enumerate(pairs)]
    write(tmp_path / "diff.json", difference(*changes))
    gathered = Gathered(root=ROOT)
    gathered.take_code(tmp_path / "diff.json")
    result = gathered.result(job="", where="", commit="", against="", inside="")
    assert result.code == {"sm_90": {"different": 3}}
    assert [(each.kind, each.name, each.said) for each in result.findings] == [
        (Kind.WORSE_CODE, "b0 (sm_90)", "local memory 0 -> 24 B, occupancy 1.00 -> 0.50 (registers 32 -> 64)")
    ]
