"""Tests `warpwatch baseline migrate`: what earlier runs lack is derived from their commits; nothing else changes."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import git
from warpwatch.catalogue.project import Project
from warpwatch.cli.baseline_migrate import run as migrate
from warpwatch.runs.record import read_run

DECLARATION = """
import warpwatch as ww

LINES = ww.Family(
    "lines",
    sizes=("n",),
    dtypes=("float32",),
    arrays=lambda n: {"x": ww.In(n), "y": ww.Out(n)},
    reference=lambda x: x,
    tests=((512,),),
    benchmarks=((1024,), (2048,)),
    scalars={"rounds": ww.Scalar(ROUNDS)},
    variants=(ww.kernel("copy", "a thread an element", source="copy.cu", configurations=((128,),),
                        grid=lambda n, block: ww.blocks(n, block[0]), arguments="x y n rounds:float32"),),
)
"""
CASES = {"lines-copy-128-1024-float32": 8, "lines-copy-128-2048-float32": 16}  # and their blocks
SMALL, LARGE = CASES


class Repository:
    """A repository with a commit of a kernel, and a folder of saved runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, folder / "runs" / "gpu"
        self.runs.mkdir(parents=True)
        (folder / "perf").mkdir()
        (folder / "perf" / "copy.cu").write_text("")
        self.git("init", "-q", "-b", "main")
        self.commit = self.declare(1)

    @property
    def project(self) -> Project:
        return Project(root=self.folder, module="perf", families=(), baselines_folder="runs")

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    def declare(self, rounds: int) -> str:
        (self.folder / "perf" / "__init__.py").write_text(DECLARATION.replace("ROUNDS", str(rounds)))
        self.git("add", "perf")
        self.git("commit", "-qm", "kernels")
        return self.git("rev-parse", "HEAD")

    def save(self, *, commit: str = "", dirty: bool | None = False, **facts: Any) -> Path:
        """Save a run of before; ``facts``: of the small case."""
        entries = [
            {
                "param": name,
                "stats": {"data": [1e-05, 1.25e-05]},
                "extra_info": {"cache": "cold", "image_hash": "code", "grid": [blocks, 1, 1], "dynamic_shared_bytes": 0}
                | (facts if name == SMALL else {}),
            }
            for name, blocks in CASES.items()
        ]
        gpu = {"slug": "gpu", "uuid": "GPU-1", "capability": "9.0", "note": "schön"}
        document = {
            "machine_info": {"gpu": gpu},
            "commit_info": {"id": commit or self.commit, "dirty": dirty},
            "benchmarks": entries,
        }
        path = self.runs / "0001_run.json.xz"
        path.write_bytes(lzma.compress((json.dumps(document, separators=(",", ":")) + "\n").encode()))
        return path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "project").mkdir()
    return Repository(tmp_path / "project")


def test_what_a_run_lacks_is_derived_from_its_commit(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    path = repository.save()
    before = json.loads(lzma.decompress(path.read_bytes()))
    repository.declare(400)  # the run's commit counts, not what is there now
    assert migrate(repository.project, paths=[], commit="") == 0
    assert (
        f"derived the work of 2 of 2 cases from {repository.commit[:12]}, whose machine code was"
        in capsys.readouterr().out
    )
    identity = read_run(path).cases[SMALL].facts.identity
    assert identity
    assert (identity.code, identity.derived, identity.draw) == ("code", True, "uniform 1")
    assert identity.steps
    assert [str(value) for value in identity.steps[0].arguments] == ["x", "y", "1024", "1"]
    written = lzma.decompress(path.read_bytes())
    after = json.loads(written)
    for entry in after["benchmarks"]:
        del entry["extra_info"]["identity"]
    assert after == before
    assert migrate(repository.project, paths=[path], commit="") == 0
    assert "has the work of all its 2 cases" in capsys.readouterr().out
    assert lzma.decompress(path.read_bytes()) == written


@pytest.mark.once
@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"grid": [1, 1, 1]}, "its commit declares another launch than was measured"),
        ({"dynamic_shared_bytes": 64}, "its commit declares another launch than was measured"),
        ({"image_hash": None}, "its machine code was not recorded"),
    ],
)
def test_a_case_that_does_not_agree_with_its_commit_stays_unknown(
    repository: Repository, capsys: pytest.CaptureFixture[str], facts: dict[str, Any], why: str
) -> None:
    path = repository.save(**facts)
    assert migrate(repository.project, paths=[path], commit="") == 1
    assert f"1 stay unknown, such as {SMALL}: {why}; `python -m warpwatch baseline record`" in capsys.readouterr().err
    cases = read_run(path).cases
    assert (cases[SMALL].facts.identity is None, cases[LARGE].facts.identity is None) == (True, False)


def stays(capsys: pytest.CaptureFixture[str], repository: Repository, path: Path, why: str) -> None:
    """Assert that a run is left as it is, for a reason."""
    before = path.read_bytes()
    assert migrate(repository.project, paths=[path], commit="") == 1
    said = capsys.readouterr().err
    assert re.search(f"left as it is: .*{why}", said), said
    assert "Traceback" not in said
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ({"dirty": True}, "it was measured on changes to [0-9a-f]{12}: name a commit that has them by --commit, or"),
        ({"dirty": None}, "it was measured on changes to"),
        ({"commit": "unknown"}, "it does not say which commit was measured: name it by --commit, or"),
        ({"commit": "0" * 40}, "git knows no such revision here"),
    ],
)
def test_a_run_whose_commit_is_not_to_be_had_stays_as_it_is(
    repository: Repository, capsys: pytest.CaptureFixture[str], run: dict[str, Any], why: str
) -> None:
    stays(capsys, repository, repository.save(**run), f": the work of 2 cases stays unknown: .*{why}")


def test_a_commit_that_is_named_has_what_was_measured(repository: Repository) -> None:
    path = repository.save(dirty=True)
    assert migrate(repository.project, paths=[path], commit="HEAD") == 0
    assert read_run(path).cases[SMALL].facts.identity


def test_a_revision_that_cannot_be_read_leaves_its_runs_as_they_are(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository.folder / "perf" / "__init__.py").write_text("raise SystemExit('broken')")
    repository.git("commit", "-qam", "broken")
    path = repository.save(commit=repository.git("rev-parse", "HEAD"))
    stays(capsys, repository, path, r"its declarations cannot be read by this code \(broken\)")


def test_a_file_that_another_tool_wrote_is_left_as_it_is(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    path = repository.save()
    document = json.loads(lzma.decompress(path.read_bytes()))
    path.write_bytes(lzma.compress(json.dumps(document, indent=3).encode()))
    stays(capsys, repository, path, "is not written as `pytest bench` writes runs")


def test_a_damaged_identity_is_one_sentence(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    path = repository.save(identity={"version": 1, "steps": "none"})
    assert migrate(repository.project, paths=[path], commit="") == 1
    assert f"left out: {path}: {SMALL} has an extra_info that cannot be used" in capsys.readouterr().err
    problems = read_run(path, tolerant=True).problems
    assert list(problems) == [SMALL]
    assert f"{SMALL} has an extra_info that cannot be used (Expected `array" in problems[SMALL]
