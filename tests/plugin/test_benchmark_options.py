"""Tests that options of other plugins with which times mean nothing, or a run fails at its end, are refused before."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels import FAMILIES
from tests.stranger import declare, run_pytest
from warpwatch.plugin.benchmark_run import Run
from warpwatch.plugin.fixtures import too_large

WHERE = "case.build.id == 'copy-naive-256-float32'"
PLAIN = "case.shape == (1048576,) and case.variant.name == 'naive' and case.dtype == 'float32'"
TEST = f"import pytest\n\n@pytest.mark.cases('timed', where=lambda case: {WHERE})\n"
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
        (
            {"benchmark_disable": True, "--warpwatch-data": True},
            "-data measures what is timed, and --benchmark-d",
        ),
        ({}, ""),
    ],
    ids=str,
)
def test_it_is_refused_in_a_sentence(options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"benchmark_compare_fail": [], "benchmark_group_by": "group", "benchmark_histogram": []} | options
    given = {"benchmark_disable": False, "benchmark_enable": False} | given
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
def test_a_repository_of_ones_own_has_narrow_tables_sorted_by_case(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench_kernels.py").write_text(TEST.replace("test_one", "bench_kernel").replace(WHERE, PLAIN))
    done = run_pytest(tmp_path, "bench", "--device=software", "--benchmark-max-time=0.001", "--benchmark-min-rounds=1")
    lines = done.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("Name (time in us)"))
    assert lines[first].split() == ["Name", "(time", "in", "us)", "Median", "IQR", "Rounds"]
    assert "benchmark 'copy, 1048576, float32'" in lines[first - 1]
    rows = [line.split()[0] for line in lines[first + 2 :] if line.startswith("copy-")]
    assert len(rows) > 1
    assert rows == sorted(rows)
    assert max(map(len, lines[first : first + 2 + len(rows)])) <= 100


def test_a_size_that_a_slow_device_can_time_is_named() -> None:
    copy = next(family for family in FAMILIES if family.name == "copy")
    large = "copy: n = 16777216, 67108864, 268435456 and 1 more are too large for softcuda, which would take seconds"
    assert too_large(copy, "softcuda", 2e7) == f"{large} for a launch: 65536 is quick there, or time them on a GPU"
    large = "copy: n = 1048576 is too large for slow, which would take seconds for a launch"
    one = replace(copy, benchmarks=((2**20,), (4095,)), tests=((4095,),))
    assert too_large(one, "slow", 5e6) == f"{large}: 16384 is quick there, or time it on a GPU"
    halves = [2**power for power in range(18, 3, -1)]
    picky = replace(one, fits=lambda n: "n is refused" if n in halves[1:] else None)
    assert too_large(picky, "slow", 5e6) == f"{large}: 262144 would do, or time it on a GPU"
    picky = replace(one, fits=lambda n: "n is refused" if n in halves else None)
    assert too_large(picky, "slow", 5e6) == f"{large}: time it on a GPU"
    calls = replace(one, variants=tuple(each for each in copy.variants if each.call))
    several = "copy: n = 8388608, 16777216, 33554432 and 3 more are too large for slow, which would take seconds"
    assert too_large(calls, "slow", 5e6) == f"{several} for a launch: 65536 is quick there, or time them on a GPU"
    small = replace(copy, benchmarks=((4096,),))
    assert too_large(small, "slow", 5e6, ((2**20,),)) == f"{large}: 16384 is quick there, or time it on a GPU"


def test_no_size_is_named_that_a_variant_refuses() -> None:
    copy = next(family for family in FAMILIES if family.name == "copy")
    variants = tuple(replace(each, valid=lambda n: n % 2**18 == 0) for each in copy.variants)
    picky = replace(copy, variants=variants, tests=((2**18,),), benchmarks=((2**20,),))
    large = "copy: n = 1048576 is too large for slow, which would take seconds for a launch"
    assert too_large(picky, "slow", 5e6) == f"{large}: 262144 would do, or time it on a GPU"
    assert too_large(picky, "slow", 5e5) == f"{large}: time it on a GPU"


def test_sizes_that_no_family_takes_are_named(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "bench.py").write_text("import pytest\n@pytest.mark.cases('timed')\ndef test_t(measure): measure()\n")
    done = run_pytest(tmp_path, "bench.py", "--device=none", "--co", "-q", "--sizes=64x64,4294967295")
    assert "marked cases: --sizes=64x64: a shape of copy is n; --sizes=4294967295: n = 4294967295 is" in done.stdout


@pytest.mark.slow
@needs_gxx
def test_cases_can_be_grouped_by_their_parameters(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(TEST)
    done = run_pytest(tmp_path, "--device=software", "--benchmark-group-by=param:shape,func")
    assert "benchmark 'shape=" in done.stdout or "skipped" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
