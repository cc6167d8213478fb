"""Tests merge requests at GitLab: the jobs that `warpwatch init --gitlab` writes, their notes, and code quality."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.cli.command import arguments, git
from tests.project import ROOT
from tests.report.pull_request.player import GitLabRunner
from tests.report.pull_request.stand_in import TOKEN, GitLabStandIn, serve
from tests.stranger import environment, made_by_init
from tools.workflows import TEMPLATE, load
from warpwatch.cli import notes
from warpwatch.report.pull_request.annotations import SEVERITIES, code_quality
from warpwatch.report.pull_request.code_host import Refused
from warpwatch.report.pull_request.gitlab import GitLab
from warpwatch.report.pull_request.result import FAILURES, Finding, Kind, Result

SHA, NEWER = "5" * 40, "6" * 40
MARKER = "<!-- warpwatch: kernels -->"
RIGHT = msgspec.json.encode(Result(job="kernels", where="the software device", tests={"passed": 4}))
WRONG = Finding(kind=Kind.WRONG, name="copy-naive-1", said="3 of 4 elements", file="perf/k.cu", line=9)
OWN = {"CI_PROJECT_ID": "7", "CI_DEFAULT_BRANCH": "main"}
REQUEST = {**OWN, "CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "7"}
SCHEDULE = {**OWN, "CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_BRANCH": "main"}


@pytest.fixture
def there() -> Iterator[GitLabStandIn]:
    with serve(GitLabStandIn()) as host:
        yield host


@pytest.fixture
def told(there: GitLabStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    monkeypatch.setenv("CI_API_V4_URL", there.url)
    monkeypatch.setenv("GITLAB_TOKEN", TOKEN)
    return Told(capsys)


class Told:
    """Calls ``warpwatch notes``, and returns what it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        assert notes.run(**arguments("notes", "--repository=7", *words)) == status
        shown = self.capsys.readouterr()
        return shown.out + shown.err


# Notes


def test_each_open_merge_request_has_one_note_which_is_updated(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA)
    there.ended(100, result=RIGHT)
    there.ended(101, name="lint", status="failed", result=b"not asked for")
    for number in range(120):
        there.add_note(3, f"remark {number}", "somebody")
    assert told() == "!3: written\n"
    assert told() == "!3: unchanged\n"
    (body,) = there.bodies(3)
    assert body.startswith(f"{MARKER}\n### Kernels: right, not timed\n")
    assert f"commit {SHA[:12]} · [run](https://gitlab/7/-/pipelines/50)" in body
    there.open(3, NEWER, pipeline=51)
    there.ended(102, pipeline=51, status="failed", result=msgspec.json.encode(Result(findings=(WRONG,), failed=True)))
    assert told() == "!3: updated\n"
    assert there.bodies(3)[-1].startswith(f"{MARKER}\n### Kernels: 1 kernel wrong\n")


@pytest.mark.usefixtures("there")
def test_without_an_open_merge_request_it_says_so(told: Told) -> None:
    assert told() == "7 has no open merge request: no note was written\n"


def test_nobody_elses_note_is_changed(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA)
    there.ended(100, result=RIGHT)
    there.add_note(3, f"{MARKER}\nmine", "somebody")
    assert told() == "!3: written\n"
    assert there.bodies(3, "somebody") == [f"{MARKER}\nmine"]


def test_a_pipeline_of_an_older_commit_or_with_running_jobs_says_nothing(there: GitLabStandIn, told: Told) -> None:
    there.open(3, NEWER, ran=SHA)
    there.ended(100, result=RIGHT)
    there.open(4, SHA, pipeline=51)
    there.ended(101, pipeline=51, result=RIGHT)
    there.ended(102, pipeline=51, name="kernels-gpu", status="running")
    assert told() == "!3: its newest commit has no pipeline yet\n!4: 1 of its 2 jobs have not ended\n"
    assert there.bodies(3) == there.bodies(4) == []


def test_a_pipeline_of_merged_results_counts(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA, ran=NEWER, ref="refs/merge-requests/3/merge")
    there.open(4, SHA, ran=NEWER, ref="refs/merge-requests/3/merge")
    there.ended(100, result=RIGHT)
    assert told() == "!3: written\n!4: its newest commit has no pipeline yet\n"


