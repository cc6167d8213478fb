"""Tests that options of other plugins with which times mean nothing, or a run fails at its end, are refused before."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.stranger import declare, run_pytest
from warpwatch.plugin.asked import Run

TEST = "import pytest\n\n@pytest.mark.cases('timed', where=lambda case: case.build.id == 'copy-naive-256-float32')\n"
TEST += "def test_one(measure):\n    measure()\n"
needs_gxx = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 2}, "--count: a case is timed once in a run, and found again by its id"),
        ({"reruns": 2}, "--reruns: a kernel that is wrong or slower must not be run again until it passes"),
        ({"benchmark_compare_fail": ["median:5%"]}, "a slower kernel fails anyway"),
        ({"benchmark_group_by": "param:nothing"}, "'param:nothing' is not a label; there are group, name, func"),
        ({"benchmark_group_by": "func,nothing"}, "'nothing' is not a label"),
        ({"benchmark_histogram": ["x"]}, "needs pygal and pygaljs"),
        ({"--warpwatch-fail-on": ["unsure"]}, "compares nothing by itself: give --benchmark-compare, --warpwatch-agai"),
        ({"--warpwatch-baseline": "here"}, "--warpwatch-baseline compares nothing by itself: give --benchmark-compare"),
        ({}, ""),
    ],
    ids=str,
)
def test_it_is_refused_in_a_sentence(options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"benchmark_compare_fail": [], "benchmark_group_by": "group", "benchmark_histogram": []} | options
    config = SimpleNamespace(option=SimpleNamespace(**given), stash=pytest.Stash())
    config.getoption = lambda name, default=None: given.get(name, default)
    run: Any = SimpleNamespace(config=config, asked=SimpleNamespace(compare="", option=""))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    objection = next(Run.objections_to_options(run), "")
    assert message in objection
    assert bool(objection) == bool(options)


@pytest.mark.once
@needs_gxx
@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_it_is_refused_before_anything_is_measured(tmp_path: Path, workers: str) -> None:
    declare(tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kernels.py").write_text(TEST.replace("test_one", "bench_kernel"))
    done = run_pytest(tmp_path, "bench", "--device=software", workers, "--benchmark-group-by=func,nothing")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr
    assert "'nothing' is not a label" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "passed" not in done.stdout
    assert not [*(tmp_path / ".benchmarks").rglob("*.json")]


@pytest.mark.slow
@needs_gxx
def test_cases_can_be_grouped_by_their_parameters(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(TEST)
    done = run_pytest(tmp_path, "--device=software", "--benchmark-group-by=param:shape,func")
    assert "benchmark 'shape=" in done.stdout or "skipped" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
