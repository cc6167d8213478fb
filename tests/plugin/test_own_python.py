"""Tests runs whose declaration's own Python ends the process, never ends, or takes long."""

from __future__ import annotations

import os
import shutil
import timeit
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.stranger import run_pytest

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")

PERF = """
import os, signal, sys, time
import numpy as np
import warpwatch as ww

FACTOR = 2

def interrupt():
    raise KeyboardInterrupt

def spin():
    while True:
        pass

def slow(x):
    time_of_day = 0
    for number in range({count}):
        time_of_day += number
    return x * FACTOR

def family(name, reference, **fields):
    return ww.Family(
        name, sizes=("n",), dtypes=("float32",), arrays=lambda n: {{"x": ww.In(n), "y": ww.Out(n)}},
        reference=reference, tolerance=ww.relative(1e-6), tests=((33,), (700,)), benchmarks=((700,),),
        variants=(ww.kernel("plain", "one", source="twice.cu", entry="twice", configurations=((64,),),
                            grid=lambda n: ww.blocks(n, 64), arguments="x y n"),), **fields)

OTHER = family("other", lambda x: 2 * x)
SCALE = family("scale", lambda x: {reference})
"""
KERNEL = """
__global__ void twice(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i];
}
"""
TESTS = """
import pytest

@pytest.mark.cases("tested")
def test_right(check):
    check()

@pytest.mark.cases("timed")
def test_time(measure):
    measure()
"""


def project(folder: Path, reference: str, count: int = 0) -> None:
    """Write a repository of two families, of which ``scale`` has this reference."""
    (folder / "perf").mkdir(exist_ok=True)
    (folder / "perf" / "__init__.py").write_text(PERF.format(reference=reference, count=count))
    (folder / "perf" / "twice.cu").write_text(KERNEL)
    (folder / "test_own.py").write_text(TESTS)
    (folder / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')


def run(folder: Path, *args: str) -> CompletedProcess[str]:
    return run_pytest(folder, "-q", "--device=software", "--benchmark-max-time=0.05", *args)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("leaves", "said"),
    [
        ("sys.exit(0)", "it would end the process, by SystemExit(0): let it return, or raise an error"),
        ("os._exit(0)", "it would end the process, by os._exit(0): let it return, or raise an error"),
        ("interrupt()", "KeyboardInterrupt"),
        ("os._exit(3)", "ended the process in which it ran (exit status 3): let it return its results, or raise"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended the process in which it ran (SIGKILL)"),
        ("spin()", "did not end within"),
    ],
)
@pytest.mark.parametrize("when", ["True", "len(x) > 500"], ids=["always", "large"])
def test_a_reference_that_leaves_or_never_ends_fails_its_family_alone(
    tmp_path: Path, leaves: str, said: str, when: str
) -> None:
    project(tmp_path, f"{leaves} if {when} else 2 * x")
    limit = "5" if when == "True" else "1"  # a tenth of it for the smallest shape
    done = run(tmp_path, *(["--reference-timeout", limit] if "spin" in leaves else []))
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert said in done.stdout
    assert "the reference" in done.stdout or "family scale: reference" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    # Of the other family two tests and a benchmark; of this one the small shape, where that is right.
    assert f"{3 if when == 'True' else 4} passed" in done.stdout


@pytest.mark.slow
def test_a_slow_reference_is_named_once_and_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    seconds = timeit.timeit("n += 1", "n = 0", number=10**6)
    project(tmp_path, "slow(x) if len(x) > 500 else 2 * x", count=int(4e6 / seconds))
    waiting = "waiting for the reference of scale at 700, float32 (NumPy on the host): "
    first = run(tmp_path, "-k", "right")
    assert first.returncode == 0, first.stdout
    assert first.stdout.count(waiting) == 1
    second = run(tmp_path, "-k", "right").stdout
    assert waiting not in second
    alone = "1 tested on the usual inputs alone: the reference of scale takes over 1 s"
    assert alone in first.stdout
    assert alone in second
    declaration = tmp_path / "perf" / "__init__.py"
    declaration.write_text(declaration.read_text().replace("FACTOR = 2", "FACTOR = 3"))
    changed = run(tmp_path, "-k", "right")
    assert "scale-plain-64-700-float32 is wrong" in changed.stdout  # a constant that the reference reaches


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("file", ["perf/__init__.py", "conftest.py", "test_own.py"])
@pytest.mark.parametrize("leaves", ["os._exit(0)", "sys.exit(0)"])
def test_a_module_that_ends_the_process_when_it_is_imported_is_no_good_run(
    tmp_path: Path, file: str, leaves: str
) -> None:
    project(tmp_path, "2 * x")
    path = tmp_path / file
    path.write_text((path.read_text() if path.exists() else "") + f"\nimport os, sys\n{leaves}\n")
    done = run(tmp_path)
    assert done.returncode not in (0, None), done.stdout + done.stderr
    assert leaves.removesuffix("(0)") in done.stdout + done.stderr or "SystemExit" in done.stdout + done.stderr


@pytest.mark.once
@pytest.mark.parametrize("field", ["work", "draw", "arrays"])
@pytest.mark.parametrize("leaves", ["os._exit(0)"])
def test_a_function_that_ends_the_process_fails_its_family_alone(tmp_path: Path, field: str, leaves: str) -> None:
    project(tmp_path, "2 * x")
    path = tmp_path / "perf" / "__init__.py"
    path.write_text(
        path.read_text() + f"import dataclasses\nSCALE = dataclasses.replace(SCALE, {field}=lambda: {leaves})\n"
    )
    done = run(tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert f"family scale: {field} cannot be used: it would end the process" in done.stdout
    assert "3 passed" in done.stdout


def test_a_process_that_is_forked_ends_as_it_likes() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
