"""Tests times on other data: what the data are, when a time differs, and that the declared data are there again."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import FAMILIES
from tests.stranger import run_pytest
from warpwatch.catalogue.arrays import CaseArray, Role
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.timing import sampling
from warpwatch.timing.observers.data import KINDS, Data
from warpwatch.verdict.other_data import TURNS, DataEffect, remark

DECLARED = '''
import warpwatch as ww

TEXT = """
extern "C" __global__ void plain(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i];
}
extern "C" __global__ void by_value(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (x[i] != 0)
        for (volatile int k = 0; k < 400; k = k + 1)
            ;
    y[i] = 2 * x[i];
}
extern "C" __global__ void endless(const volatile float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    while (x[i] == 0)
        ;
    y[i] = 2 * x[i];
}
"""


def family(name, draw=None):
    return ww.Family(
        name,
        sizes=("n",),
        dtypes=("float32",),
        arrays=lambda n: {"x": ww.In(n), "y": ww.Out(n)},
        reference=lambda x: 2 * x,
        draw=draw,
        exact=True,
        work=lambda n: ww.Work(n, 8 * n),
        tests=((7,),),
        benchmarks=((20_000,),),
        variants=tuple(
            ww.kernel(
                entry,
                source=ww.text(TEXT),
                entry=entry,
                configurations=((128,),),
                grid=lambda n, block: ww.blocks(n, block[0]),
                arguments="x y n",
            )
            for entry in ("plain", "by_value", "endless")
        ),
    )


TWICE = family("twice")
DRAWN = family("drawn", lambda rng, n: {"x": rng.random(n)})
'''
BENCH = """import pytest


@pytest.mark.cases("timed")
def bench_kernel(measure):
    measure()