def test_a_note_never_is_good_news_for_want_of_results(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA)
    there.ended(100, result=RIGHT)
    assert told() == "!3: written\n"
    there.artifacts.clear()
    assert told() == "!3: unchanged: its results are no longer kept\n"
    there.open(3, NEWER, pipeline=51)
    there.ended(101, pipeline=51, name="lint")
    assert told() == "!3: updated\n"  # the job was taken out
    assert "### Kernels: not checked, because the jobs left no result" in there.bodies(3)[0]
    there.open(4, SHA, pipeline=51)
    there.open(5, SHA, pipeline=52)
    there.ended(102, pipeline=52, status="canceled", result=RIGHT)
    there.open(6, SHA, pipeline=53)
    there.ended(103, pipeline=53, result=b"{")
    assert "!4: its pipeline has no job whose name begins with kernels\n" in told()
    assert "### Kernels: the run ended with `canceled`" in there.bodies(5)[0]
    assert "### Kernels: not checked" in there.bodies(6)[0]
    assert "is no result of `warpwatch ci`".replace("`", "'") in there.bodies(6)[0]


def test_jobs_on_a_later_page_count(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA)
    for number in range(100):
        there.ended(100 + number, name=f"lint {number}")
    there.ended(200, status="failed", result=msgspec.json.encode(Result(findings=(WRONG,), failed=True)))
    assert told() == "!3: written\n"
    assert there.bodies(3)[0].startswith(f"{MARKER}\n### Kernels: 1 kernel wrong\n")


def test_a_job_without_its_result_is_named_beside_the_others(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA)
    there.ended(100, result=RIGHT)
    there.ended(101, name="kernels-gpu")
    assert told() == "!3: written\n"
    (body,) = there.bodies(3)
    assert "### Kernels: a job failed before all was checked" in body
    assert "- `kernels-gpu left no warpwatch-results/warpwatch-result.json, or it is no longer kept`" in body


def test_a_forks_pipeline_is_read_where_it_ran(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA, project=8)
    there.open(4, SHA, project=9, pipeline=51)
    there.ended(100, project=8, result=RIGHT)
    said = told()
    assert said == (
        "!3: written\n!4: the token may not see its pipeline, which a fork ran: https://gitlab/9/-/pipelines/51\n"
    )
    assert "GET /projects/8/jobs/100/artifacts/warpwatch-results/warpwatch-result.json" in there.asked


def test_a_file_that_lies_elsewhere_is_fetched_without_the_token(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA)
    there.ended(100, result=RIGHT)
    with serve(GitLabStandIn()) as store:
        there.moved = f"{store.url}/store"
        store.refusals = [(200, "", {})]
        told()
        assert store.asked == ["GET /store/100"]
        assert store.tokens == [""]
    there.moved = "http://example.com/store"
    assert "302" in told(status=1)


def test_one_merge_request_that_is_refused_keeps_none_of_the_others(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA)
    there.open(4, SHA, pipeline=51)
    there.ended(101, pipeline=51, result=RIGHT)
    there.jobs[7, 50] = [{"no": "job"}]
    said = told(status=1)
    assert "!3: error: no note was written: " in said
    assert "!4: written" in said


@pytest.mark.parametrize(
    ("name", "value", "status", "said"),
    [
        ("GITLAB_TOKEN", "", 0, "the token is missing: set GITLAB_TOKEN"),
        ("GITLAB_TOKEN", "other", 401, "the token is not valid, or has expired"),
        ("CI_API_V4_URL", "http://gitlab.example.com", 0, "is no https address"),
        ("GITLAB_TOKEN", TOKEN, 403, "it needs the scope `api` and the role Reporter"),
    ],
)
def test_a_refusal_is_one_sentence_with_its_cure(
    there: GitLabStandIn, told: Told, monkeypatch: pytest.MonkeyPatch, name: str, value: str, status: int, said: str
) -> None:
    monkeypatch.setenv(name, value)
    there.refusals = [(status, "refused", {})] if status else []
    shown = told(status=1)
    assert shown.startswith("error: ")
    assert said in shown
    assert TOKEN not in shown


