"""Tests of ``--untrusted``: the same verdicts, and nothing of the repository runs where they are given."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.project import ROOT
from tests.stranger import environment, run_command, run_pytest
from warpwatch.runs.record import read_run

DECLARED = """
import numpy as np
import warpwatch as ww

def family(name, **more):
    usual = dict(
        sizes=("n",), dtypes=("float32",), arrays=lambda n: {"x": ww.In(n), "y": ww.Out(n)},
        reference=lambda x: 2.0 * x.astype(np.float64), tolerance=ww.ulp(1), tests=((1000,),), benchmarks=((1000,),),
        variants=(ww.kernel("right", configurations=((256,),), source="right.cu", entry="right", x=0, y=None),),
    )
    return ww.Family(name, **usual | more)

def kernel(name):
    return ww.kernel(name, configurations=((256,),), source=name + ".cu", entry=name, x=0, y=None)

TWICE = family("twice", variants=(kernel("right"), kernel("late")))
MISTAKE = family("mistake", dtypes=["float32"])
"""
SOURCE = """
extern "C" __global__ void NAME(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i] + (i == n - 1 ? LATE : 0);
}
"""
TESTS = """
import pytest

@pytest.mark.cases("tested")
def test_right(check):
    check()

@pytest.mark.cases("edges")
def test_edge(check):
    check()
"""
BENCH = """
import pytest

@pytest.mark.cases("timed")
def bench_kernel(measure):
    measure()
"""
# What a repository brings to have its kernels pass. Each says in which process it ran.
EVIL = """
import atexit, os, sys

def ran(who):
    words = sys.orig_argv
    where = "judge" if "warpwatch-judge" in str(words) else "worker" if "class Engine" in str(words) else "other"
    where = "declarations" if "answering.py" in str(words) else where
    try:
        with open({log!r}, "a") as file:
            print(who, where, file=file)
    except OSError:  # a process that may not write there
        pass

