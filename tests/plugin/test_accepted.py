"""Tests that findings which are accepted pass, and are shown with their reasons wherever a run is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.stranger import run_pytest, run_python

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
KERNEL = """extern "C" __global__ void fill(float* x, int* flag, int n)
{
    *flag = threadIdx.x; // warpwatch: accept race: any value will do
    if (threadIdx.x < n)
        x[threadIdx.x] = 8;
}
"""
DECLARED = """
import numpy as np
import warpwatch as ww

FILL = ww.Family(
    "fill",
    sizes=("n",),
    arrays=lambda n: {"x": ww.Out(n, "float32"), "flag": ww.Scratch(1, "int32")},
    reference=lambda n: np.full(n, 8.0),
    tests=((5,), (9,)),
    variants=(
        ww.kernel("k", source="k.cu", entry="fill", configurations=(32,), grid=1, arguments="x flag n",
                  accept=(ww.Accept("out of bounds", line=5, reason="never"),)),
    ),
)
"""
FOUND = "race at perf/k.cu:3: any value will do"


@pytest.mark.slow
def test_a_comment_of_a_header_that_cannot_be_read_fails_its_tests_alone(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "perf" / "k.cu").write_text(f'#include "more.h"\n{KERNEL}')
    (tmp_path / "perf" / "more.h").write_text("// warpwatch: accept race\n")
    done = run_pytest(tmp_path, "--device=software")
    assert "2 failed" in done.stdout, done.stdout + done.stderr
    assert "perf/more.h, line 1: '// warpwatch: accept race' is not" in done.stdout


@pytest.mark.slow
def test_what_one_variant_accepts_is_a_fault_of_another_one_of_the_same_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the environment of a run accept anything."""
    monkeypatch.setenv("SOFTCUDA_ACCEPT", "race\tfill\tperf/k.cu:3")
    repository(tmp_path)
    (tmp_path / "perf" / "k.cu").write_text(KERNEL.replace("// warpwatch: accept race: any value will do", ""))
    more = 'ww.kernel("other", source="k.cu", entry="fill", configurations=(32,), grid=1, arguments="x flag n"),'
    own = DECLARED.replace('"out of bounds", line=5', '"race", line=3')
    own = own.replace("    ),\n)", f"        {more}\n    ),\n)")
    (tmp_path / "perf" / "__init__.py").write_text(own)
    done = run_pytest(tmp_path, "--device=software", "-n0")
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert all(f"FAILED test_one.py::test_one[fill-other-32-{n}-float32]" in done.stdout for n in (5, 9))


def repository(folder: Path) -> None:
    (folder / "perf").mkdir()
    (folder / "perf" / "k.cu").write_text(KERNEL)
    (folder / "perf" / "__init__.py").write_text(DECLARED)
    (folder / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')
    (folder / "test_one.py").write_text(
        "import pytest\n\n@pytest.mark.cases('tested')\ndef test_one(check):\n    check()\n"
    )


@pytest.mark.slow
def test_an_accepted_finding_is_shown_and_fails_nothing(tmp_path: Path) -> None:
    repository(tmp_path)
    done = run_pytest(tmp_path, "--device=software", "--json=out.json")
    assert done.returncode == 0, done.stdout
    assert f"accepted: {FOUND} (2 tests)" in done.stdout
    assert "accepted, and found by no test of this run: out of bounds at perf/k.cu:5: never" in done.stdout
    document = json.loads((tmp_path / "out.json").read_text())
    assert all(FOUND in case["remarks"] for case in document["cases"])
    assert f"accepted: {FOUND} (2 tests)" in document["notes"]
    run = run_python(tmp_path, "-m", "warpwatch", "run", "fill-k-32-5-float32", "--device", "software")
    assert f"accepted  {FOUND}" in run.stdout, run.stdout + run.stderr
    (tmp_path / "perf" / "k.cu").write_text(KERNEL.replace("8", "7"))
    wrong = run_pytest(tmp_path, "--device=software").stdout
    assert "accepted  race at perf/k.cu:3, which may be the cause" in wrong, wrong
    assert "declare valid=" not in wrong
    (tmp_path / "perf" / "k.cu").write_text(KERNEL.replace("// warpwatch: accept race: any value will do", ""))
    assert "race in fill" in run_pytest(tmp_path, "--device=software").stdout
