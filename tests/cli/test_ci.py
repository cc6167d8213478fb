"""Tests ``warpwatch ci`` and ``warpwatch comment`` in a stranger's repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.code_changes import difference, write
from tests.cli.command import arguments, git
from tests.project import ROOT
from tests.stranger import environment, made_by_init, run_command
from warpwatch.catalogue.project import find_project
from warpwatch.cli import ci
from warpwatch.report.pull_request.annotations import annotate
from warpwatch.report.pull_request.gather import few_notes
from warpwatch.report.pull_request.result import MOST_NOTES, NAME, Finding, Kind, Result, read_result
from warpwatch.runs.files import read_content, run_files

CASE = "copy-naive-16x16-1024x1024-float32"


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
    folder = repository / "warpwatch-results"
    folder.mkdir()
    (folder / "warpwatch-bench.xml").write_text("of an earlier call")
    (folder / "mine.txt").write_text("mine")
    status, said, result = run_ci(repository, "--device", "software")
    assert status == 0, said
    assert result.tests == {"passed": 16}
    assert (result.where, result.against, result.failed) == ("the software device", "", False)
    assert any("nothing is compared: this is no pull request" in note for note in result.notes)
    assert not (folder / "warpwatch-bench.xml").exists()
    assert (folder / "mine.txt").read_text() == "mine"


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
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", "shallow")
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
        ("import pytest\ndef test_x():\n    pytest.skip('here')\n", "1 tests ran, and none is of a case or build"),
    ],
)
def test_no_kernel_tested_is_red_whatever_else_passed(repository: Path, code: str, note: str) -> None:
    (repository / "tests" / "test_kernels.py").write_text(code)
    status, said, result = run_ci(repository, "--device", "software")
    assert status == 1, said
    skipped = any("NOTHING WAS TESTED: all 1 tests were skipped" in each for each in result.notes)
    assert skipped == ("skip('here')" in code)
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
    (results := tmp_path / "results").mkdir()
    status, said = ci._run(ci.Job(root=tmp_path, results=results, on_gpu=False), ["flood"])
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
    few = few_notes(notes)
    assert len(few) == MOST_NOTES
    assert few[0] == "0"
    assert few[1] == "51 more things, which the job's log has"
    assert few[2:] == notes[-48:]
    assert few_notes(notes[:50]) == notes[:50]


@pytest.mark.slow
def test_a_wrong_kernel_is_red_and_its_file_is_named_from_the_top_of_the_checkout(
    repository: Path, tmp_path: Path
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    shutil.rmtree(repository / ".git")
    shutil.move(repository, top / "gpu")
    kernel = top / "gpu" / "perf" / "block_per_row.cu"
    kernel.write_text(kernel.read_text().replace("/ sum;", "* sum;"))
    git(top, "add", "-A")
    git(top, "commit", "-qm", "kernels")
    status, said, result = run_ci(top / "gpu", "--device", "software", GITHUB_ACTIONS="true")
    assert status == 1
    (finding,) = result.findings
    assert (finding.kind, finding.file) == (Kind.WRONG, "gpu/perf/block_per_row.cu")
    assert "__global__" in kernel.read_text().splitlines()[finding.line - 1]
    assert "::error file=gpu/perf/block_per_row.cu,line=" in said
    assert "### Kernels: 1 kernel wrong" in said


def record_of(*, timing: bool) -> bytes:
    """Return the record of a run whose tests passed; where it was timed, a case is slower."""
    tests: list[dict[str, Any]] = [
        {"id": f"test_x.py::test_x[{CASE}]", "outcome": "passed", "case": CASE, "launched": True}
    ]
    about: dict[str, Any] = {"version": 1, "tests": tests}
    if timing:
        figures = {"before": 1e-6, "after": 2e-6, "ratio": 2.0, "low": 1.9, "high": 2.1, "floor": 0.01, "processes": 3}
        slower = {"verdict": "slower", **figures, "explanation": "more registers"}
        about["totals"] = {"copy-naive-16x16-float32": {"reason": "1 of 2 shapes with weights were not compared"}}
        about["decisions"] = {CASE: slower, "other": {"verdict": "same"}}
        tests[0] = {"id": f"bench.py::bench[{CASE}]", "outcome": "failed", "case": CASE}
    return json.dumps({"benchmarks": [], "warpwatch": about}).encode()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Imitates the programs that a job calls, and lists them: those of a GPU run on one alone."""
    commands: list[list[str]] = []
    saved = run_files(ROOT / "bench" / "baselines" / "nvidia-h200")[0]

    def run(job: ci.Job, command: list[str]) -> tuple[int, str]:
        commands.append(command)
        options = dict(word.split("=", 1) for word in command if word.startswith("--") and "=" in word)
        timing = "--benchmark-json" in options
        if command[0] == "pytest":
            Path(options["--warpwatch-record"]).write_bytes(record_of(timing=timing and "idle" not in command))
        if timing and "idle" in command:
            return 1, "NOTHING WAS COMPARED (--against): ..."
        if timing:
            job.file("bench.json").write_bytes(read_content(saved))
        if "diff" in command:
            write(job.file("diff.json"), difference())
        return int(timing), "1 failed"

    monkeypatch.setattr(ci, "_run", run)
    monkeypatch.setattr(ci, "why_no_gpu", lambda: "")
    for name in [each for each in os.environ if each.startswith(("GITHUB", "CI_"))]:
        monkeypatch.delenv(name)
    return commands


