"""Tests that a kernel cannot tell by a macro whether it is compiled with checks, or to be timed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from tests.project import ROOT
from tests.softcuda.device import Device

ASKING = """
#include <atomic>
#include <cuda_fp16.h>
#if defined(__SANITIZE_THREAD__) || defined(SOFTCUDA_CHECKED) || defined(_GLIBCXX_TSAN)
#define CHECKED 1
#else
#define CHECKED 0
#endif
extern "C" __global__ void asking(int* out) { *out = CHECKED; }
"""
# Prints the macros that a kernel's text finds, as the compiler preprocesses it.
MACROS = """
import pathlib, sys, tempfile
sys.path.insert(0, sys.argv[1])
import compile_kernel
options = compile_kernel.parse(["kernel.cu", *sys.argv[2:]])
with tempfile.TemporaryDirectory() as name:
    folder, source = pathlib.Path(name), pathlib.Path("kernel.cu")
    unit, out = folder / "kernel.cpp", folder / "kernel.ii"
    flags = [*compile_kernel.flags_of(folder, source, unit, options), "-dM"]
    text = "#include <cuda_fp16.h>\\n#include <cooperative_groups.h>\\n"
    unit.write_text(compile_kernel.translation_unit(text, source, options, compile_kernel.headers.chosen(text), []))
    compile_kernel.gxx("-E", *flags, str(unit), "-o", str(out))
    print(out.read_text())
"""


def test_a_kernel_cannot_ask_whether_it_is_checked(checked: Device) -> None:
    for device in (checked, checked.unchecked):
        assert device.left(device.image(ASKING), "asking", 4, threads=1, orders=(None,)) == [bytes(4)]


ROWS = """
extern "C" __global__ void rows(int* out)
{
    __shared__ int counters[8][64];
    for (int i = threadIdx.x; i < 8 * 64; i += 64)
        counters[0][i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < 8 * 64; i += 64)
        out[i] = counters[i / 64][i % 64];
}
"""


def test_a_loop_over_all_rows_by_the_first_runs_to_its_end_in_both_builds(checked: Device) -> None:
    for device in (checked, checked.unchecked):
        (left,) = device.left(device.image(ROWS), "rows", 4 * 512, threads=64, orders=(None,))
        assert isinstance(left, bytes), left
        assert np.array_equal(np.frombuffer(left, np.int32), np.arange(512))


def test_both_builds_have_the_same_macros() -> None:
    folder = ROOT / "softcuda" / "compiling"
    runs = [
        subprocess.run(
            [sys.executable, "-S", "-c", MACROS, str(folder), *flags], capture_output=True, text=True, check=True
        )
        for flags in ([], ["--checks"])
    ]
    timed, checked = (set(run.stdout.splitlines()) for run in runs)
    assert len(timed) > 500
    assert timed == checked
