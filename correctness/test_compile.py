"""Every kernel compiles for every architecture. Needs nvcc, but no GPU."""

from __future__ import annotations

import pytest

from kernels import FAMILIES
from kernels.catalogue import Build, builds
from kernels.compiler import CompileError, NoCompiler, architectures, compile_build, nvcc

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "newest")
GPU_BUILDS = [build for build in builds(FAMILIES) if not build.variant.on_host]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.builds(GPU_BUILDS)
def test_compile(build: Build, architecture: str) -> None:
    """``newest`` is the newest architecture that the installed nvcc knows."""
    try:
        nvcc()
    except NoCompiler as missing:
        pytest.skip(str(missing))
    try:
        compile_build(build, architectures()[-1].arch if architecture == "newest" else architecture)
    except CompileError as error:
        pytest.fail(str(error), pytrace=False)
