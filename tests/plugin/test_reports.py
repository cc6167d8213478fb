"""Tests of --warpwatch-record and --sarif: every test with its outcome, and faults with their places."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.stranger import declare, run_pytest
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.machine import LATE, DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.plugin.reports import faults_of
from warpwatch.runs.faults import Fault, Place
from warpwatch.runs.record import Outcome, RunRecord, TestRecord, read_run

TEST = "import pytest\n\n@pytest.mark.cases('tested')\ndef test_one(check):\n    check()\n"
ONE = ("-k", "naive-256 and float32")
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")


def reports_of(folder: Path, *args: str, test: str = TEST) -> tuple[RunRecord, list[Any]]:
    """Run a test; return its record, and the results in SARIF's file."""
    (folder / "test_one.py").write_text(test)
    done = run_pytest(folder, "--device=software", "--warpwatch-record=run.json", "--sarif=faults.sarif", *args)
    assert "faults.sarif" in done.stdout, done.stdout + done.stderr
    record = read_run(folder / "run.json")
    assert record.exit_status == done.returncode
    (run,) = json.loads((folder / "faults.sarif").read_text())["runs"]
    assert all(_place(result)["region"]["startLine"] >= 1 for result in run["results"])
    return record, run["results"]


def _place(result: Any) -> Any:
    return result["locations"][0]["physicalLocation"]


def only_fault(folder: Path, *args: str, test: str = TEST) -> tuple[TestRecord, Fault, tuple[str, str, str]]:
    """Run a test that fails once; return its record, its fault, and rule, file and message of SARIF's result."""
    record, (result,) = reports_of(folder, *args, test=test)
    (failed,) = (test for test in record.tests if test.outcome == Outcome.FAILED)
    uri = _place(result)["artifactLocation"]["uri"]
    return failed, failed.faults[0], (result["ruleId"], uri, result["message"]["text"])


@pytest.mark.once
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_planted_fault_has_its_place_and_is_gone_when_it_is_mended(tmp_path: Path, workers: str) -> None:
    source = declare(tmp_path) / "naive.cu"
    text = source.read_text()
    record, results = reports_of(tmp_path, workers, *ONE)
    assert (record.gpu.slug, results) == ("softcuda", [])
    assert record.tests
    assert {(test.outcome, test.faults, test.launched) for test in record.tests} == {(Outcome.PASSED, (), True)}
    assert {test.case.startswith("copy-naive-256-") for test in record.tests} == {True}
    source.write_text(text.replace("if (i < n)", "if (i <= n)"))
    test, fault, sarif = only_fault(tmp_path, workers, *ONE, "-x")
    assert (fault.kind, fault.kernel, fault.in_source) == ("out of bounds", "copy_naive", True)
    assert sarif[:2] == ("out-of-bounds", "mine/naive.cu")
    line = 1 + text[: text.index("if (i < n)")].count("\n")
    assert fault.place.file.endswith("mine/naive.cu")
    assert 0 <= fault.place.line - line <= 1
    assert "again     " in test.reason
    assert test.kernel == "copy-naive"


def test_a_wrong_result_is_at_its_kernel(tmp_path: Path) -> None:
    source = declare(tmp_path) / "naive.cu"
    text = source.read_text()
    source.write_text(text.replace("if (i < n)", "if (i < n - 1)"))
    test, fault, sarif = only_fault(tmp_path, *ONE, "-x")
    assert (fault.kind, fault.in_source) == ("wrong result", False)
    assert fault.place.message.startswith(f"{test.case} is wrong in 1 of ")
    assert "__global__" in text.splitlines()[fault.place.line - 1]
    assert sarif[:2] == ("wrong-result", "mine/naive.cu")
    assert re.search(r"copy-naive-256-\d+-float32 is wrong in 1 of \d+ elements; worst \w+\[\d+\] = ", sarif[2])


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("edit", "kind"),
    [(("if (i < n)", "if (i < n) nothing;"), "compile error"), (("if (i < n)", "while (true)"), "endless kernel")],
)
def test_other_faults_are_of_their_kind(tmp_path: Path, edit: tuple[str, str], kind: str) -> None:
    source = declare(tmp_path) / "naive.cu"
    source.write_text(source.read_text().replace(*edit))
    _, fault, _ = only_fault(tmp_path, *ONE, "-x", "--launch-timeout=1")
    assert fault.kind == kind


