"""Tests that options of pytest-benchmark with which it would fail at the end of a run are refused before it."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.stranger import declare, run_pytest

TEST = "import pytest\n\n@pytest.mark.cases('timed', where=lambda case: case.build.id == 'copy-naive-256-float32')\n"
TEST += "def test_one(measure):\n    measure()\n"
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--benchmark-compare=0001", "--benchmark-compare-fail=median:5%"], "a slower kernel fails anyway"),
        (["--benchmark-compare-fail=median:5%"], "a slower kernel fails anyway"),
        (["--benchmark-group-by=param:nothing"], "'param:nothing' is not a label; there are group, name, func"),
        (["-n1", "--benchmark-group-by=func,nothing"], "'nothing' is not a label"),
        (["--benchmark-histogram"], "needs pygal and pygaljs"),
    ],
)
def test_it_is_refused_in_a_sentence_before_anything_is_measured(tmp_path: Path, options: list[str], said: str) -> None:
    if "pygal" in said and importlib.util.find_spec("pygal"):
        pytest.skip("pygal is installed, so that histograms are made")
    declare(tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kernels.py").write_text(TEST.replace("test_one", "bench_kernel"))
    done = run_pytest(tmp_path, "bench", "--device=software", *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "passed" not in done.stdout
    assert not [*(tmp_path / ".benchmarks").rglob("*.json")]


@pytest.mark.slow
def test_cases_can_be_grouped_by_their_parameters(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(TEST)
    done = run_pytest(tmp_path, "--device=software", "--benchmark-group-by=param:shape,func")
    assert "benchmark 'shape=" in done.stdout or "skipped" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
