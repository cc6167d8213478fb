"""Compiles every kernel for each architecture from the oldest that it needs on. It needs nvcc, but no GPU.

These tests come last (conftest.py): what they need is compiled in the background while kernels are checked.
"""

from __future__ import annotations

import pytest

from warpwatch.testing import Build, Capability, Compilation, NoCompiler, Target, architectures, nvcc


def for_architecture(*capability: int) -> pytest.MarkDecorator:
    """Mark a test to run for each build that a GPU of that compute capability can run."""
    newest = Capability(*capability)
    return pytest.mark.builds("all", where=lambda b: not b.variant.has_no_block and b.variant.runs_on(newest))


def compiles(compilation: Compilation, build: Build, architecture: str) -> None:
    """Raise CompileError, which fails the test with the compiler's message, unless the build compiles."""
    try:
        nvcc()
    except NoCompiler as missing:
        pytest.skip(str(missing))
    compilation.check(build, Target(architecture))


@pytest.mark.compiles_for("sm_75")
@for_architecture(7, 5)
def test_compile_for_sm_75(build: Build, compilation: Compilation) -> None:
    compiles(compilation, build, "sm_75")


@pytest.mark.compiles_for("sm_80")
@for_architecture(8, 0)
def test_compile_for_sm_80(build: Build, compilation: Compilation) -> None:
    compiles(compilation, build, "sm_80")


@pytest.mark.compiles_for("sm_90")
@for_architecture(9, 0)
def test_compile_for_sm_90(build: Build, compilation: Compilation) -> None:
    compiles(compilation, build, "sm_90")


@pytest.mark.compiles_for("newest")
@for_architecture(99, 9)
def test_compile_for_the_newest_architecture_that_nvcc_knows(build: Build, compilation: Compilation) -> None:
    compiles(compilation, build, architectures()[-1].arch)
