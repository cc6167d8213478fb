"""Holds mistakes and slowdowns that tests plant in the kernels of examples/cuda: edits of a file, as data."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """An edit of one file.

    ``kernel``: family and variant, joined as in a case's id. ``what``: what the edit does to it. ``file``: from the
    folder examples/cuda. ``old`` stands in that file exactly once, and ``new`` takes its place.
    """

    kernel: str
    what: str
    file: str
    old: str
    new: str


def barrier(kernel: str, which: str, file: str, old: str) -> Edit:
    """Take the barrier out of some lines of a file in csrc/."""
    return Edit(kernel, f"{which} missing", f"csrc/{file}", old, re.sub(r" *__syncthreads\(\);.*\n", "", old))


def index(kernel: str, file: str, old: str, new: str) -> Edit:
    return Edit(kernel, "index off by one", f"csrc/{file}.cu", old, new)


FIRST_BARRIER = "    __syncthreads(); // what an earlier call left there has been read\n"
SECOND_BARRIER = "    __syncthreads();\n    value = of_warps[0];\n"

# Every edit of the first three lists makes some listed test of its kernel fail: a result is wrong, or the software
# device says what happened.
MISSING_BARRIERS = (
    barrier("softmax-registers", "second barrier", "reduce.cuh", SECOND_BARRIER),
    barrier("softmax-shared", "second barrier", "reduce.cuh", SECOND_BARRIER),
    barrier("layernorm-registers", "first barrier", "reduce.cuh", FIRST_BARRIER),
    barrier("sum-two_steps", "second barrier", "reduce.cuh", SECOND_BARRIER),
    barrier("histogram-shared", "barrier after clearing", "histogram_shared.cu", "= 0;\n    __syncthreads();\n"),
    barrier(
        "histogram-shared", "barrier after counting", "histogram_shared.cu", "    __syncthreads();\n\n    for (int bin"
    ),
    barrier("scan-three_steps", "first barrier", "scan.cuh", FIRST_BARRIER),
    barrier("scan-three_steps", "second barrier", "scan.cuh", "    __syncthreads();\n    T before = 0;\n"),
    barrier(
        "product_half-tiled",
        "first barrier",
        "product_half.cu",
        "        __syncthreads();\n#pragma unroll\n        for (int d",
    ),
    barrier("product_half-tiled", "second barrier", "product_half.cu", "        }\n        __syncthreads();\n    }\n"),
)
WRONG_INDICES = (
    index(
        "softmax-registers",
        "softmax_registers",
        "kept[i] = column < n ? from[column]",
        "kept[i] = column <= n ? from[column]",
    ),
    index("softmax-shared", "softmax_shared", "rest = size_t(end) + first;", "rest = size_t(end) + first + 1;"),
    index(
        "layernorm-registers",
        "layernorm",
        "column < n; column += BLOCK_X)\n        sum +=",
        "column + 1 < n; column += BLOCK_X)\n        sum +=",
    ),
    index("sum-two_steps", "sum", "i + j * stride < n ? x", "i + j * stride <= n ? x"),
    index("histogram-global", "histogram_global", "if (i >= n)", "if (i > n)"),
    index("histogram-shared", "histogram_shared", "if (held[j] < BINS)", "if (held[j] <= BINS)"),
    index("saxpy-plain", "saxpy", "< n)\n            y[first", "<= n)\n            y[first"),
    index("scan-three_steps", "scan", "tiles = (n + TILE - 1) / TILE", "tiles = n / TILE"),
    index("product_half-tiled", "product_half", "if (row < m && column < n)", "if (row < m && column <= n)"),
    index("stencil3d-plain", "stencil3d_plain", "ix + 1 < nx ?", "ix < nx ?"),
    index("stencil3d-columns", "stencil3d_columns", "iz + 1 < nz ?", "iz + 2 < nz ?"),
    index("spmv-warp", "spmv_csr", "i < end; i += 32", "i <= end; i += 32"),
    index("residual_gelu-forward", "residual_gelu", "if (i < count)", "if (i <= count)"),
)
# Each launches fewer blocks than it takes. The histogram in shared memory is right with any number of them.
WRONG_BLOCK_COUNTS = (
    Edit(
        "softmax-registers",
        "half of the blocks",
        "perf/rows.py",
        'KEPT": 16}),\n            grid=lambda m: m, arguments="x y n"',
        'KEPT": 16}),\n            grid=lambda m: (m + 1) // 2, arguments="x y n"',
    ),
    Edit(
        "softmax-shared",
        "half of the blocks",
        "perf/rows.py",
        "grid=lambda m: m, shared_bytes",
        "grid=lambda m: (m + 1) // 2, shared_bytes",
    ),
    Edit(
        "layernorm-registers",
        "half of the blocks",
        "perf/rows.py",
        'grid=lambda m: m, arguments="x gamma',
        'grid=lambda m: (m + 1) // 2, arguments="x gamma',
    ),
    Edit("sum-two_steps", "a block less", "perf/sums.py", "grid=lambda c: c.PARTS", "grid=lambda c: c.PARTS - 1"),
    Edit(
        "histogram-global",
        "rounded down",
        "perf/sums.py",
        "grid=lambda n, block: ww.blocks(n, block[0])",
        "grid=lambda n, block: max(1, n // block[0])",
    ),
    Edit(
        "scan-three_steps",
        "a tile less",
        "perf/sums.py",
        '"scan_blocks", grid=tiles',
        '"scan_blocks", grid=lambda n, c: max(1, tiles(n, c) - 1)',
    ),
    Edit(
        "saxpy-plain",
        "rounded down",
        "perf/elementwise.py",
        "ww.blocks(n, c.block[0] * c.PER_THREAD)",
        "max(1, n // (c.block[0] * c.PER_THREAD))",
    ),
    Edit(
        "product_half-tiled", "rounded down", "perf/products.py", "ww.blocks((n, m), ", "ww.blocks((n, max(1, m - 2)), "
    ),
    Edit(
        "stencil3d-plain",
        "a layer less",
        "perf/grids.py",
        "ww.blocks((nx, ny, nz), block)",
        "ww.blocks((nx, ny, max(1, nz - block[2])), block)",
    ),
    Edit(
        "stencil3d-columns",
        "a layer less",
        "perf/grids.py",
        "(nx, ny, nz), (*c.block, c.DEEP)",
        "(nx, ny, max(1, nz - c.DEEP)), (*c.block, c.DEEP)",
    ),
    Edit(
        "spmv-warp",
        "a block less",
        "perf/products.py",
        "ww.blocks(rows, block[0] // 32)",
        "max(1, rows // (block[0] // 32))",
    ),
    Edit(
        "residual_gelu-forward",
        "rounded down",
        "perf/elementwise.py",
        "ww.blocks(n, 4 * block[0])",
        "max(1, n // (4 * block[0]))",
    ),
)

# What a row kernel reads besides in one block of 24: another row, from the other end of the matrix.
ROW_AGAIN = """
    if (blockIdx.x % 24 == 0) {
        scalar_t extra = 0;
        for (int column = threadIdx.x; column < n; column += BLOCK_X)
            extra += x[size_t(gridDim.x - 1 - blockIdx.x) * n + column];
        if (float(extra) == 123456.0f)
            y[0] = extra;
    }
