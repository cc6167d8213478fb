"""Tests where declarations are found, and that what is wrong there is said in one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.project import ROOT, importing_apart
from tests.stranger import TABLE, declare, run_command, run_pytest, run_python
from warpwatch.catalogue.project import BadProject, find_project

BOTH = '[tool.warpwatch]\nkernels = "mine"\n[tool.pytest.ini_options]\nwarpwatch_kernels = "{}"\n'


def refusal(folder: Path) -> str:
    """Return why a folder's kernels cannot be loaded, after a check that it is one line."""
    with importing_apart("mine"), pytest.raises(BadProject) as caught:
        find_project(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "{root} says where kernels are declared: name the package or module that declares them"),
        ("[tool.warpwatch]\n", "[tool.warpwatch] names no kernels: name the package or module that declares them"),
        ('[tool.warpwatch]\nkernel = "mine"\n', "[tool.warpwatch] has an unknown key 'kernel'; did you mean kernels?"),
        (
            '[tool.warpwatch]\nbaseline = "a"\n',
            "has an unknown key 'baseline'; did you mean baselines?",
        ),
        ('[tool.warpwatch]\ndevice = "a"\n', "an unknown key 'device'; there are: kernels, baselines, runs"),
        ("[tool.warpwatch]\nkernels = 3\n", "[tool.warpwatch] has kernels = 3: write the import path of a package in"),
        ('[tool.warpwatch]\nkernels = ""\n', "[tool.warpwatch] has kernels = '': write the import path of a package"),
        ('[tool]\nwarpwatch = "mine"\n', "tool.warpwatch is 'mine': write a table [tool.warpwatch] with kernels in it"),
        ("[tool.warpwatch\n", "pyproject.toml: cannot be read ("),
        (BOTH.format("other"), "[tool.warpwatch] kernels = 'mine', but warpwatch_kernels = 'other': leave one of them"),
        (TABLE.replace("mine", "mine/__init__.py"), "is not an import path of a package or module, such as mine"),
        (TABLE.replace("mine", "absent"), "kernels = 'absent': {root} has no such package or module (No module named"),
        (TABLE.replace("mine", "mine.absent"), "{root} has no such package or module (No module named 'mine.absent')"),
    ],
)
def test_a_wrong_setting_is_refused_in_a_sentence(tmp_path: Path, settings: str, said: str) -> None:
    declare(tmp_path, settings)
    assert said.format(root=tmp_path) in refusal(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1 / 0\n", "mine/__init__.py:1: ZeroDivisionError: division by zero"),
        ("\nimport absent_from_here\n", "mine/__init__.py:2: ModuleNotFoundError: No module named 'absent_from_here'"),
        ("import mine.part\n", "mine/part.py:3: ValueError: too large"),
        ("x = 1\ny = (\n", "mine/__init__.py:2: SyntaxError: '(' was never closed (__init__.py, line 2)"),
        ("import json\njson.loads('{')\n", "mine/__init__.py:2: JSONDecodeError: "),
        ("raise SystemExit(3)\n", "mine/__init__.py:1: SystemExit: 3"),
        ("", "mine/__init__.py declares no Family: write one there, or import it there"),
        ("FAMILIES = ()\n", "FAMILIES in {root}/mine/__init__.py is empty"),
        ("FAMILIES = 3\n", "FAMILIES in {root}/mine/__init__.py is not a tuple of warpwatch's Family"),
        ("FAMILIES = ('copy',)\n", "FAMILIES in {root}/mine/__init__.py is not a tuple of warpwatch's Family"),
    ],
)
def test_a_module_that_raises_or_declares_nothing_is_refused_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    package = declare(tmp_path)
    (package / "part.py").write_text("def make():\n    # a line\n    raise ValueError('too large')\n\nmake()\n")
    (package / "__init__.py").write_text(text)
    told = refusal(tmp_path)
    assert told.startswith("[tool.warpwatch] kernels = 'mine': ")
    assert said.format(root=tmp_path) in told


def test_a_package_of_that_name_elsewhere_is_not_taken_for_the_repositorys_own(tmp_path: Path) -> None:
    declare(tmp_path, TABLE.replace("mine", "json"))
    (tmp_path / "mine").rename(tmp_path / "json")
    said = refusal(tmp_path)
    assert "json/__init__.py: give yours in" in said


def listed(folder: Path, *args: str) -> str:
    done = run_command(folder, "list", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("settings", [TABLE, BOTH.format("mine")])
def test_a_package_is_found_from_any_folder_below(tmp_path: Path, settings: str) -> None:
    declare(tmp_path, settings)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text('[project]\nname = "warpwatch of another kind"\n')
    assert "copy-naive-256-1048576-float32" in listed(tmp_path / "a" / "b")


def test_a_single_file_may_declare_the_kernels_beside_it(tmp_path: Path) -> None:
    package = declare(tmp_path, TABLE.replace("mine", "perf.bandwidth"))
    shutil.copytree(package, tmp_path / "perf")
    (tmp_path / "perf" / "__init__.py").rename(tmp_path / "perf" / "bandwidth.py")
    assert "copy-naive-256-1048576-float32" in listed(tmp_path)


@pytest.mark.slow
def test_without_families_every_family_counts_once_in_order_of_definition(tmp_path: Path) -> None:
    package = declare(tmp_path)
    shutil.copytree(ROOT / "kernels" / "hello", package / "hello")
    text = (package / "__init__.py").read_text()
    (package / "__init__.py").write_text(text + "\nSAME = COPY\n\nfrom mine.hello import HELLO\n")
    code = "from pathlib import Path; from warpwatch.catalogue.project import find_project as f;"
    said = run_python(tmp_path, "-c", f"{code} print([family.name for family in f(Path.cwd()).families])").stdout
    assert said == "['copy', 'hello']\n"
    (package / "__init__.py").write_text(text + "\nfrom mine.hello import HELLO\n\nFAMILIES = [HELLO, COPY]\n")
    said = run_python(tmp_path, "-c", f"{code} print([family.name for family in f(Path.cwd()).families])").stdout
    assert said == "['hello', 'copy']\n"


@pytest.mark.slow
def test_baselines_and_saved_runs_are_where_the_repository_wants_them(tmp_path: Path) -> None:
    declare(tmp_path, TABLE + 'baselines = "perf/expected"\nruns = "out/runs"\n')
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kernels.py").write_text((ROOT / "bench" / "bench_kernels.py").read_text())
    few = ("bench", "-k", "serial and 1048576 and float32", "--benchmark-max-time=0.01", "--benchmark-save=one")
    done = run_pytest(tmp_path, "--device=none", *few)
    assert done.returncode == 0, done.stdout + done.stderr
    (saved,) = (tmp_path / "out" / "runs").rglob("*_one.json")
    assert not (tmp_path / ".benchmarks").exists()
    done = run_command(tmp_path, "baseline", "promote", str(saved), "--allow", "gpu", "dirty", "partial")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "perf" / "expected").rglob("*_one.json.xz"))
    assert not (tmp_path / "bench" / "baselines").exists()
