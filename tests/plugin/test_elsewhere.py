"""The plugin in other people's repositories: without kernels it does nothing there and costs little."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT

LIGHT = {
    "warpwatch",
    "warpwatch.arguments",
    "warpwatch.catalogue",
    "warpwatch.catalogue.setting",
    "warpwatch.plugin",
    "warpwatch.plugin.options",
}
LOOK = f"""
import sys

def test_look(pytestconfig):
    assert {{name for name in sys.modules if name.partition(".")[0] == "warpwatch"}} == {LIGHT!r}
    assert not {{"numpy", "scipy", "msgspec", "pycuda", "softcuda"}} & sys.modules.keys()
    assert pytestconfig.getoption("--device") == "tpu"
"""
SLEEPING = """
import os, sys

assert "numpy" not in sys.modules
AT_THE_START = os.environ.get("OPENBLAS_THREAD_TIMEOUT")
"""
OWN_OPTION = """
def pytest_addoption(parser):
    parser.addoption("--device", default="tpu")
"""


def run_elsewhere(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in another repository, with the plugin loaded as an installed one is."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-P", "-m", "pytest", "-p", "warpwatch.plugin", "-p", "no:cacheprovider", *args]
    environment = own | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_without_kernels_it_imports_little_and_leaves_the_names_of_options_to_others(
    tmp_path: Path, workers: str
) -> None:
    (tmp_path / "conftest.py").write_text(OWN_OPTION)
    (tmp_path / "test_look.py").write_text(LOOK)
    done = run_elsewhere(tmp_path, workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "device:" not in done.stdout


def test_without_kernels_help_names_the_option_that_names_them_and_no_other(tmp_path: Path) -> None:
    said = run_elsewhere(tmp_path, "--help").stdout
    assert "--warpwatch-kernels=PACKAGE" in said
    assert "--self-check" not in said


KERNELS = "from warpwatch.catalogue.declaration import Family\nFAMILIES: tuple[Family, ...] = ()\n"


@pytest.mark.parametrize("how", ["setting", "command line", "options"])
def test_with_kernels_it_has_its_options_wherever_they_are_named(tmp_path: Path, how: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(KERNELS)
    setting = 'warpwatch_kernels = "mine"' if how == "setting" else ""
    if how == "options":
        setting = 'addopts = "--warpwatch-kernels=mine"'
    (tmp_path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{setting}\n")
    (tmp_path / "test_one.py").write_text("def test_one(project):\n    assert project.module == 'mine'\n")
    given = ("--warpwatch-kernels", "mine") if how == "command line" else ()
    for workers in ("-n0", "-n1"):
        done = run_elsewhere(tmp_path, "--device=none", workers, *given)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("named", "timeout"), [("", None), ("kernels", "4")])
def test_the_idle_threads_of_numpy_sleep_where_there_are_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, timeout: str | None
) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    (tmp_path / "kernels.py").write_text("FAMILIES = ()\n")
    (tmp_path / "conftest.py").write_text(f"{SLEEPING}\nassert AT_THE_START == {timeout!r}\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = .\nwarpwatch_kernels = {named}\n")
    (tmp_path / "test_look.py").write_text("def test_look(): pass\n")
    done = run_elsewhere(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_benchmark_under_xdist_is_refused_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(KERNELS)
    (tmp_path / "test_one.py").write_text("def test_one(comparison):\n    raise AssertionError('it ran')\n")
    done = run_elsewhere(tmp_path, "--device=none", "--warpwatch-kernels=mine", "-n1")
    assert done.returncode not in (0, pytest.ExitCode.INTERNAL_ERROR), done.stdout + done.stderr
    assert "leave -n out" in done.stdout
    assert "it ran" not in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "warpwatch_kernels = 'absent': {root} has no such package (No module named 'absent')"),
        (".", "warpwatch_kernels = '.' is no import path of a package, such as kernels or project.kernels"),
        ("my-kernels", "warpwatch_kernels = 'my-kernels' is no import path of a package"),
        ("src/kernels", "warpwatch_kernels = 'src/kernels' is no import path of a package"),
        ("json", "warpwatch_kernels = 'json': "),
    ],
)
def test_a_wrong_name_is_answered_in_a_sentence(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.pytest.ini_options]\nwarpwatch_kernels = "{name}"\n')
    done = run_elsewhere(tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (sentence,) = (line for line in done.stderr.splitlines() if line)
    assert sentence.startswith(f"ERROR: {said.format(root=tmp_path)}")