"""


def declared(dtype: str = "float32", low: float | None = None, high: float | None = None) -> CaseArray:
    return CaseArray(role=Role.IN, shape=(64,), dtype=dtype, low=low, high=high, name="x")


def made(array: CaseArray, values: np.ndarray) -> dict[str, Any]:
    return {name: kind(values, array) for name, kind in KINDS.items()}


def test_other_data_are_made_of_the_declared_ones() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, (8, 8)).astype(np.float32)
    data = made(declared(), values)
    assert all(each.dtype == np.float32 and each.shape == (8, 8) for each in data.values())
    assert not data["zeros"].any()
    assert np.unique(data["one value"]) == values[0, 0]
    assert np.array_equal(data["sorted values"].ravel(), np.sort(values.ravel()))
    assert 0 < np.count_nonzero(data["sparse values"]) < 20
    assert set(data["sparse values"].ravel()) <= {0.0, *values.ravel()}
    small = np.abs(data["subnormal values"])
    assert 0 < small.max() < np.finfo(np.float32).smallest_normal
    assert np.unique(small).size > 32


@pytest.mark.parametrize(
    ("array", "left_out"),
    [
        (declared("int32", 0, 9), {"subnormal values"}),
        (declared(low=0.5), {"zeros", "sparse values", "subnormal values"}),
        (declared(high=0.0), {"zeros", "sparse values", "subnormal values"}),  # values are below high
    ],
)
def test_no_value_is_taken_that_the_declaration_rules_out(array: CaseArray, left_out: set[str]) -> None:
    data = made(array, np.arange(1, 9).astype(array.dtype))
    assert {name for name, each in data.items() if each is None} == left_out


def effect(ratio: float, scatter: float) -> DataEffect:
    return DataEffect.of([math.log(ratio) + scatter * (-1) ** turn for turn in range(TURNS)])


@pytest.mark.parametrize(
    ("ratio", "scatter", "differs"),
    [(1.05, 0.01, True), (0.95, 0.01, True), (1.05, 0.1, False), (1.015, 1e-4, False), (0.985, 1e-4, False)],
)
def test_a_time_differs_where_the_whole_interval_does(ratio: float, scatter: float, differs: bool) -> None:
    assert effect(ratio, scatter).differs is differs
    assert bool(remark({"zeros": effect(ratio, scatter)})) is differs


@pytest.mark.parametrize(
    ("ratio", "scatter", "same"), [(1.015, 1e-4, True), (0.985, 1e-4, True), (1.0, 0.1, False), (1.05, 0.01, False)]
)
def test_a_time_is_the_same_where_the_whole_interval_is(ratio: float, scatter: float, same: bool) -> None:
    assert effect(ratio, scatter).is_same is same


def test_a_remark_names_each_kind_that_differs() -> None:
    effects = {"zeros": effect(0.5, 1e-3), "one value": effect(1.0, 1e-3), "sorted values": effect(1.25, 1e-3)}
    assert remark(effects) == (
        "takes 0.50 (0.50 to 0.50) times as long on zeros, 1.25 (1.25 to 1.25) times as long on sorted values "
        "as on the declared data"
    )


def observed(case: Case, image: Path) -> tuple[dict[str, Any], bool]:
    """Time a case on other data, in the worker; return the effects, and whether its inputs are as before."""
    sampling.prepare(case, image, True)
    before = [array.read() for array in sampling.state.loaded[0].inputs]
    effects = sampling.observe(("data",))["data"]
    after = [array.read() for array in sampling.state.loaded[0].inputs]
    sampling.finish("cold")
    sampling.release()
    return effects, all(map(np.array_equal, before, after))


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
@pytest.mark.parametrize("name", ["copy-naive-256-33-float32", "matmul-naive-8x8-32x32x32-float32"])
def test_the_declared_data_lie_in_the_arrays_afterwards(software: Worker, name: str) -> None:
    case = find_case(FAMILIES, name)
    image = compile_build(case.build, software.call(describe_device).timing_target).path
    effects, is_as_before = software.call(observed, case, image)
    assert is_as_before
    assert set(effects) == set(KINDS)
    assert all(0 < each["low"] <= each["ratio"] <= each["high"] for each in effects.values())


def test_cases_are_left_out_by_their_reason() -> None:
    assert Data().leaves_out(find_case(FAMILIES, "copy-serial-host-1048576-float32")) == "it runs on the host"
    assert Data().leaves_out(find_case(FAMILIES, "hello-hello-5x5-4-none")) == "it has no inputs"
    assert Data().leaves_out(find_case(FAMILIES, "copy-naive-256-1048576-float32")) == ""


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_a_kernel_whose_time_depends_on_its_data_is_named(tmp_path: Path) -> None:
    for name, text in {"perf/__init__.py": DECLARED, "bench/bench_kernels.py": BENCH}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')
    done = run_pytest(tmp_path, "bench", "--data", "--json=run.json", "--benchmark-max-time=0.2", "-k", "not endless")
    assert done.returncode == 0, done.stdout
    assert re.search(
        r"^twice-by_value-128-20000-float32: takes 0\.\d\d \(.*\) times as long on zeros", done.stdout, re.M
    )
    count = r"^other data \(zeros, .*\): [12] of 2 kernels differ in time by more than 2%(, 1 are unsure)?$"
    assert re.search(count, done.stdout, re.M)
    assert re.search(
        r"^other data: 2 kernels were not timed on them: 2 because its inputs are drawn by", done.stdout, re.M
    )
    cases = {case["id"]: case for case in json.loads((tmp_path / "run.json").read_text())["cases"]}
    assert cases["twice-by_value-128-20000-float32"]["measured"]["data"]["zeros"]["high"] < 0.8
    assert cases["drawn-by_value-128-20000-float32"]["measured"]["data"] == {}
    done = run_pytest(tmp_path, "bench", "--data", "-k", "drawn and plain", "--benchmark-max-time=0.01")
    assert done.stdout.splitlines()[-1].startswith("NOTHING WAS TIMED ON OTHER DATA (--data): 1 because its inputs are")
    done = run_pytest(tmp_path, "bench", "--data", "-k", "twice and endless", "--launch-timeout=1")
    assert "twice-endless-128-20000-float32: on zeros (--data): the kernel " in done.stdout
    refused = run_pytest(tmp_path, "bench", "--data", "--against=HEAD")
    assert "--data times this code alone: leave --data or --against out" in refused.stdout + refused.stderr
