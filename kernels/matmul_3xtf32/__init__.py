"""Matrix product C = A B in float32 by three products of TF32, row-major: A is m x n, B is n x k, C is m x k.

A family beside matmul, whose kernels multiply in float32: splitting leaves out up to 8 rounding errors of float32,
however short the sum is, and tensor cores cut sums off (mma.cu). It is held against cuBLAS's product in float32,
without TF32.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import warpwatch as ww
from kernels.matmul import rasterised, reference
from kernels.matmul.cublas import CUBLAS, gemm
from warpwatch import Block, by_elements

LEFT_OUT = 12  # in rounding errors of float32: 8 by splitting, and what a sum that is cut off three times loses
WARP_TILES: Mapping[Block, Block] = {(64, 64): (32, 32), (128, 128): (64, 64), (128, 256): (64, 64)}
DEPTH, STAGES, GROUP = 16, 4, 8  # GROUP: rows of tiles that blocks take together
SHAPES = ((1024, 1024, 1024), (4096, 4096, 4096), (4095, 4097, 4093))

MATMUL_3XTF32 = ww.Family(
    "matmul_3xtf32",
    sizes=("m", "n", "k"),
    dtypes=("float32",),
    arrays=lambda m, n, k: {"A": ww.In((m, n)), "B": ww.In((n, k)), "C": ww.Out((m, k))},
    reference=reference,
    tolerance=ww.dot_error(lambda n: n + LEFT_OUT),
    exact=True,
    work=lambda m, n, k: ww.Work(2 * m * n * k, (m * n + n * k + m * k) * 4, pipe="tensor tf32"),
    # n is summed over: 96 and 97 take the pipeline of four stages of 16 through all its states.
    tests=((17, 33, 65), (129, 97, 63), (128, 96, 136), (2, 1009, 3)),
    benchmarks=SHAPES,
    reference_case=lambda m, n, k, dtype: f"matmul_3xtf32-cublas-vendor-{m}x{n}x{k}-{dtype}",
    ladder_shapes={"float32": SHAPES[1:2]},
    reached_shapes={"float32": SHAPES},
    variants=(
        ww.call("cublas", "the vendor's in float32, no TF32, no emulation", prepare=gemm, needs=CUBLAS),
        ww.kernel(
            "mma",
            "three products of TF32 by warps, asynchronous copies in stages, rasterised blocks",
            configurations=tuple(WARP_TILES),
            threads=lambda block: (32 * prod(block) // prod(WARP_TILES[block]), 1),
            fixed_blocks=True,
            needs="sm_80",
            order=rasterised(GROUP),
            shared_bytes=lambda block: STAGES * DEPTH * (sum(block) + 8) * 4,
            macros=lambda block: {
                "WARP_X": WARP_TILES[block][0],
                "WARP_Y": WARP_TILES[block][1],
                "STAGES": STAGES,
                "GROUP": GROUP,
            },
            fallback=by_elements("loads of A and B", "n", "k"),
        ),
    ),
)