def test_a_job_with_a_gpu_times_against_the_base_and_makes_a_site(
    tmp_path: Path, calls: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
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
    printed = capsys.readouterr().out
    assert "### Kernels: 1 case slower" in printed
    assert "`total of copy-naive-16x16-float32: unknown, because 1 of 2 shapes with weights were not" in printed


@pytest.mark.usefixtures("calls")
def test_a_job_of_a_merge_request_takes_base_and_name_from_gitlab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", base := git(ROOT, "rev-parse", "HEAD"))
    monkeypatch.setenv("CI_JOB_NAME", "kernels-gpu")
    ci.run(find_project(ROOT), **arguments("ci", f"--results={tmp_path}"))
    result = read_result(tmp_path / NAME)
    assert (result.against, result.job) == (base, "kernels-gpu")
    assert json.loads((tmp_path / "warpwatch-codequality.json").read_text()) == []  # the slower case has no place


@pytest.mark.usefixtures("calls")
def test_a_benchmark_that_compared_nothing_is_red(tmp_path: Path) -> None:
    options = arguments("ci", "--against=HEAD", "--bench=idle", f"--results={tmp_path / 'results'}")
    assert ci.run(find_project(ROOT), **options) == 1
    result = read_result(tmp_path / "results" / NAME)
    assert any("NOTHING WAS COMPARED" in note for note in result.notes)
    assert any("no times were saved" in note for note in result.notes)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["results"], "give --pull-request, or --head and --sha, by which it is found; or --dry-run"),
        (["nowhere", "--pull-request", "3", "--repository", "a/b"], "set GITHUB_TOKEN in the step's environment"),
        (["results", "--pull-request", "3"], "'' is not the name of a repository: give OWNER/NAME"),
    ],
)
def test_a_comment_that_cannot_be_written_says_what_is_missing(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "results").mkdir()
    done = run_command(tmp_path, "comment", *words)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


SLOWER = Finding(kind=Kind.SLOWER, name="copy-naive-1", said="+3.0 %", file="k.cu", line=9)


def test_findings_with_a_place_stand_beside_their_line() -> None:
    found = [
        replace(SLOWER, likely="more registers, 32 -> 64"),
        replace(SLOWER, kind=Kind.WRONG, name="a,b:c", said="100 %\nwrong", file="odd, name:.cu", line=0),
        replace(SLOWER, kind=Kind.WRONG, file=""),
        replace(SLOWER, kind=Kind.UNSURE),
    ]
    assert list(annotate(found)) == [
        "::error file=k.cu,line=9,title=slower%3A copy-naive-1::+3.0 %25; more registers, 32 -> 64",
        "::error file=odd%2C name%3A.cu,line=1,title=wrong%3A a%2Cb%3Ac::100 %25%0Awrong",
    ]


def test_annotations_are_as_many_as_the_host_shows_and_the_others_are_counted() -> None:
    worse = [replace(SLOWER, kind=Kind.WORSE_CODE) for _ in range(3)]
    lines = list(annotate([SLOWER] * 25 + worse))
    assert len([line for line in lines if line.startswith("::error ")]) == 10
    assert len([line for line in lines if line.startswith("::warning ")]) == 3
    assert lines[-1] == "15 more of level error are in warpwatch-result.json: GitHub shows 10 of a step"


@pytest.mark.parametrize(
    ("program", "note"),
    [("diff", "machine code was not compared: the last line"), ("pytest", "ended with exit status 2")],
)
def test_a_program_that_leaves_nothing_makes_the_job_red(
    tmp_path: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch, program: str, note: str
) -> None:
    run = ci._run

    def fail(job: ci.Job, command: list[str]) -> tuple[int, str]:
        return (2, "the last line") if program in command else run(job, command)

    monkeypatch.setattr(ci, "_run", fail)
    monkeypatch.setattr(ci, "why_no_gpu", lambda: "there is no GPU")
    words = arguments("ci", "--against=HEAD", f"--results={tmp_path}")
    assert ci.run(find_project(ROOT), **words) == 1
    assert any(note in each for each in read_result(tmp_path / NAME).notes)
    monkeypatch.setattr(ci, "_run", run)
    assert ci.run(find_project(ROOT), **words) == 0


def test_failed_tests_alone_make_the_job_red(
    tmp_path: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ci._run

    def fail(job: ci.Job, command: list[str]) -> tuple[int, str]:
        status, last = run(job, command)
        return (1 if command[0] == "pytest" else status), last

    monkeypatch.setattr(ci, "_run", fail)
    monkeypatch.setattr(ci, "why_no_gpu", lambda: "there is no GPU")
    assert ci.run(find_project(ROOT), **arguments("ci", f"--results={tmp_path}")) == 1
    assert read_result(tmp_path / NAME).failed
