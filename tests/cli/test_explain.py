"""Tests `warpwatch explain` on a repository that is made here, without a GPU."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.command import git
from tests.explain import planted
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import Project, find_project
from warpwatch.cli import explain as command
from warpwatch.revision.declared import BadRevision

CASE = "padding-tile-32x8-4096x4096-float32"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of three commits: without kernels, with them, and with a fault in each of them."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "planted").mkdir()
    (folder / "planted" / "__init__.py").write_text("raise RuntimeError('nothing yet')\n")
    (folder / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "planted"\n')
    (folder / ".gitignore").write_text("__pycache__/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Nothing yet")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(planted.FOLDER, folder / "planted", ignore=ignored, dirs_exist_ok=True)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "The kernels")
    planted.plant(folder / "planted")
    git(folder, "commit", "-q", "-a", "-m", "The faults")
    return folder


@pytest.fixture
def project(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    return find_project(repository)


def explained(project: Project, name: str, revision: str | None) -> int:
    return command.run(project, name=name, against=revision, without_ncu=False, arch="sm_90")


@pytest.mark.slow
def test_the_cause_and_the_figures_are_shown(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(project, CASE, "HEAD~1") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{CASE}: against HEAD~1 (")
    assert "\nlikely cause: bank conflicts" in said
    assert "static shared memory" in said
    assert "there is no GPU here, so no counters of Nsight Compute are compared" in said


def test_nothing_that_differs_is_said(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(project, CASE, None) == 0  # HEAD is on the main branch, so that it is compared with itself
    assert "the machine code and the launches are the same" in capsys.readouterr().out


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "revision", "error", "said"),
    [
        (CASE, "HEAD~2", BadRevision, "declarations cannot be read"),
        (CASE, "nonsense", BadRevision, "git knows no such revision"),
        ("padding-tile-32x8-64x64-float32", "HEAD~1", BadRevision, "does not have padding-tile-32x8-64x64-float32"),
        ("padding-tile", "HEAD~1", BadCase, "is not a case id"),
    ],
)
def test_bad_input_is_a_sentence(project: Project, name: str, revision: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        explained(project, name, revision)
