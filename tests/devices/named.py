"""A source whose kernels have C++ names, for tests of such names and of machine code that is there already."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import softcuda
from warpwatch.devices.compile.compiler import Target
from warpwatch.devices.compile.entries import Kernels

SOURCE = """\
#include "part.h"
#include <shared_part.h>
typedef float real;
enum class Mode { slow = 3, fast = 5 };
enum Old { none, some = 7 };
struct Pair { int first, second; };
namespace ln {
template <class T, int ROWS = 2, Mode mode = Mode::fast, bool flag = true>
__global__ void __launch_bounds__(ROWS * 32) forward(T* x, int)
{
    __shared__ T tile[ROWS * 32];
    tile[threadIdx.x] = T(threadIdx.x);
    __syncthreads();
    x[threadIdx.x] = tile[threadIdx.x ^ 1] + T(100 * ROWS + 10 * int(mode) + int(flag));
}
__global__ void plain(int* x) { x[threadIdx.x] = PART + SHARED_PART; }
namespace inner { template <Old old, unsigned char n> __global__ void old_one(int* x) { x[threadIdx.x] = old * n; } }
}
__global__ void scale(float* x, int) { x[threadIdx.x] = 1.5f; }
__global__ void scale(int* x, int) { x[threadIdx.x] = 3; }
template <class T> __global__ void scale(T* x, Pair) { x[threadIdx.x] = sizeof(Pair); }
static __global__ void hidden(int* x)
{
    if (threadIdx.x > 3)
        return;
    x[threadIdx.x] = 4;
}
namespace { __global__ void unnamed(int* x) { x[threadIdx.x] = 5; } }
extern "C" __global__ void in_c(int* x) { x[threadIdx.x] = 6; }
template <class T> static __global__ void hidden_template(T* x) { x[threadIdx.x] = sizeof(T); }
template <class... T> __global__ void several(int* x, T... more) { x[threadIdx.x] = sizeof...(more); }
template <> __global__ void hidden_template<short>(short* x) { x[threadIdx.x] = 77; }
__device__ int helper(int x) { return x; }
int variable;
"""
MACROS = {"scalar_t": "int", "ROWS_OF_TILE": "1", "MODE": "Mode::slow"}


def write_checkout(root: Path) -> Path:
    """Write a checkout with a kernel's file, a header beside it, and another in an include folder."""
    for name, text in {
        "csrc/named.cu": SOURCE,
        "csrc/part.h": "#pragma once\n#define PART 3\n",
        "include/shared_part.h": "#define SHARED_PART 20\n",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


def kernels(source: Path, *entries: str, macros: Mapping[str, str] | None = None, **more: Any) -> Kernels:
    return Kernels(source=source, entries=entries, macros=macros or {}, **more)


def software(arch: str = "sm_90", *flags: str) -> Target:
    return Target(arch, str(softcuda.stand_in(softcuda.cache_folder())), flags)
