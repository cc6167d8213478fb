"""Every kernel compiles for every architecture that it is for, from the oldest. Needs nvcc, but no GPU."""

from __future__ import annotations

import pytest

from kernels import FAMILIES
from kernels.catalogue import Build, Capability
from kernels.compiler import CompileError, NoCompiler, Target, architectures, compile_build, nvcc
from kernels.selection import builds


def for_architecture(*capability: int) -> list[Build]:
    """What a GPU of that compute capability can run."""
    found = builds(FAMILIES)
    return [b for b in found if not b.variant.has_no_block and b.variant.needs <= Capability(*capability)]


def compiles(build: Build, architecture: str) -> None:
    try:
        nvcc()
    except NoCompiler as missing:
        pytest.skip(str(missing))
    try:
        compile_build(build, Target(architecture))
    except CompileError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.mark.builds(for_architecture(7, 5))
def test_compile_for_sm_75(build: Build) -> None:
    compiles(build, "sm_75")


@pytest.mark.builds(for_architecture(8, 0))
def test_compile_for_sm_80(build: Build) -> None:
    compiles(build, "sm_80")


@pytest.mark.builds(for_architecture(9, 0))
def test_compile_for_sm_90(build: Build) -> None:
    compiles(build, "sm_90")


@pytest.mark.builds(for_architecture(99, 9))
def test_compile_for_the_newest_architecture_that_nvcc_knows(build: Build) -> None:
    compiles(build, architectures()[-1].arch)
