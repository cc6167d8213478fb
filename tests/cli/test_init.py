"""Tests ``warpwatch init``: an example in an empty repository, and in one that has files of its own."""

from __future__ import annotations

import ast
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.stranger import run_command, run_pytest
from tests.test_tools import check
from tools.workflows import ACTIONS

WRITTEN = {
    "perf/__init__.py",
    "perf/block_per_row.cu",
    "tests/test_kernels.py",
    "bench/bench_kernels.py",
    ".github/workflows/kernels.yml",
    "pyproject.toml",
    ".gitignore",
}
OWN = '[project]\nname = "mine"\nversion = "1"\n\n[tool.pytest.ini_options]\naddopts = "-q"'  # without a last newline


def files(folder: Path) -> set[str]:
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith(".git/")}


def init(folder: Path, *args: str, status: int = 0) -> str:
    done = run_command(folder, "init", *args)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if status else done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty git repository."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_an_empty_repository_gets_everything_and_is_told_three_things(repository: Path) -> None:
    said = init(repository)
    assert files(repository) == WRITTEN
    assert sum(line.startswith("wrote ") for line in said.splitlines()) == len(WRITTEN)
    assert sum(line.startswith("python -m pytest ") for line in said.splitlines()) == 3
    assert tomllib.loads((repository / "pyproject.toml").read_text()) == {"tool": {"warpwatch": {"kernels": "perf"}}}
    declaration = (repository / "perf" / "__init__.py").read_text()
    ast.parse(declaration)
    assert declaration.count("\n") <= 30


@pytest.mark.slow
def test_a_dry_run_shows_the_same_and_writes_nothing(repository: Path) -> None:
    shown = init(repository, "--dry-run")
    assert files(repository) == set()
    assert init(repository) == shown.replace("would write", "wrote")


def test_another_folder_can_be_named_even_a_new_one(tmp_path: Path) -> None:
    init(tmp_path, "new/place")
    assert files(tmp_path / "new" / "place") == WRITTEN


def test_a_file_that_is_there_is_left_and_named(repository: Path) -> None:
    (repository / "tests").mkdir()
    (repository / "tests" / "test_kernels.py").write_text("own")
    (repository / "pyproject.toml").write_text(OWN)
    said = init(repository)
    assert "left tests/test_kernels.py as it is\n" in said
    assert (repository / "tests" / "test_kernels.py").read_text() == "own"
    text = (repository / "pyproject.toml").read_text()
    assert text.startswith(OWN + "\n\n[tool.warpwatch]\n")
    expected = tomllib.loads(OWN)
    expected["tool"]["warpwatch"] = {"kernels": "perf"}
    assert tomllib.loads(text) == expected


@pytest.mark.slow
def test_a_second_call_changes_nothing(repository: Path) -> None:
    (repository / "pyproject.toml").write_text(OWN)
    init(repository)
    before = {name: (repository / name).read_bytes() for name in files(repository)}
    said = init(repository)
    assert {name: (repository / name).read_bytes() for name in files(repository)} == before
    assert "wrote" not in said
    assert "it names kernels already" in said


def test_git_ignores_saved_runs_and_caches(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.o\n.benchmarks")
    assert "wrote .pytest_cache/, .venv/, __pycache__/, /site/ in .gitignore\n" in init(repository)
    text = "*.o\n.benchmarks\n.pytest_cache/\n.venv/\n__pycache__/\n"
    assert (repository / ".gitignore").read_text() == text + "/site/\n"


def test_git_does_not_ignore_a_site_that_is_not_the_reports(repository: Path) -> None:
    (repository / "site").mkdir()
    init(repository)
    assert "site" not in (repository / ".gitignore").read_text()


def test_a_repository_that_names_its_kernels_keeps_them(repository: Path) -> None:
    (repository / "pyproject.toml").write_text('[tool.pytest.ini_options]\nwarpwatch_kernels = "own"\n')
    init(repository)
    assert files(repository) == {name for name in WRITTEN if not name.startswith("perf/")}
    assert "warpwatch]" not in (repository / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("perf/__init__.py", "", "error: perf/__init__.py exists and may be no package of kernels"),
        ("perf.py", "", "error: perf.py exists and may be no package of kernels"),
        ("pyproject.toml", "[project\n", "pyproject.toml: [tool.warpwatch] cannot be added at its end"),
        ("pyproject.toml", "tool = {}\n", "pyproject.toml: [tool.warpwatch] cannot be added at its end"),
        ("pyproject.toml", "[tool.warpwatch]\nkernel = 'a'\n", "an unknown key 'kernel'; did you mean kernels?"),
    ],
)
def test_a_file_that_cannot_take_it_stops_it_before_anything_is_written(
    repository: Path, name: str, text: str, said: str
) -> None:
    (repository / name).parent.mkdir(exist_ok=True)
    (repository / name).write_text(text)
    assert said in init(repository, status=2)
    assert files(repository) == {name}


def test_jobs_for_gitlab_stand_in_place_of_a_workflow(repository: Path) -> None:
    init(repository, "--gitlab")
    assert files(repository) == WRITTEN - {".github/workflows/kernels.yml"} | {".gitlab-ci.yml", ".gitlab/kernels.yml"}
    (repository / ".gitlab-ci.yml").write_text("own: {script: make}\n")
    assert "it needs the line `include: [{local: .gitlab/kernels.yml}]`" in init(repository, "--gitlab")
    assert (repository / ".gitlab-ci.yml").read_text() == "own: {script: make}\n"


def test_agents_alone_and_jobs_for_gitlab_exclude_each_other(repository: Path) -> None:
    assert "argument --gitlab: not allowed with argument --agents" in init(repository, "--agents", "--gitlab", status=2)
    assert not files(repository)


def test_the_workflow_is_sound(repository: Path) -> None:
    init(repository)
    shutil.copytree(ACTIONS, repository / ".github" / "actions")
    done = check(repository)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "options", "timed"),
    [("", (), "256x1024"), (OWN, (), "256x1024"), ("", ("--torch",), "256x1024"), ("", ("--pycuda",), "100000-")],
)
def test_the_first_run_is_green_on_the_software_device(
    repository: Path, before: str, options: tuple[str, ...], timed: str
) -> None:
    if before:
        (repository / "pyproject.toml").write_text(before)
    init(repository, *options)
    done = run_pytest(repository, "--device=software")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
    done = run_pytest(repository, "bench", "--device=software", "--benchmark-max-time=0.01", "-k", timed)
    assert done.returncode == 0, done.stdout + done.stderr
