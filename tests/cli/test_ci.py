"""Tests ``warpwatch ci`` and ``warpwatch comment`` in a stranger's repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import arguments
from tests.project import ROOT
from tests.stranger import environment, made_by_init, run_command
from warpwatch.catalogue.project import Project, find_project
from warpwatch.cli import ci
from warpwatch.report.pull_request.result import MOST_NOTES, NAME, Kind, Result, read_result
from warpwatch.runs.files import read_content, run_files
from warpwatch.runs.record import LARGEST

CASE = "copy-naive-16x16-1024x1024-float32"


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=folder, check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = made_by_init(tmp_path / "theirs")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "kernels")
    return folder


def run_ci(folder: Path, *words: str, **variables: str) -> tuple[int, str, Result]:
    hidden = {"CUDA_VISIBLE_DEVICES": ""}  # no GPU, on any machine
    own = environment() | hidden | {"PYTEST_ADDOPTS": "-p warpwatch.plugin -p no:cacheprovider"} | variables
    own = {name: value for name, value in own.items() if not name.startswith("GITHUB") or name in variables}
    command = [sys.executable, "-m", "warpwatch", "ci", *words]
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr, read_result(folder / "warpwatch-results" / NAME)


@pytest.mark.slow
def test_a_push_is_tested_and_compared_with_nothing(repository: Path) -> None:
    status, said, result = run_ci(repository, "--device", "software")
    assert status == 0, said
    assert result.tests == {"passed": 16}
    assert (result.where, result.against, result.failed) == ("the software device", "", False)
    assert any("nothing is compared: this is no pull request" in note for note in result.notes)


@pytest.mark.slow
def test_a_revision_is_compared_by_machine_code(repository: Path) -> None:
    kernel = repository / "perf" / "block_per_row.cu"
    kernel.write_text(kernel.read_text().replace("sum += exp(", "sum += exp(0 + "))
    page = repository.parent / "page.md"
    words = ("--against", "HEAD", "--device", "software")
    status, said, result = run_ci(repository, *words, GITHUB_STEP_SUMMARY=str(page))
    assert status == 0, said
    assert "### Machine code: the working tree" in page.read_text()
    assert list(result.code) == ["sm_90"]
    assert len(result.against) == 40


@pytest.mark.slow
def test_a_pull_request_in_a_shallow_clone_is_red_and_says_what_to_do(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{repository}", "shallow"], cwd=tmp_path, check=True)
    git(tmp_path / "shallow", "update-ref", "-d", "refs/remotes/origin/main")
    status, said, result = run_ci(tmp_path / "shallow", "--device", "software", GITHUB_BASE_REF="main")
    assert status == 1
    assert result.failed
    assert any("`fetch-depth: 0` for actions/checkout" in note for note in result.notes)
    assert "### Kernels: a job failed before all was checked" in said


@pytest.mark.once
@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["--tests", "no/such"], "the tests ended with exit status 4"),
        (["-k", "no_such_test"], "the tests ended with exit status 5"),
        (["--device", "gpu"], "the tests ended with exit status"),
    ],
)
def test_what_was_not_tested_is_red_with_its_reason(repository: Path, words: list[str], note: str) -> None:
    status, said, result = run_ci(repository, "--device", "software", *words)
    assert status == 1, said
    assert result.failed
    assert any(note in each for each in result.notes), result.notes


@pytest.mark.slow
def test_tests_that_are_all_skipped_are_red(repository: Path) -> None:
    (repository / "tests" / "test_kernels.py").write_text(
        'import pytest\n\n\ndef test_x() -> None:\n    pytest.skip("needs two GPUs: run it where there are two")\n'
    )
    status, said, result = run_ci(repository, "--device", "software")
    assert status == 1, said
    assert any("NOTHING WAS TESTED: all 1 tests were skipped" in note for note in result.notes)
    assert "### Kernels: no kernel was tested" in said


MARKED = 'import pytest\n\n\n@pytest.mark.cases("tested")\n'


@pytest.mark.once
@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("def test_x():\n    assert 1 + 1 == 2\n", "1 tests ran, and none is of a case or build"),
        (f"{MARKED}def test_x(case):\n    assert case.id\n", "of the tests of kernels, 6 ran no kernel"),
        (f"{MARKED}@pytest.mark.skip\ndef test_x(check):\n    check()\n", "of the tests of kernels, 6 skipped"),
        (
            f"{MARKED}@pytest.mark.xfail\ndef test_x(check):\n    check()\n    assert False\n",
            "of the tests of kernels, 6 failed as expected",
        ),
        ("", "no test ran"),
    ],
)
def test_no_kernel_tested_is_red_whatever_else_passed(repository: Path, code: str, note: str) -> None:
    (repository / "tests" / "test_kernels.py").write_text(code)
    status, said, result = run_ci(repository, "--device", "software")
    assert status == 1, said
    assert f"no kernel was tested: {note}" in result.notes
    assert "### Kernels: no kernel was tested" in said
    assert "passed" not in result.tests


FLOOD = """
import sys
print("::set-output name=a::b\\r::add-mask::c")
for number in range(200_000):
    print("line", number)
