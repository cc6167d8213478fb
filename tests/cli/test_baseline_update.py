"""Tests of `warpwatch baseline update --pull-request`, with a fake GPU and a stand-in for the code host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkout import Bench
from tests.cli.command import git
from tests.project import PROJECT
from tests.recorder import Recorder
from tests.report.pull_request.stand_in import TOKEN, StandIn
from tests.stranger import run_command
from warpwatch.cli.baseline_update import run
from warpwatch.runs.record import read_runs

FEW = "matmul and naive and 128x128x128 and float32 and not host"


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: StandIn) -> Recorder:
    recorder = Recorder(Bench(tmp_path / "checkout"), tmp_path / "plays", monkeypatch)
    origin = tmp_path / "origin.git"
    git(tmp_path, "init", "-q", "--bare", str(origin))
    git(recorder.bench.folder, "remote", "add", "origin", str(origin))
    for name, value in {
        "GITHUB_API_URL": there.url,
        "GITHUB_REPOSITORY": "them/theirs",
        "GITHUB_TOKEN": TOKEN,
        "GIT_AUTHOR_NAME": "them",
        "GIT_AUTHOR_EMAIL": "them@example.com",
        "GIT_COMMITTER_NAME": "them",
        "GIT_COMMITTER_EMAIL": "them@example.com",
    }.items():
        monkeypatch.setenv(name, value)
    return recorder


def propose(recorder: Recorder) -> int:
    project = replace(PROJECT, root=recorder.bench.folder)
    return run(project, count=2, keywords=FEW, allowed=(), pull_request=True, base="")


@pytest.mark.slow
def test_a_baseline_is_proposed_and_the_branch_stays_as_it_was(
    recorder: Recorder, there: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.play({"seed": 1}, {"seed": 2})
    folder = recorder.bench.folder
    branch, commit = (
        git(folder, "symbolic-ref", "--short", "HEAD"),
        git(folder, "rev-parse", "HEAD"),
    )
    assert propose(recorder) == 0, capsys.readouterr().err
    assert "pull request 41 proposes the baseline" in capsys.readouterr().out
    (opened,) = there.opened
    assert (opened["base"], opened["title"]) == (branch, "Baseline of Fake GPU 1: 2 runs")
    assert "| runs | 0 | 2 |" in opened["body"]
    assert "What changes:" in opened["body"]
    pushed = git(folder, "ls-remote", "origin", opened["head"]).split()[0]
    assert git(folder, "rev-parse", f"{pushed}^") == commit
    assert git(folder, "diff", "--name-only", commit, pushed).startswith("bench/baselines/fake-gpu-1/0001_")
    assert git(folder, "symbolic-ref", "--short", "HEAD") == branch
    assert git(folder, "status", "--porcelain") == ""
    assert not recorder.bench.baseline.exists()


@pytest.mark.slow
def test_the_next_one_shows_before_and_after(recorder: Recorder, there: StandIn) -> None:
    recorder.play({"seed": 1}, {"seed": 2}, {"seed": 3, "driver": "580.9"}, {"seed": 4})
    assert recorder.record(2, FEW) == 0
    recorder.bench.commit()
    assert propose(recorder) == 0
    body = there.opened[0]["body"]
    assert "| runs | 2 | 2 |" in body
    assert "median change:" in body
    assert len(read_runs(recorder.bench.baseline)) == 2  # the earlier ones, on this branch


@pytest.mark.slow
def test_what_the_host_refuses_is_pushed_and_said(
    recorder: Recorder, there: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.play({"seed": 1}, {"seed": 2})
    there.refusals = [(422, "Validation Failed", {})]
    assert propose(recorder) == 1
    said = capsys.readouterr().err
    assert "no pull request was opened" in said
    assert "422 Validation Failed" in said
    assert "is pushed" in said
    assert git(recorder.bench.folder, "branch", "--list", "baseline-*")


@pytest.mark.once
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("GITHUB_TOKEN", "", "set GITHUB_TOKEN"),
        ("GITHUB_REPOSITORY", "", "names no repository of GitHub: set GITHUB_REPOSITORY"),
        ("GITHUB_API_URL", "http://example.com", "is no https address"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_measured(
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    said: str,
) -> None:
    recorder.play({"seed": 1})
    monkeypatch.setenv(variable, value)
    assert propose(recorder) == 1
    assert said in capsys.readouterr().err
    assert not recorder.bench.saved


@pytest.mark.slow
def test_a_push_that_fails_keeps_the_runs_on_the_branch(
    recorder: Recorder, there: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.play({"seed": 1}, {"seed": 2})
    git(recorder.bench.folder, "remote", "set-url", "origin", "/no/such/repository")
    assert propose(recorder) == 1
    assert "it cannot be pushed; the runs are in" in capsys.readouterr().err
    (branch,) = git(recorder.bench.folder, "branch", "--list", "baseline-*").split()
    assert "bench/baselines/fake-gpu-1/" in git(recorder.bench.folder, "show", "--name-only", branch)
    assert not there.opened


def test_update_alone_says_what_it_takes(tmp_path: Path) -> None:
    done = run_command(Path(PROJECT.root), "baseline", "update")
    assert done.returncode == 2
    assert "--pull-request" in done.stderr
