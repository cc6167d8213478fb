"""Tests the checks outside of pytest's own tests: one process for a sanitizer, arrays past 2^31 elements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.fork_server import run_module
from tests.project import PROJECT, ROOT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.selection import builds
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.large import problems, repeated, sampled_rows
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device

TRANSPOSES = [f"transpose-{variant}-32x32-149x351-float32" for variant in ("padded", "vectorised")]


@pytest.fixture
def software() -> Iterator[Worker]:
    worker = Worker(PROJECT, Settings(kind="software"))
    yield worker
    worker.stop()


def cases(case_ids: list[str]) -> list[Case]:
    return [find_case(FAMILIES, name) for name in case_ids]


def images(worker: Worker, case_ids: list[str]) -> list[Path]:
    info: DeviceInfo = worker.call(describe_device)
    return [compile_build(find_case(FAMILIES, name).build, info.target).path for name in case_ids]


@pytest.mark.slow
def test_every_kernel_runs_in_one_process() -> None:
    command = ("warpwatch", "run", "--all", "--device", "software", "-k", "transpose and 16x16 and 17x33")
    done = run_module(command, ROOT, os.environ, seconds=200)
    assert (done.returncode, done.stdout) == (0, "6 cases of 6 builds, 0 wrong\n"), done.stderr


def test_rows_are_compared_where_indices_wrap(software: Worker) -> None:
    assert software.call(problems, cases(TRANSPOSES), images(software, TRANSPOSES), 1, 149 * 351 // 2) == []
    wrong = images(software, ["transpose-padded-32x32-149x351-float32"] * 2)
    two = ["transpose-padded-32x32-149x351-float32", "transpose-padded-16x16-149x351-float32"]  # with the other's code
    (said,) = software.call(problems, cases(two), wrong, 1, 149 * 351 // 2)
    assert said.startswith("transpose-padded-16x16-149x351-float32 is wrong in ")


def test_rows_of_every_result_are_compared(software: Worker) -> None:
    two = [f"layernorm-registers-{block}-149x351-float32" for block in (256, 512)]
    assert software.call(problems, cases(two), images(software, two), 1, 149 * 351 // 2) == []


def test_the_row_at_the_limit_is_among_those_compared() -> None:
    case = find_case(FAMILIES, "transpose-padded-32x32-46349x46351-float32")
    rows = sampled_rows(case, 2**31)
    assert {0, 46_350, 2**31 // 46_349} <= set(rows.tolist())
    import numpy as np  # noqa: PLC0415

    values = repeated(np.random.default_rng(0), (1009, 1013), "bfloat16")
    assert values.shape == (1009, 1013)
    assert values.dtype == numpy_type("bfloat16")
    assert (values.ravel()[1_000_003:] == values.ravel()[: values.size - 1_000_003]).all()


def test_symbols_and_fallbacks_name_what_there_is() -> None:
    symbols = 0
    for build in builds(FAMILIES):
        for case in (Case(build, shape) for shape in build.family.tests):
            symbols += len(case.variant.symbols)
            assert set(case.variant.symbols.values()) <= {array.name for array in case.inputs}
            assert isinstance(case.fallback, str)
    assert symbols > 0
    for name, said in (
        ("matmul-vectorised-64x64-64x64x64-float32", ""),
        ("matmul-vectorised-64x64-64x63x64-float32", "loads of A and B element by element: rows off 16 bytes"),
        ("matmul-asynchronous-64x64-64x63x64-float64", ""),
        ("matmul-asynchronous-64x64-64x64x63-float64", "loads of B element by element: rows off 16 bytes"),
        ("conv2d-columns-512x8-99x100x4-float32", "as naive: this K is not unrolled"),
        ("conv2d-columns-512x8-99x101x3-int32", "loads of one pixel: rows off 16 bytes"),
        ("conv2d-columns-512x8-99x100x3-int32", ""),
        ("conv2d-constant_filter-16x16-99x101x64-int32", ""),
        ("conv2d-constant_filter-16x16-99x101x65-int32", "filter from global memory: too large"),
    ):
        assert find_case(FAMILIES, name).fallback == said, name