OTHERS = """
import os, pytest
def test_skipped(): pytest.skip("no such thing")
@pytest.mark.xfail(reason="known")
def test_expected(): assert False
@pytest.fixture
def broken(): 1 / 0
def test_broken(broken): pass
def test_late(request): request.addfinalizer(lambda: 1 / 0)
"""


def test_every_outcome_is_recorded(tmp_path: Path) -> None:
    declare(tmp_path)
    record, results = reports_of(tmp_path, test=OTHERS)
    assert [(test.name, str(test.outcome), test.reason.partition("\n")[0]) for test in record.tests[:2]] == [
        ("test_skipped", "skipped", "no such thing"),
        ("test_expected", "failed as expected", "known"),
    ]
    message = "ZeroDivisionError: division by zero"
    assert [(test.name, test.faults[0].kind, test.faults[0].place.message) for test in record.tests[2:]] == [
        ("test_broken", "failed test", message),
        ("test_late", "failed test", message),
    ]
    assert record.tests[2].place.file == "test_one.py"
    assert [message in result["message"]["text"] for result in results] == [True, True]


@pytest.mark.once
@pytest.mark.parametrize(
    ("test", "args", "message"),
    [
        ("import nothing_of_that_name\n", (), "nothing_of_that_name"),
        ("import os\ndef test_one(): os.kill(os.getpid(), 9)\n", ("-n1",), "crashed"),
    ],
    ids=["collection", "crash"],
)
def test_what_cannot_be_collected_and_what_ends_its_process_failed(
    tmp_path: Path, test: str, args: tuple[str, ...], message: str
) -> None:
    declare(tmp_path)
    failed, fault, sarif = only_fault(tmp_path, *args, test=test)
    assert failed.id.partition("::")[0] == fault.place.file == "test_one.py"
    assert message in fault.place.message
    assert sarif[:2] == ("failed-test", "test_one.py")
    assert message in sarif[2]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (DeviceError("the kernel did not end within 1 s", LATE), "timeout", "the kernel did not end within 1 s"),
        (DeviceError("the process in which kernels run died: signal 9", lost=True), "lost device", "the process in"),
        (DeviceError("not enough memory"), "failed test", "not enough memory"),
        (CompileError("nvcc refuses it"), "compile error", "nvcc refuses it"),
        (WrongResult("c is wrong in 1 element\n  worst     c[0]"), "wrong result", "c is wrong in 1 element; worst c"),
        (ValueError("no\x1b[31m such thing"), "failed test", r"ValueError: no such thing"),
    ],
)
def test_an_error_is_of_its_kind_whatever_it_says(error: Exception, kind: str, message: str) -> None:
    place = Place(file="a.cu", line=3)
    try:
        try:
            raise error
        except (DeviceError, CompileError, WrongResult) as known:
            raise pytest.fail.Exception(str(known), pytrace=False) from None
    except (Exception, pytest.fail.Exception):
        (fault,) = faults_of(pytest.ExceptionInfo.from_current(), None, place)
    assert (fault.kind, fault.place.file, fault.place.line) == (kind, "a.cu", 3)
    assert fault.place.message.startswith(message)


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(TEST)
    (tmp_path / "faults").mkdir()
    done = run_pytest(tmp_path, "--device=software", "--sarif=faults")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "cannot be written" in done.stderr
    assert "give another --warpwatch-sarif=FILE" in done.stderr
    assert "passed" not in done.stdout


@pytest.mark.once
@pytest.mark.parametrize(
    ("selected", "why"),
    [("naive-256 and float32", "no test ran"), ("zzz", "no test ran"), ("stops", "the run was cut short")],
)
def test_nothing_tested_is_no_file_without_faults(tmp_path: Path, selected: str, why: str) -> None:
    declare(tmp_path)
    stops = "def test_a_passes_and_stops(): pass\n\ndef test_b_stops(): pytest.exit('enough', 2)\n"
    (tmp_path / "test_one.py").write_text(f"{TEST}\n{stops}")
    done = run_pytest(tmp_path, "--device=none", "--sarif=faults.sarif", "-k", selected)
    assert done.returncode != 0, done.stdout
    assert f"faults.sarif is not written, because {why}" in done.stdout
    assert not (tmp_path / "faults.sarif").exists()
