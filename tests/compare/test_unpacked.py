"""Tests how long an unpacked commit stays in the cache."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.checkout import COMMIT
from warpwatch.catalogue.project import Project
from warpwatch.compare.revision import checkout, find_commit


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A repository with a package ``kernels``, and no commit."""
    (tmp_path / "tree" / "kernels").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "tree", check=True)
    return Project(root=tmp_path / "tree", module="kernels", families=())


def unpack(project: Project, number: int) -> Path:
    """Commit kernels that differ by a number, and unpack the commit."""
    (project.root / "kernels" / "__init__.py").write_text(f"number = {number}\n")
    for command in (("add", "-A"), COMMIT):
        subprocess.run(["git", *command], cwd=project.root, check=True)
    return checkout(find_commit("HEAD", project.root), "HEAD", project)


def used_days_ago(folder: Path, days: int) -> None:
    os.utime(folder, (time.time() - 86400 * days,) * 2)


def test_what_was_not_used_for_a_month_is_removed(project: Project) -> None:
    unused, recent, used_again = (unpack(project, number) for number in range(3))
    for folder, days in ((unused, 31), (recent, 29), (used_again, 31)):
        used_days_ago(folder, days)
    assert checkout(used_again.name.split("-")[0], "HEAD", project) == used_again
    assert unused.exists()  # nothing was unpacked
    last = unpack(project, 3)
    assert sorted(last.parent.iterdir()) == sorted([recent, used_again, last])
    assert (used_again / "kernels" / "__init__.py").read_text() == "number = 2\n"


def test_what_an_interrupted_run_left_is_removed_too(project: Project) -> None:
    left = unpack(project, 0).with_name("tmp1234")
    (left / "kernels").mkdir(parents=True)
    used_days_ago(left, 31)
    unpack(project, 1)
    assert not left.exists()
