"""The plugin in other people's repositories: without kernels it does nothing there and costs little."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.stranger import SETTING, TABLE, declare, run_pytest, run_python, start_pytest

LIGHT = {
    "warpwatch",
    "warpwatch.arguments",
    "warpwatch.catalogue",
    "warpwatch.catalogue.leaving",
    "warpwatch.catalogue.names",
    "warpwatch.catalogue.setting",
    "warpwatch.plugin",
    "warpwatch.plugin.judge",
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
# What the plugin makes Python import, beside what pytest with pytest-benchmark imports by itself.
IMPORTED = """
import json, sys
import pytest
pytest.main(["--co", "-q", "-p", "no:cacheprovider", *sys.argv[1:]])
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.once
@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_without_kernels_it_adds_nothing_and_leaves_the_names_of_options_to_others(
    tmp_path: Path, workers: str
) -> None:
    (tmp_path / "conftest.py").write_text(OWN_OPTION)
    (tmp_path / "test_look.py").write_text(LOOK)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    done = start_pytest(tmp_path, workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "device:" not in done.stdout


@pytest.mark.slow
def test_without_kernels_help_names_the_option_that_names_them_and_no_other(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, "--help").stdout
    assert "--warpwatch-kernels=PACKAGE" in said
    assert "--self-check" not in said
    assert "--warpwatch-self-check" not in said


@pytest.mark.once
@pytest.mark.parametrize("what", ["--markers", "--fixtures"])
def test_without_kernels_there_is_no_mark_and_no_fixture_of_ours(tmp_path: Path, what: str) -> None:
    done = run_pytest(tmp_path, what)
    assert "benchmark" in done.stdout  # those of another plugin are listed
    assert "warpwatch/plugin/" not in done.stdout
    assert "mark.cases" not in done.stdout


@pytest.mark.slow
def test_without_kernels_it_imports_seven_small_modules(tmp_path: Path) -> None:
    """Compare what is imported with and without it; the time varies with the machine, and this does not."""

    def imported(*args: str) -> set[str]:
        return set(json.loads(run_python(tmp_path, "-c", IMPORTED, *args).stdout.splitlines()[-1]))

    without = imported()
    assert "warpwatch" not in without
    assert imported("-p", "warpwatch.plugin") - without == LIGHT


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("how", ["table", "setting", "command line", "options"])
def test_with_kernels_it_has_its_options_wherever_they_are_named(tmp_path: Path, how: str) -> None:
    settings = {"table": TABLE, "setting": SETTING, "command line": ""}
    declare(tmp_path, settings.get(how, '[tool.pytest.ini_options]\naddopts = "--warpwatch-kernels=mine"\n'))
    (tmp_path / "test_one.py").write_text("def test_one(project):\n    assert project.module == 'mine'\n")
    given = ("--warpwatch-kernels", "mine") if how == "command line" else ()
    for workers in ("-n0", "-n1"):
        done = run_pytest(tmp_path, "--device=none", workers, *given)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_table_above_pytests_root_counts_and_one_beyond_a_project_does_not(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests" / "test_one.py").write_text(
        f"def test_one(project):\n    assert str(project.root) == {str(tmp_path)!r}\n"
    )
    done = run_pytest(tmp_path / "tests", "--device=none")
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "tests" / "pyproject.toml").write_text("")
    assert "fixture 'project' not found" in run_pytest(tmp_path / "tests").stdout


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(("has_kernels", "timeout"), [(False, None), (True, "4")])
def test_the_idle_threads_of_numpy_sleep_where_there_are_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_kernels: bool, timeout: str | None
) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    if has_kernels:
        declare(tmp_path)
    (tmp_path / "conftest.py").write_text(f"{SLEEPING}\nassert AT_THE_START == {timeout!r}\n")
    (tmp_path / "test_look.py").write_text("def test_look(): pass\n")
    done = start_pytest(tmp_path, "--co")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_benchmark_under_xdist_is_refused_wherever_it_lies(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n@pytest.mark.cases('timed')\ndef test_one(measure):\n    raise AssertionError('it ran')\n"
    )
    done = run_pytest(tmp_path, "--device=none", "-n1", "-k", "serial and 1048576")
    assert done.returncode not in (0, pytest.ExitCode.INTERNAL_ERROR), done.stdout + done.stderr
    assert "leave -n out" in done.stdout
    assert "it ran" not in done.stdout


def setting(name: str, message: str) -> tuple[str, str]:
    """Return a setting of pytest, and how the sentence on it begins."""
    return f'[tool.pytest.ini_options]\nwarpwatch_kernels = "{name}"\n', f"ERROR: warpwatch_kernels = '{name}'{message}"


@pytest.mark.once
@pytest.mark.parametrize(
    ("text", "begin"),
    [
        setting("absent", ": {root} has no such package or module (No module named 'absent')"),
        setting(".", " is not an import path of a package or module, such as kernels"),
        setting("my-kernels", " is not an import path of a package or module"),
        setting("src/kernels.py", " is not an import path of a package or module, "),
        setting("json", ": "),
        *((f"[tool.warpwatch]\n{table}\n", "") for table in ('kernel = "mine"', 'baselines = "here"', "kernels = 3")),
    ],
)
def test_a_wrong_name_or_table_is_answered_in_a_sentence(tmp_path: Path, text: str, begin: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    done = run_pytest(tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (sentence,) = (line for line in done.stderr.splitlines() if line)
    assert sentence.startswith(begin.format(root=tmp_path))
    assert begin or "[tool.warpwatch]" in sentence
