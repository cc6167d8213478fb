"""Kernels compile with a g++ that is set up otherwise, as some distributions' are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import softcuda

SOURCE = """#include <string.h>
extern "C" __global__ void copy(char* to, const char* from) {
    memset(to, 0, 8);
    memcpy(to, from, 4);
    memmove(to + 1, to, 2);
}
"""


@pytest.mark.once
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