print("\\x1b]0;title\\x07", end="")
"""


def test_what_programs_print_cannot_command_the_host_nor_fill_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flood.py").write_text(FLOOD)
    project = Project(root=tmp_path, module="kernels", families=())
    (results := tmp_path / "results").mkdir()
    status, said = ci._run(ci.Job(project=project, results=results, on_gpu=False), ["flood"])
    shown = capsys.readouterr().out
    assert (status, said) == (0, r"\x1b]0;title\x07")
    assert shown.startswith("$ python -m flood\n: :set-output name=a::b\n: :add-mask::c\nline 0\n")
    assert shown.endswith("line 199999\n\\x1b]0;title\\x07\n")
    assert len(shown) < 1.1 * ci.MOST_SHOWN
    log = tmp_path / "results" / "warpwatch-log.txt"
    assert f" are left out here; {log} has all lines\n" in shown
    assert "line 100000\n" not in shown
    assert "line 100000\n" in log.read_text()


def test_a_table_that_is_too_large_for_the_page_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, table = tmp_path / "page.md", tmp_path / "warpwatch-diff.md"
    table.write_text("| x |\n" * 10**6)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    ci._tell(Result(), table)
    assert page.read_text().endswith("The table of machine code has 6,000,000 bytes, too many for this page: it is in "
                                     "warpwatch-diff.md.\n\n")  # fmt: skip


def test_notes_that_no_result_holds_are_counted() -> None:
    notes = [str(number) for number in range(100)]
    few = ci._few(notes)
    assert len(few) == MOST_NOTES
    assert few[0] == "0"
    assert few[1] == "51 more things, which the job's log has"
    assert few[2:] == notes[-48:]
    assert ci._few(notes[:50]) == notes[:50]


@pytest.mark.slow
def test_a_wrong_kernel_is_red_and_named(repository: Path) -> None:
    kernel = repository / "perf" / "block_per_row.cu"
    kernel.write_text(kernel.read_text().replace("/ sum;", "* sum;"))
    status, said, result = run_ci(repository, "--device", "software")
    assert status == 1
    (finding,) = result.findings
    assert (finding.kind, finding.file) == (Kind.WRONG, "perf/block_per_row.cu")
    assert "__global__" in kernel.read_text().splitlines()[finding.line - 1]
    assert "### Kernels: 1 kernel wrong" in said


@pytest.mark.slow
def test_files_are_named_from_the_top_of_the_checkout(repository: Path, tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    shutil.rmtree(repository / ".git")
    shutil.move(repository, top / "gpu")
    kernel = top / "gpu" / "perf" / "block_per_row.cu"
    kernel.write_text(kernel.read_text().replace("/ sum;", "* sum;"))
    git(top, "add", "-A")
    git(top, "commit", "-qm", "kernels")
    _, said, result = run_ci(top / "gpu", "--device", "software", GITHUB_ACTIONS="true")
    assert [each.file for each in result.findings] == ["gpu/perf/block_per_row.cu"]
    assert "::error file=gpu/perf/block_per_row.cu,line=" in said


@pytest.mark.slow
def test_files_of_an_earlier_call_are_gone_and_others_stay(repository: Path) -> None:
    folder = repository / "warpwatch-results"
    folder.mkdir()
    (folder / "warpwatch-bench.xml").write_text("old")
    (folder / "mine.txt").write_text("mine")
    run_ci(repository, "--device", "software")
    assert not (folder / "warpwatch-bench.xml").exists()
    assert (folder / "mine.txt").read_text() == "mine"


def record_of(*, timing: bool) -> bytes:
    """Return the record of a run whose tests passed; where it was timed, a case is slower."""
    tests: list[dict[str, Any]] = [{"id": "test_x.py::test_x", "outcome": "passed"}]
    about: dict[str, Any] = {"version": 1, "tests": tests}
    if timing:
        figures = {"before": 1e-6, "after": 2e-6, "ratio": 2.0, "low": 1.9, "high": 2.1, "floor": 0.01, "processes": 3}
        slower = {"verdict": "slower", **figures, "explanation": "more registers"}
        about["decisions"] = {CASE: slower, "other": {"verdict": "same"}}
        tests[0] = {"id": f"bench.py::bench[{CASE}]", "outcome": "failed", "case": CASE}
    return json.dumps({"benchmarks": [], "warpwatch": about}).encode()


def test_a_job_with_a_gpu_times_against_the_base_and_makes_a_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Imitates the programs that a job calls: those of a GPU run on one alone."""
    calls: list[list[str]] = []
    saved = run_files(ROOT / "bench" / "baselines" / "nvidia-h200")[0]

    def run(job: ci.Job, command: list[str]) -> tuple[int, str]:
        calls.append(command)
        if command[0] == "pytest":
            timing = any(word.startswith("--benchmark-json=") for word in command)
            named = next(word.partition("=")[2] for word in command if word.startswith("--warpwatch-record="))
            Path(named).write_bytes(record_of(timing=timing))
            if timing:
                job.file("bench.json").write_bytes(read_content(saved, LARGEST))
            return int(timing), "1 failed"
        if "diff" in command:
            job.file("diff.json").write_text(json.dumps({"counts": {}, "builds": [], "notes": []}))
        return 0, ""

    monkeypatch.setattr(ci, "_run", run)
    monkeypatch.setattr(ci, "why_no_gpu", lambda: "")
    for name in [each for each in os.environ if each.startswith("GITHUB")]:
        monkeypatch.delenv(name)
    results = tmp_path / "results"
    status = ci.run(find_project(ROOT), **arguments("ci", "--against=HEAD", f"--results={results}"))
    result = read_result(results / NAME)
    assert status == 1
    timed = next(call for call in calls if "bench" in call)
    assert {"--warpwatch-device=gpu", f"--warpwatch-against={result.against}"} <= set(timed)
    assert calls[-1][:2] == ["warpwatch", "report"]
    assert result.where == "NVIDIA H200"
    assert result.verdicts == {"slower": 1, "same": 1}
    (finding,) = result.findings
    assert (finding.kind, finding.likely) == (Kind.SLOWER, "more registers")
    assert "### Kernels: 1 case slower" in capsys.readouterr().out


