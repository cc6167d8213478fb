"""Kernels compile with a g++ that is set up otherwise, as some distributions' are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import softcuda
from tests.project import ROOT
from tests.softcuda.device import Device

SOURCE = """#include <string.h>
extern "C" __global__ void copy(char* to, const char* from) {
    memset(to, 0, 8);
    memcpy(to, from, 4);
    memmove(to + 1, to, 2);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("level", [2, 3])
@pytest.mark.parametrize("checks", [(), ("--checks",)], ids=["unchecked", "checked"])
def test_a_kernel_compiles_where_gxx_fortifies_by_itself(tmp_path: Path, level: int, checks: tuple[str, ...]) -> None:
    """Ubuntu's g++ does; glibc's headers then define memcpy, memmove and memset themselves."""
    wrapper = tmp_path / "bin" / "g++"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} -D_FORTIFY_SOURCE={level} "$@"\n')
    wrapper.chmod(0o755)
    source = tmp_path / "copy.cu"
    source.write_text(SOURCE)
    nvcc = str(softcuda.stand_in(softcuda.cache_folder()))
    command = [nvcc, "-cubin", "-arch=sm_90", *checks, "copy.cu", "-o", "copy.cubin"]
    path = f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "copy.cubin").stat().st_size > 0


DISCRIMINATING = """#!/bin/sh
{gxx} "$@" || exit
for argument do case $argument in -fdump-tree-*=*)
    sed -i -E 's/(\\[[^][]+:[0-9]+:[0-9]+)\\]/\\1 discrim 3]/g' "${{argument#*=}}"
esac done
"""
DEPENDING = """__global__ void depending(float* p, int n)
{
    float most;
    const int first = blockIdx.x * n;
    for (int i = first; i < n; ++i)
        if (p[i] > most) most = p[i];
    p[first] = most;
}
"""


@pytest.mark.slow
def test_discriminators_in_the_intermediate_form_change_nothing(tmp_path: Path) -> None:
    """g++ 13 and later tell statements of one line apart by a number behind the place."""
    real, wrapper = shutil.which("g++"), tmp_path / "bin" / "g++"
    wrapper.parent.mkdir()
    wrapper.write_text(DISCRIMINATING.format(gxx=real))
    wrapper.chmod(0o755)
    (tmp_path / "k.cu").write_text(DEPENDING)
    images = []
    for path in (os.environ["PATH"], f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"):
        command = [sys.executable, str(ROOT / "softcuda/compiling/nvcc"), "-cubin", "--checks", "k.cu", "-o", "made"]
        subprocess.run(command, cwd=tmp_path, env=os.environ | {"PATH": path}, check=True)
        images.append((tmp_path / "made").read_bytes())
    assert b"most (k.cu:3)" in images[0]
    assert b"first=k.cu:4" in images[0]
    assert images[0] == images[1]


SUMS = """__device__ float3 operator+(float3 a, float3 b) { return make_float3(a.x + b.x, a.y + b.y, a.z + b.z); }
#define EIGHT(s) s s s s s s s s
extern "C" __global__ void k(float* p)
{
    const float3* q = (const float3*)p;
    float3 a = q[0];
    TIMES(EIGHT(EIGHT(EIGHT(a = a + q[threadIdx.x]; p[threadIdx.x] = a.x;))))
}
"""
LIMITED = """import sys
sys.path.insert(0, sys.argv[1])
import compile_kernel
exec(sys.argv[2])
sys.argv[1:] = ["-cubin", "--checks", "k.cu", "-o", "made"]
sys.exit(compile_kernel.main())
"""


def limited(folder: Path, text: str, limits: str) -> subprocess.CompletedProcess[str]:
    """Compile a text with other limits, which a statement sets."""
    (folder / "k.cu").write_text(text)
    command = [sys.executable, "-c", LIMITED, str(ROOT / "softcuda" / "compiling"), limits]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_compilation_that_does_not_end_is_stopped_with_a_sentence(tmp_path: Path) -> None:
    done = limited(tmp_path, "#define TIMES(s) EIGHT(s)\n" + SUMS, "compile_kernel.MOST_SECONDS = 1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("nvcc (softcuda): error: it takes more than")


@pytest.mark.slow
def test_a_huge_function_has_coarser_checks_and_a_warning(tmp_path: Path, checked: Device) -> None:
    text = "#define TIMES(s) s s p[-1] = a.y;\n" + SUMS
    limits = "compile_kernel.FULL_SECONDS, compile_kernel.FULL_STATEMENT_SECONDS = 1, 0"
    done = limited(tmp_path, text, limits)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert done.stderr.startswith("k.cu: warning: checks are coarser, because g++ takes more than 1 s with all of them")
    made: Any = SimpleNamespace(path=tmp_path / "made")
    assert re.search(r"softcuda: out of bounds in k\n  k\.cu:8: ", checked.said(made, "k", 64, threads=1))