ran(__name__)
atexit.register(ran, "atexit of " + __name__)
"""
HOOKS = """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    ran("hook of " + __name__)
    report.outcome = "passed"
    return report
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a kernel that is right, one that is wrong, and a family with a mistake."""
    for folder in ("tests", "bench", "mine"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(DECLARED)
    for name, late in (("right", "0"), ("late", "1e-3f")):
        (tmp_path / "mine" / f"{name}.cu").write_text(SOURCE.replace("NAME", name).replace("LATE", late))
    (tmp_path / "tests" / "test_kernels.py").write_text(TESTS)
    (tmp_path / "bench" / "bench_kernels.py").write_text(BENCH)
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    return tmp_path


def outcomes(folder: Path, *arguments: str) -> dict[str, str]:
    """Run pytest, and return the outcome of each test by its name."""
    file = folder / "junit.xml"
    file.unlink(missing_ok=True)
    done = run_pytest(folder, "--device=software", f"--junitxml={file}", *arguments)
    assert file.exists(), done.stdout + done.stderr
    cases = ElementTree.parse(file).iter("testcase")
    return {
        case.attrib["name"]: "".join(sorted(each.tag for each in case if each.tag != "properties")) for case in cases
    }


@pytest.mark.slow
@pytest.mark.parametrize("where", ["tests", "bench"])
def test_verdicts_are_the_same(repository: Path, where: str) -> None:
    trusted, untrusted = outcomes(repository, where), outcomes(repository, where, "--untrusted")
    assert trusted == untrusted
    names = {"tests": "test_right", "bench": "bench_kernel"}
    assert trusted[f"{names[where]}[twice-right-256-1000-float32]"] == ""
    assert trusted[f"{names[where]}[twice-late-256-1000-float32]"] == "failure"
    assert trusted[f"{names[where]}[mistake]"] in ("failure", "error")


def plant(repository: Path) -> Path:
    """Plant what would have wrong kernels pass; return the file in which it says where it ran."""
    log = repository / "log"
    evil = EVIL.format(log=str(log))
    (repository / "evil.py").write_text(evil + HOOKS)
    (repository / "conftest.py").write_text(evil + HOOKS)
    (repository / "tests" / "conftest.py").write_text(evil + HOOKS)
    (repository / "sitecustomize.py").write_text(evil)
    (repository / "numpy_extra.py").write_text(evil)
    (repository / "tests" / "test_kernels.py").write_text("def test_all_is_well(): pass\n")
    (repository / "mine" / "__init__.py").write_text(
        DECLARED
        + evil
        + "import warpwatch.timing.checks as checks, warpwatch.devices.mismatch as mismatch\n"
        + "checks.check_result = mismatch.compare_all = mismatch.compare = lambda *a, **k: {}\n"
    )
    settings = '[tool.pytest.ini_options]\naddopts = ["-p", "evil"]\npythonpath = ["."]\npython_files = "none.py"\n'
    (repository / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n' + settings)
    return log


def places(log: Path) -> set[str]:
    """Return the processes in which something of the repository ran."""
    return {line.rpartition(" ")[2] for line in log.read_text().splitlines()} if log.exists() else set()


@pytest.mark.once
@pytest.mark.parametrize("where", ["tests", "bench"])
def test_nothing_of_the_repository_runs_where_results_are_judged(repository: Path, where: str) -> None:
    log = plant(repository)
    found = outcomes(repository, where, "--untrusted", "-k", "twice")
    assert {name for name, outcome in found.items() if outcome} == {n for n in found if "twice-late" in n}
    assert {"tests": "test_edge[twice-late-256-1-float32]"}.get(
        where, "bench_kernel[twice-late-256-1000-float32]"
    ) in found
    assert places(log) <= {"declarations", "other"}
    assert "conftest" not in log.read_text()  # the first process ends before


@pytest.mark.slow
def test_modules_and_variables_of_the_repository_do_not_reach_it(repository: Path) -> None:
    log = plant(repository)
    (repository / "argcomplete.py").write_text((repository / "evil.py").read_text())
    (repository / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    variables = environment() | {"PYTHONPATH": f"{ROOT}{os.pathsep}{repository}", "PYTEST_PLUGINS": "evil"}
    command = [sys.executable, "-m", "pytest", "-p", "warpwatch.plugin", "--untrusted", "--device=software", "tests"]
    done = subprocess.run(
        [*command, "-k", "test_right and twice"],
        cwd=repository,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stderr
    assert places(log) <= {"declarations", "other"}


@pytest.mark.slow
def test_the_command_judges_without_a_first_process(repository: Path) -> None:
    log = plant(repository)
    done = run_command(repository, "judge", "correctness", "--device=software", "-k", "test_right and twice")
    assert "1 failed, 1 passed" in done.stdout, done.stderr
    assert places(log) <= {"declarations"}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["tests", "bench"])
def test_a_wrong_kernel_names_the_command_that_judges_it_again(repository: Path, where: str) -> None:
    done = run_pytest(repository, "--device=software", where, "--untrusted", "-k", "twice-late-256-1000 and not edge")
    (command,) = set(re.findall(r'  again     pytest "(.*)" --untrusted', done.stdout))
    again = run_pytest(repository, "--device=software", command, "--untrusted")
    assert "1 failed in" in again.stdout
    (where,) = set(re.findall(r'  again     pytest "(.*)" --untrusted', again.stdout))
    assert where == command


@pytest.mark.slow
def test_a_seed_is_told_afterwards_and_draws_the_same_again(repository: Path) -> None:
    def lines(*arguments: str) -> tuple[str, list[str]]:
        done = run_pytest(repository, "--device=software", "tests", "--untrusted", "-k", "late", *arguments)
        (seed,) = re.findall(r"untrusted: inputs and poison follow from --draw-seed=(\d+)", done.stdout)
        return seed, re.findall("  worst .*", done.stdout)

    first, other = lines(), lines()
    assert first[0] != other[0]
    assert first[1] != other[1]
    assert lines(f"--draw-seed={first[0]}") == first


@pytest.mark.slow
def test_a_saved_run_holds_its_seed(repository: Path) -> None:
    run_pytest(repository, "--device=software", "bench", "--untrusted", "-k", "right")
    (file,) = (repository / ".benchmarks" / "softcuda").glob("*.json")
    run = read_run(file)
    assert [note for note in run.notes if note.startswith("untrusted: inputs and poison follow from --draw-seed=")]


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-n", "2"), "--untrusted: processes of xdist would import what lies in the repository: leave -n out"),
        (("--against", "HEAD"), "--untrusted: --against measures two sides in one process"),
        (("--self-check",), "--untrusted: --self-check measures two sides in one process"),
    ],
)
def test_what_cannot_be_untrusted_is_refused(repository: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = run_pytest(repository, "--device=software", "bench", "--untrusted", *arguments)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert sentence in done.stderr


@pytest.mark.slow
def test_a_seed_without_the_option_is_refused(repository: Path) -> None:
    done = run_pytest(repository, "--device=software", "tests", "--draw-seed=1")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--draw-seed draws nothing by itself: give --untrusted too" in done.stderr


@pytest.mark.once
@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            "CALL = family('called', variants=(ww.call('call', function=lambda x, y, stream: None, needs_gpu=False),))",
            "called-call-vendor-1000-float32 is wrong in 1,000 of 1,000 elements",
        ),
        (
            "SAME = family('same', draw=lambda n: {'x': np.ones(n, np.float32)})",
            "family same: draw at 1000, float32, returns the same x for every seed of `rng`",
        ),
        (
            "FLAG = family('same', variants=(ww.kernel('right', configurations=((1,),), flags=('-ccbin=.',)),))",
            "family same, variant right: flags has '-ccbin=.': --untrusted takes options that change code",
        ),
        (
            "HOST = family('same', variants=(ww.serial('serial', source='right.cu', x=0, y=None),))",
            "skipped: --untrusted runs no C++ for the host",
        ),
    ],
)
def test_what_cannot_be_judged_fails_with_a_sentence(repository: Path, code: str, sentence: str) -> None:
    with (repository / "mine" / "__init__.py").open("a") as file:
        file.write(code)
    done = run_pytest(repository, "--device=software", "tests", "--untrusted", "-k", "called or same")
    assert (done.returncode == pytest.ExitCode.OK) == ("skipped" in sentence)
    assert sentence in done.stdout
    shared = "no /dev/shm of its own: not used, because the software device shares memory by it"
    assert (shared in done.stdout) == ("CALL" in code)  # among the notes, as what other processes lack