def test_a_benchmark_that_compared_nothing_is_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(job: ci.Job, command: list[str]) -> tuple[int, str]:
        named = next((word.partition("=")[2] for word in command if word.startswith("--warpwatch-record=")), "")
        if named:
            Path(named).write_bytes(record_of(timing=False))
        bench = any(word.startswith("--benchmark-json=") for word in command)
        return (1, "NOTHING WAS COMPARED (--against): ...") if bench else (0, "")

    monkeypatch.setattr(ci, "_run", run)
    monkeypatch.setattr(ci, "why_no_gpu", lambda: "")
    options = arguments("ci", "--against=HEAD", f"--results={tmp_path / 'results'}")
    assert ci.run(find_project(ROOT), **options) == 1
    result: Any = read_result(tmp_path / "results" / NAME)
    assert any("NOTHING WAS COMPARED" in note for note in result.notes)
    assert any("no times were saved" in note for note in result.notes)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["results"], "give --pull-request, or --head and --sha, by which it is found; or --dry-run"),
        (["nowhere", "--pull-request", "3", "--repository", "a/b"], "set GITHUB_TOKEN in the step's environment"),
        (["results", "--pull-request", "3"], "'' is no repository: give OWNER/NAME"),
    ],
)
def test_a_comment_that_cannot_be_written_says_what_is_missing(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "results").mkdir()
    done = run_command(tmp_path, "comment", *words)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
