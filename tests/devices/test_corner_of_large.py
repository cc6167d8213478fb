"""Tests that 32-bit indices are found on arrays past 2^32 elements without their memory; a right kernel passes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.project import ROOT
from warpwatch.catalogue.cases import Build
from warpwatch.catalogue.corners import beyond_32_bits, least_builds
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.large import LAST_BLOCK, problem_of_the_last_block
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Worker, describe_device


def build_of(family: str, variant: str) -> Build:
    return next(b for b in least_builds(FAMILIES) if (b.family.name, b.variant.name) == (family, variant))


def said(worker: Worker, build: Build, source: Path) -> str:
    """Return the faults of the last blocks of a build whose source is another file."""
    image = compile_file(source, build.all_macros, worker.call(describe_device).target).path
    try:
        for large, small in beyond_32_bits(build):
            if found := worker.call(problem_of_the_last_block, large, small, image, "again"):
                return found
    except DeviceError as error:
        return str(error)
    return ""


SIGNED, UNSIGNED = "does not fit in 'int'", "of its last block's 64 elements"


@pytest.mark.once
@pytest.mark.parametrize(
    ("variant", "right", "wrong", "wanted"),
    [
        ("matmul naive", "a[size_t(row) * n + i]", "a[row * n + i]", SIGNED),
        ("matmul naive", "a[size_t(row) * n + i]", "a[unsigned(row) * unsigned(n) + i]", UNSIGNED),
        ("matmul naive", "c[size_t(row) * k + col]", "c[row * k + col]", SIGNED),
        ("matmul naive", "c[size_t(row) * k + col]", "c[unsigned(row) * unsigned(k) + col]", UNSIGNED),
        ("transpose naive", "b[size_t(col) * m + row]", "b[col * m + row]", SIGNED),
        ("conv2d naive", "image[size_t(row + p) * columns", "image[(row + p) * columns", SIGNED),
    ],
)
def test_an_index_of_32_bits_is_noticed(
    software: Worker, tmp_path: Path, variant: str, right: str, wrong: str, wanted: str
) -> None:
    build = build_of(*variant.split())
    text = (ROOT / "kernels" / build.source).read_text()
    assert right in text
    source = tmp_path / Path(build.source).name
    source.write_text(text)
    assert said(software, build, source) == ""
    source.write_text(text.replace(right, wrong))
    assert wanted in said(software, build, source)


@pytest.mark.slow
def test_afterwards_the_device_is_as_before(software: Worker) -> None:
    build = build_of("matvec", "naive")
    assert said(software, build, ROOT / "kernels" / build.source) == ""
    assert [software.call(os.getenv, name) for name in LAST_BLOCK] == [None] * len(LAST_BLOCK)
