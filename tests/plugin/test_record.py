"""Tests of --warpwatch-record: every test with its outcome, faults with both places, wrong results, mistakes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.stranger import declare, run_pytest
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.machine import LATE, DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.plugin.record import faults_of
from warpwatch.runs.faults import Fault, Place
from warpwatch.runs.record import Outcome, RunRecord, TestRecord, read_run

TEST = "import pytest\n\n@pytest.mark.cases('tested')\ndef test_one(check):\n    check()\n"
ONE = ("-k", "naive-256 and float32")
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")


def record_of(folder: Path, *args: str, test: str = TEST) -> RunRecord:
    (folder / "test_one.py").write_text(test)
    done = run_pytest(folder, "--device=software", "--warpwatch-record=run.json", *args)
    assert (folder / "run.json").exists(), done.stdout + done.stderr
    record = read_run(folder / "run.json")
    assert record.exit_status == done.returncode
    return record


def only_failure(record: RunRecord) -> tuple[TestRecord, Fault]:
    (test,) = (test for test in record.tests if test.outcome == Outcome.FAILED)
    return test, test.faults[0]


@pytest.mark.once
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_fault_has_its_place_in_the_record(tmp_path: Path, workers: str) -> None:
    source = declare(tmp_path) / "naive.cu"
    text = source.read_text()
    record = record_of(tmp_path, workers, *ONE)
    assert record.gpu.slug == "softcuda"
    assert record.tests
    assert {(test.outcome, test.faults, test.launched) for test in record.tests} == {(Outcome.PASSED, (), True)}
    assert {test.case.startswith("copy-naive-256-") for test in record.tests} == {True}
    source.write_text(text.replace("if (i < n)", "if (i <= n)"))
    record = record_of(tmp_path, workers, *ONE, "-x")
    test, fault = only_failure(record)
    assert (fault.kind, fault.kernel, fault.in_source) == ("out of bounds", "copy_naive", True)
    line = 1 + text[: text.index("if (i < n)")].count("\n")
    assert fault.place.file.endswith("mine/naive.cu")
    assert 0 <= fault.place.line - line <= 1
    assert "again     " in test.reason
    assert test.kernel == "copy-naive"


def test_a_wrong_result_is_at_its_kernel(tmp_path: Path) -> None:
    source = declare(tmp_path) / "naive.cu"
    text = source.read_text()
    source.write_text(text.replace("if (i < n)", "if (i < n - 1)"))
    test, fault = only_failure(record_of(tmp_path, *ONE, "-x"))
    assert (fault.kind, fault.in_source) == ("wrong result", False)
    assert fault.place.message.startswith(f"{test.case} is wrong in 1 of ")
    assert "; worst " in fault.place.message
    assert "__global__" in text.splitlines()[fault.place.line - 1]


@pytest.mark.once
@pytest.mark.parametrize(
    ("edit", "kind"),
    [(("if (i < n)", "if (i < n) nothing;"), "compile error"), (("if (i < n)", "while (true)"), "endless kernel")],
)
def test_other_faults_are_of_their_kind(tmp_path: Path, edit: tuple[str, str], kind: str) -> None:
    source = declare(tmp_path) / "naive.cu"
    source.write_text(source.read_text().replace(*edit))
    _, fault = only_failure(record_of(tmp_path, *ONE, "-x", "--launch-timeout=1"))
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
    record = record_of(tmp_path, test=OTHERS)
    assert [(test.name, str(test.outcome), test.reason.partition("\n")[0]) for test in record.tests[:2]] == [
        ("test_skipped", "skipped", "no such thing"),
        ("test_expected", "failed as expected", "known"),
    ]
    assert [(test.name, test.faults[0].kind, test.faults[0].place.message) for test in record.tests[2:]] == [
        ("test_broken", "failed test", "ZeroDivisionError: division by zero"),
        ("test_late", "failed test", "ZeroDivisionError: division by zero"),
    ]
    assert record.tests[2].place.file == "test_one.py"


@pytest.mark.slow
def test_what_cannot_be_collected_and_what_ends_its_process_failed(tmp_path: Path) -> None:
    declare(tmp_path)
    test, fault = only_failure(record_of(tmp_path, test="import nothing_of_that_name\n"))
    assert (test.id, fault.place.file) == ("test_one.py", "test_one.py")
    assert "nothing_of_that_name" in fault.place.message
    test, fault = only_failure(record_of(tmp_path, "-n1", test="import os\ndef test_one(): os.kill(os.getpid(), 9)\n"))
    assert test.name == "test_one"
    assert "crashed" in fault.place.message


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (DeviceError("the kernel did not end within 1 s", LATE), "timeout", "the kernel did not end within 1 s"),
        (DeviceError("the process in which kernels run died: signal 9", lost=True), "lost device", "the process in"),
        (DeviceError("not enough memory"), "failed test", "not enough memory"),
        (CompileError("nvcc refuses it"), "compile error", "nvcc refuses it"),
        (
            WrongResult("c is wrong in 1 of 2 elements\n  worst c[0]"),
            "wrong result",
            "c is wrong in 1 of 2 elements; w",
        ),
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
