"""Matrix product C = A B of half-precision elements with float32 sums, row-major: A is m x n, B is n x k, C is m x k.

A family beside matmul, because its sums have another type than its elements: so they have in cuBLAS's product
(cublasGemmEx with CUBLAS_COMPUTE_32F), which rounds each sum once, to the type of the elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

import warpwatch as ww
from kernels.matmul import rasterised, reference
from kernels.matmul.cublas import CUBLAS
from kernels.matmul_half.cublas import gemm_ex
from warpwatch import Block, Shape, by_elements

HALVES = ("float16", "bfloat16")
BYTES, EACH = 2, 8  # of an element; elements of 16 bytes
DEPTH = 64  # of the tiles of mma.cu and wgmma.cu
LOW = ((1024, 1024, 1024),)
HIGH = ((4096, 4096, 4096), (8192, 8192, 8192), (4095, 4097, 4093))
MIDDLE = (*LOW, HIGH[0], HIGH[2])
GROUP = 8  # rows of tiles that blocks take together
STAGES = 4
WARP_TILE = 64  # elements of C along each side that a warp of mma.cu computes
CLUSTER, STAGED = 2, 64  # of wgmma.cu; columns of C that a warp group writes at a time
MULTIPROCESSORS = 132  # of an H200 or H100
BY_ELEMENTS = by_elements("loads of A and B", "n", "k")


def aligned(address: int, length: int) -> bool:
    """Tell whether all rows of a matrix start at multiples of 16 bytes."""
    return address % 16 == 0 and length % EACH == 0


def with_maps(
    at: Mapping[str, int], dtype: str, block: Block, m: int, n: int, k: int
) -> tuple[np.generic | int | np.int32, ...]:
    """Pass tensor maps of A, B and C, their addresses and those of copies for TMA, then the sizes.

    A map is of the copy where the rows of the matrix are off multiples of 16 bytes. C has none then, and gets B's.
    """

    def mapped(name: str, rows: int, columns: int, box: Shape) -> tuple[np.generic, int]:
        copy = -(-at.get(f"{name}_copy", 0) // 16) * 16
        address, pitch = (at[name], columns) if aligned(at[name], columns) else (copy, -(-columns // EACH) * EACH)
        map_of = ww.tensor_map(address, dtype, (rows, columns), box=box, row_bytes=pitch * BYTES, swizzle=128)
        return map_of, copy

    a, a_copy = mapped("A", m, n, (block[1], DEPTH))
    b, b_copy = mapped("B", n, k, (DEPTH, 64))
    c = mapped("C", m, k, (64, STAGED))[0] if aligned(at["C"], k) else b
    sizes = map(np.int32, (m, n, k))
    return (a, b, c, at["A"], at["B"], at["C"], a_copy, b_copy, at["tickets"], *sizes)


def copies(m: int, n: int, k: int) -> dict[str, Any]:
    """Declare room for A and B with rows that start at multiples of 16 bytes, wherever the room itself starts."""
    padded = {"A_copy": m * -(-n // EACH) * EACH + EACH, "B_copy": n * -(-k // EACH) * EACH + EACH}
    return {
        **{name: ww.Scratch(elements) for name, elements in padded.items()},
        "tickets": ww.Scratch(2, "uint32", initial=0),
    }


def resident(m: int, k: int, block: Block) -> int:
    """Return how many blocks compute all tiles one after the other: one on each multiprocessor, in whole clusters."""
    across, down = ww.blocks((k, m), (block[0], block[1] * CLUSTER))[:2]
    return min(MULTIPROCESSORS, across * down * CLUSTER)


def ptx_type(dtype: str) -> str:
    return {"float16": "f16", "bfloat16": "bf16"}[dtype]


MATMUL_HALF = ww.Family(
    "matmul_half",
    sizes=("m", "n", "k"),
    dtypes=HALVES,
    arrays=lambda m, n, k: {"A": ww.In((m, n)), "B": ww.In((n, k)), "C": ww.Out((m, k))},
    reference=reference,
    tolerance=ww.dot_error("n", sums="float32"),
    exact=True,
    work=lambda m, n, k: ww.Work(2 * m * n * k, (m * n + n * k + m * k) * BYTES),
    # n is summed over: 320 takes the deepest pipeline through its states. 2,177 rows have more tiles than a group.
    # More tiles than run at a time would take minutes on the software device: benchmarks check these.
    tests=((17, 33, 65), (129, 97, 63), (128, 320, 136), (2, 1009, 3), (2177, 8, 264)),
    benchmarks=LOW,
    reference_case=lambda m, n, k, dtype: f"matmul_half-cublas-vendor-{m}x{n}x{k}-{dtype}",
    ladder_shapes=dict.fromkeys(HALVES, HIGH[:1]),
    reached_shapes=dict.fromkeys(HALVES, HIGH),
    variants=(
        ww.call("cublas", "the vendor's, float32 sums", prepare=gemm_ex, needs=CUBLAS, benchmarks=(*LOW, *HIGH)),
        ww.kernel("naive", "one thread an element, all from global memory", configurations=((16, 16), (32, 32))),
        ww.kernel("tiled", "2-D tiles of A and B in shared memory", configurations=((16, 16), (32, 32))),
        ww.kernel(
            "wmma",
            "tensor cores by nvcuda::wmma, tiles in shared memory",
            configurations=((128, 128),),
            threads=lambda block: (32 * prod(block) // (64 * 32), 1),
            fixed_blocks=True,
            needs="sm_80",  # for bfloat16
            fallback=BY_ELEMENTS,
            benchmarks=MIDDLE[:2],
        ),
        ww.kernel(
            "mma",
            "tensor cores by warps, asynchronous copies in stages, swizzled tiles, rasterised blocks",
            configurations=((256, 128), (128, 256)),
            threads=lambda block: (32 * prod(block) // WARP_TILE**2, 1),
            fixed_blocks=True,
            needs="sm_90",  # for its shared memory
            order=rasterised(GROUP),
            shared_bytes=lambda block: STAGES * sum(block) * DEPTH * BYTES,
            macros=lambda dtype: {
                "PTX_TYPE": ptx_type(dtype),
                "WARP_X": WARP_TILE,
                "WARP_Y": WARP_TILE,
                "STAGES": STAGES,
                "GROUP": GROUP,
            },
            fallback=BY_ELEMENTS,
            benchmarks=MIDDLE,
        ),
        ww.kernel(
            "wgmma",
            "tensor cores by warp groups, TMA, clusters, blocks that stay",
            configurations=((256, 128),),
            threads=lambda: (384, 1),
            fixed_blocks=True,
            needs="sm_90a",
            grid=resident,
            cluster=CLUSTER,
            scratch=copies,
            arguments=with_maps,
            shared_bytes=lambda block: (
                STAGES * sum(block) * DEPTH * BYTES + 2 * 2 * 64 * STAGED * BYTES + 2 * 8 * STAGES
            ),
            macros=lambda dtype: {
                "PTX_TYPE": ptx_type(dtype),
                "STAGES": STAGES,
                "CLUSTER": CLUSTER,
                "GROUP": GROUP,
            },
            fallback=lambda n, k: (
                "" if aligned(0, n) and aligned(0, k) else "A or B is copied first: rows off 16 bytes"
            ),
            benchmarks=(*LOW, *HIGH),
        ),
    ),
)