def test_a_dry_run_prints_the_note_and_writes_none(there: GitLabStandIn, told: Told) -> None:
    there.open(3, SHA)
    there.ended(100, result=RIGHT)
    assert told("--dry-run").startswith(f"!3: would be written\n{MARKER}\n### Kernels: right")
    assert not there.bodies(3)


def test_a_project_is_named_by_number_or_path() -> None:
    assert GitLab(api="https://g", repository="group/sub/name", token="t").place == "projects/group%2Fsub%2Fname"
    for bad in ("", "name", "a/b?x", "../7", "7/"):
        with pytest.raises(Refused, match="is not the name of a repository: give a project's number, or GROUP/NAME"):
            GitLab(api="https://g", repository=bad, token="t")


# Code quality


def test_the_report_of_code_quality_has_each_fault_with_a_line_in_the_repository() -> None:
    found = [
        WRONG,
        replace(WRONG, line=0, said="5 of 9", likely="a race"),
        replace(WRONG, file=""),
        replace(WRONG, file="/usr/include/x.h"),
        replace(WRONG, kind=Kind.UNSURE),
        replace(WRONG, kind=Kind.WORSE_CODE),
    ]
    first, second, worse = code_quality(found)
    assert first.pop("fingerprint") != second["fingerprint"]
    assert first == {
        "description": "wrong: copy-naive-1: 3 of 4 elements",
        "check_name": "warpwatch-wrong",
        "severity": "critical",
        "location": {"path": "perf/k.cu", "lines": {"begin": 9}},
    }
    assert (second["description"], second["location"]["lines"]["begin"]) == ("wrong: copy-naive-1: 5 of 9; a race", 1)
    assert (worse["check_name"], worse["severity"]) == ("warpwatch-worse-code", "minor")
    assert {*FAILURES} < {*SEVERITIES}
    assert {*SEVERITIES.values()} <= {"info", "minor", "major", "critical", "blocker"}


def test_a_fault_keeps_its_fingerprint_when_lines_and_figures_move() -> None:
    (before,), (after,) = code_quality([WRONG]), code_quality([replace(WRONG, line=30, said="other figures")])
    assert before["fingerprint"] == after["fingerprint"]


# The jobs


def jobs(variables: dict[str, str], tmp_path: Path) -> list[str]:
    return list(GitLabRunner(folder=tmp_path, variables=variables).jobs(load(TEMPLATE)))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (REQUEST, ["kernels"]),
        ({**OWN, "CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main"}, ["kernels"]),
        ({**OWN, "CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "other"}, []),
        ({**REQUEST, "KERNELS_GPU_RUNNER": "gpu"}, ["kernels", "kernels-gpu"]),
        ({**REQUEST, "KERNELS_GPU_RUNNER": "gpu", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "8"}, ["kernels"]),
        ({**REQUEST, "GITLAB_TOKEN": "t"}, ["kernels"]),
        (SCHEDULE, []),
        ({**SCHEDULE, "GITLAB_TOKEN": "t", "KERNELS_GPU_RUNNER": "gpu"}, ["notes"]),
        ({**SCHEDULE, "GITLAB_TOKEN": "t", "CI_COMMIT_BRANCH": "other"}, []),
    ],
)
def test_a_pipeline_has_the_jobs_that_it_may_have(
    tmp_path: Path, variables: dict[str, str], expected: list[str]
) -> None:
    assert jobs(variables, tmp_path) == expected