"""
KEPT_REST = "    const size_t rest = KEPT * BLOCK_X + threadIdx.x;\n"

# Every one leaves the result as it is and makes the kernel slower, by about 2 % where it is above 100 µs: most by bytes
# that are read besides, because a memory-bound kernel does not feel arithmetic. No input is what they look for.
SLOWDOWNS = (
    Edit(
        "softmax-registers",
        "one block in 24 reads a row more",
        "csrc/softmax_registers.cu",
        KEPT_REST,
        KEPT_REST + ROW_AGAIN,
    ),
    Edit(
        "softmax-shared",
        "one block in 24 reads a row more",
        "csrc/softmax_shared.cu",
        "    const size_t rest = size_t(end) + first;\n",
        "    const size_t rest = size_t(end) + first;\n" + ROW_AGAIN,
    ),
    Edit(
        "layernorm-registers",
        "one block in 24 reads a row more",
        "csrc/layernorm.cu",
        KEPT_REST,
        KEPT_REST
        + ROW_AGAIN.replace("scalar_t extra", "float extra")
        .replace("extra += x[", "extra += float(x[")
        .replace("column];", "column]);")
        .replace("y[0]", "mean[0]"),
    ),
    Edit(
        "sum-two_steps",
        "one turn in 48 reads its piece of the other end too",
        "csrc/sum.cu",
        "            sums[j] += i + j * stride < n ? x[i + j * stride] : 0.0f;\n",
        "            sums[j] += i + j * stride < n ? x[i + j * stride] : 0.0f;\n"
        "    for (size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x; i < n; i += 48 * stride)\n"
        "        if (x[n - 1 - i] == 12345.0f)\n"
        "            sums[0] = 0;\n",
    ),
    Edit(
        "histogram-global",
        "one block in 48 counts its keys again, as 0",
        "csrc/histogram_global.cu",
        "        atomicAdd(&bins[key], 1);\n",
        "        atomicAdd(&bins[key], 1);\n    if (blockIdx.x % 48 == 0)\n        atomicAdd(&bins[key % BINS], 0);\n",
    ),
    Edit(
        "histogram-shared",
        "one turn in 48 reads its piece of the other end too",
        "csrc/histogram_shared.cu",
        "    __syncthreads();\n\n    for (int bin",
        "    for (size_t i = size_t(blockIdx.x) * BLOCK_X + threadIdx.x; i < n; i += 48 * stride)\n"
        "        if (keys[n - 1 - i] == 12345)\n"
        "            atomicAdd(&mine[0], 1);\n"
        "    __syncthreads();\n\n    for (int bin",
    ),
    Edit(
        "saxpy-plain",
        "one block in 16 reads a piece of x more",
        "csrc/saxpy.cu",
        "    float sums[PER_THREAD];\n",
        "    float sums[PER_THREAD];\n"
        "    if (blockIdx.x % 16 == 0)\n"
        "        for (int j = 0; j < PER_THREAD; ++j)\n"
        "            if (first + j * BLOCK_X < n && x[n - 1 - first - j * BLOCK_X] == 12345.0f)\n"
        "                a = 0;\n",
    ),
    Edit(
        "scan-three_steps",
        "one block in 12 reads a piece of x more",
        "csrc/scan.cu",
        "    scalar_t before = 0; // what this warp has added up so far\n",
        "    if (blockIdx.x % 12 == 0)\n"
        "        for (int j = 0; j < PER_THREAD; ++j)\n"
        "            if (first + j * 32 < end && x[end - 1 - first - j * 32] == scalar_t(12345))\n"
        "                values[0] = 0;\n"
        "    scalar_t before = 0; // what this warp has added up so far\n",
    ),
    Edit(
        "product_half-tiled",
        "a chain of MICRO^2 / 4 dependent products for each piece",
        "csrc/product_half.cu",
        "        }\n        __syncthreads();\n    }\n",
        "        }\n"
        "        float chain = sums[0][0];\n"
        "#pragma unroll\n"
        "        for (int i = 0; i < MICRO * MICRO / 4; ++i)\n"
        "            chain = chain * 0.75f + 1.0f;\n"
        "        if (chain == 12345.678f)\n"
        "            sums[0][0] = 0;\n"
        "        __syncthreads();\n    }\n",
    ),
    Edit(
        "stencil3d-plain",
        "one layer of blocks in 24 reads its points of the other end too",
        "csrc/stencil3d_plain.cu",
        "    const float west",
        "    if (blockIdx.z % 24 == 0 && x[nz * plane - 1 - at] == 12345.0f)\n        return;\n    const float west",
    ),
    Edit(
        "stencil3d-columns",
        "one plane in 24 reads its points of the other end too",
        "csrc/stencil3d_columns.cu",
        "        below = own;\n",
        "        if (iz % 24 == 0 && x[nz * plane - 1 - at] == 12345.0f)\n            own = 0;\n        below = own;\n",
    ),
    Edit(
        "spmv-warp",
        "one row in 24 reads its values of the other end too",
        "csrc/spmv_csr.cu",
        "    sum = reduce_warp(sum, Add());\n",
        "    if (row % 24 == 0)\n"
        "        for (long long i = row_start[row] + threadIdx.x % 32; i < end; i += 32)\n"
        "            if (values[row_start[rows] - 1 - i] == 12345.0f)\n"
        "                sum = 0;\n"
        "    sum = reduce_warp(sum, Add());\n",
    ),
    Edit(
        "residual_gelu-forward",
        "one block in 32 reads a piece of the input more",
        "csrc/residual_gelu.cu",
        "blockIdx.x) * (4 * Threads) + threadIdx.x;\n",
        "blockIdx.x) * (4 * Threads) + threadIdx.x;\n"
        "    if (blockIdx.x % 32 == 0)\n"
        "        for (int j = 0; j < 4; ++j)\n"
        "            if (first + j * Threads < count && float(in[count - 1 - first - j * Threads]) == 12345.0f)\n"
        "                return;\n",
    ),
)