def test_the_job_with_the_token_runs_nothing_of_the_repository() -> None:
    job = load(TEMPLATE)["notes"]
    assert (job["variables"]["GIT_STRATEGY"], job["cache"], job["dependencies"]) == ("none", [], [])
    installs = [line for line in job["script"] if " install " in line]
    assert installs
    assert all("--require-hashes" in line and "--only-binary" in line and "--no-deps" in line for line in installs)
    assert [line for line in job["script"] if " -m warpwatch" in line] == [job["script"][-1]]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that stands for Warpwatch's own: one commit of this checkout's engine."""
    folder = tmp_path_factory.mktemp("engine")
    for name in ("warpwatch", ".github"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-qm", "engine")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return folder


def play(job: str, folder: Path, tmp_path: Path, **variables: str) -> tuple[bool, GitLabRunner]:
    """Run a job of the files that init wrote, in a pipeline with these variables."""
    (include,) = load(folder / ".gitlab-ci.yml")["include"]
    own = {"CUDA_VISIBLE_DEVICES": "", "CI_PROJECT_DIR": str(folder), "CI_JOB_NAME": job}
    runner = GitLabRunner(folder=tmp_path / job, variables=own | variables)
    return runner.play(runner.jobs(load(folder / include["local"]))[job], folder), runner


def check(folder: Path, tmp_path: Path, there: GitLabStandIn, base: str, number: int) -> bool:
    """Run the job of a merge request for the newest commit, and keep at GitLab what its artifacts name."""
    python = {"PYTHONPATH": environment()["PYTHONPATH"], "PYTEST_ADDOPTS": "-p warpwatch.plugin -p no:cacheprovider"}
    good, _ = play("kernels", folder, tmp_path, **REQUEST, CI_MERGE_REQUEST_DIFF_BASE_SHA=base, **python)
    artifacts = load(folder / ".gitlab" / "kernels.yml")[".kernels"]["artifacts"]
    (kept,) = artifacts["paths"]
    assert [*folder.glob(artifacts["reports"]["junit"])]
    there.open(12, git(folder, "rev-parse", "HEAD"), pipeline=number)
    result = (folder / kept / "warpwatch-result.json").read_bytes()
    there.ended(100 + number, pipeline=number, status="success" if good else "failed", result=result)
    return good


def shown(folder: Path) -> list[tuple[str, str]]:
    """Return check and file of each fault that GitLab shows of the newest job."""
    report = load(folder / ".gitlab" / "kernels.yml")[".kernels"]["artifacts"]["reports"]["codequality"]
    return [(each["check_name"], each["location"]["path"]) for each in json.loads((folder / report).read_text())]


@pytest.mark.slow
def test_a_strangers_merge_request_gets_one_note_that_follows_it(
    tmp_path: Path, engine: Path, there: GitLabStandIn
) -> None:
    folder = made_by_init(tmp_path / "theirs", "--gitlab")
    (folder / ".gitignore").write_text("warpwatch-results/\n__pycache__/\n")
    named = folder / ".gitlab" / "kernels.yml"
    named.write_text(named.read_text().replace("0" * 40, git(engine, "rev-parse", "HEAD")))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "kernels")
    base, kernel = git(folder, "rev-parse", "HEAD"), folder / "perf" / "block_per_row.cu"
    right = kernel.read_text()
    instead = {"GIT_CONFIG_KEY_0": f"url.{engine.as_uri()}.insteadOf", "GIT_CONFIG_COUNT": "1"}
    instead["GIT_CONFIG_VALUE_0"] = "https://github.com/warpwatch/warpwatch"
    schedule = {**SCHEDULE, **instead, "GITLAB_TOKEN": TOKEN, "CI_API_V4_URL": there.url}

    kernel.write_text(right.replace("__syncthreads();  // the values", "// the values"))
    git(folder, "commit", "-qam", "another way")
    assert not check(folder, tmp_path, there, base, 50)
    assert ("warpwatch-fault", "perf/block_per_row.cu") in shown(folder)
    wrote, runner = play("notes", folder, tmp_path, **schedule)
    assert wrote, runner.text
    (body,) = there.bodies(12)
    assert "- **fault** `race" in body
    assert f"against {base[:12]}" in body

    kernel.write_text(right)
    git(folder, "commit", "-qam", "as it was")
    assert check(folder, tmp_path, there, base, 51)
    assert shown(folder) == []
    wrote, runner = play("notes", folder, tmp_path, **schedule)
    assert wrote, runner.text
    assert TOKEN not in runner.text
    (body,) = there.bodies(12)
    assert "### Kernels: right, not timed" in body
    assert len(there.notes[12]) == 1
