"""Matrix product C = A B, row-major: A is m x n, B is n x k, C is m x k."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

import warpwatch as ww
from kernels.matmul.cublas import CUBLAS, gemm
from warpwatch import Array, Block, Part, Shape, by_elements, product

SQUARES = ((8, 8), (16, 16), (32, 32))
FLOATS = ("float64", "float32")
CUBES = tuple((n, n, n) for n in (128, 256, 512, 1024, 2048))
STUDY: Mapping[str, tuple[Shape, ...]] = {
    "float64": (*CUBES, (1920, 1024, 1280)),
    "float32": (*CUBES, (1920, 1024, 1280)),
    "int32": ((1024, 1024, 1024), (1920, 1024, 1280)),
}
LADDER: Mapping[str, tuple[Shape, ...]] = {  # where variants are compared with the vendor's library
    "float64": ((2048, 2048, 2048), (4096, 4096, 4096), (2049, 2047, 2051)),
    "float32": ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (4095, 4097, 4093)),
}
BOTH = {dtype: tuple(dict.fromkeys((*STUDY[dtype], *LADDER.get(dtype, ())))) for dtype in STUDY}
REGTILES = ((64, 64), (128, 128))
WARP_TILES: Mapping[Block, Block] = {
    (256, 128): (64, 64),
    (128, 128): (64, 32),
    (128, 64): (64, 32),
}
MOST_DOUBLES = 32 * 64  # float64 sums that the registers of a warp hold
DEPTH, STAGES, WARP_STAGES, TENSOR_DEPTH, TENSOR_STAGES = 8, 3, 4, 16, 3
WARP_GROUP, TENSOR_GROUP = 8, 4  # rows of tiles that blocks take together: `group` in the kernels' files
TENSOR_WARP_TILES: Mapping[Block, Block] = {(128, 128): (64, 32), (64, 64): (32, 32)}
LOADS, LOADS_OF_B = by_elements("loads of A and B", "n", "k"), by_elements("loads of B", "k")
MATRIX = np.dtype([("width", "i4"), ("height", "i4"), ("stride", "i4"), ("data", "u8")], align=True)


def structs(at: Mapping[str, int], m: int, n: int, k: int, padding: int) -> tuple[np.generic, ...]:
    """Pass A, B and C as structs: width, height, stride (elements), data. ``padding``: elements after each row."""
    sizes = [(n, m, n + padding, at["A"]), (k, n, k + padding, at["B"]), (k, m, k + padding, at["C"])]
    return tuple(np.array(sizes, MATRIX))


def reference(A: Array, B: Array, part: Part, magnitudes: bool = False) -> Array:
    return product(A[part], B, magnitudes)


def rasterised(group: int) -> Callable[[tuple[int, int], tuple[int, int]], int]:
    """Make the order in which blocks go down a column of ``group`` tiles, then on to the next column."""

    def number(tile: tuple[int, int], tiles: tuple[int, int]) -> int:
        (x, y), (across, down) = tile, tiles
        first = y // group * group
        return first * across + x * min(down - first, group) + y - first

    return number


def with_thread_tiles(
    name: str, note: str, *, blocks: tuple[Block, ...], elements_a_thread: Callable[[Block], int], **more: Any
) -> ww.Variant:
    """Make a variant whose blocks are tiles of C, and whose threads compute several elements of such a tile each."""
    return ww.kernel(
        name,
        note,
        configurations=blocks,
        threads=lambda block: (prod(block) // elements_a_thread(block), 1),
        benchmarks=LADDER,
        **more,
    )


MATMUL = ww.Family(
    "matmul",
    sizes=("m", "n", "k"),
    dtypes=FLOATS,
    arrays=lambda m, n, k: {"A": ww.In((m, n)), "B": ww.In((n, k)), "C": ww.Out((m, k))},
    reference=reference,
    tolerance=ww.dot_error("n"),
    exact=True,
    work=lambda m, n, k, itemsize: ww.Work(2 * m * n * k, (m * n + n * k + m * k) * itemsize),
    serial_seconds=lambda m, n, k: m * n * k / 3.0e9,
    # n is summed over: 96 and 97 take pipelines of four stages of 8 and three of 16 through all their states.
    tests=((17, 33, 65), (128, 96, 128), (129, 97, 63), (2, 1009, 3)),
    benchmarks=STUDY,
    reference_case=lambda m, n, k, dtype: "" if dtype == "int32" else f"matmul-cublas-vendor-{m}x{n}x{k}-{dtype}",
    ladder_shapes={"float32": ((4096, 4096, 4096),), "float64": ((4096, 4096, 4096),)},
    reached_shapes={
        "float32": ((1024, 1024, 1024), (4096, 4096, 4096), (4095, 4097, 4093)),
        "float64": ((4096, 4096, 4096), (2049, 2047, 2051)),
    },
    variants=(
        ww.serial("serial", "plain C++, one thread of the host"),
        ww.call("cublas", "the vendor's, no TF32, no emulation", prepare=gemm, needs=CUBLAS, benchmarks=BOTH),
        ww.kernel("strided", "one thread an element, x along rows: uncoalesced", configurations=SQUARES, x=0, y=1),
        ww.kernel(
            "naive",
            "one thread an element, all from global memory",
            configurations=SQUARES,
            dtypes=(*FLOATS, "int32"),
            benchmarks=BOTH,
        ),
        ww.kernel(
            "rowstrip",
            "a strip of one row of C a block, A's row in shared memory",
            configurations=((64, 1), (256, 1)),
        ),
        ww.kernel(
            "tiled",
            "2-D tiles of A and B in shared memory",
            configurations=SQUARES,
            dtypes=(*FLOATS, "int32"),
            benchmarks=BOTH,
        ),
        ww.kernel(
            "struct_naive",
            "naive on Matrix structs passed by value",
            configurations=SQUARES,
            arguments=structs,
        ),
        ww.kernel(
            "struct_tiled",
            "tiled on views of Matrix structs",
            configurations=SQUARES,
            arguments=structs,
        ),
        with_thread_tiles(
            "register_column",
            "eight elements of a column of C a thread",
            blocks=((64, 64),),
            elements_a_thread=lambda block: 8,
        ),
        with_thread_tiles(
            "register_tile", "8x8 elements of C a thread", blocks=REGTILES, elements_a_thread=lambda block: 64
        ),
        with_thread_tiles(
            "vectorised",
            "loads of 16 bytes, A's tile transposed",
            blocks=REGTILES,
            elements_a_thread=lambda block: 64,
            fallback=LOADS,
        ),
        with_thread_tiles(
            "double_buffered",
            "the next tile on its way meanwhile",
            blocks=REGTILES,
            elements_a_thread=lambda block: 64,
            fallback=LOADS,
        ),
        with_thread_tiles(
            "asynchronous",
            "asynchronous copies, some stages ahead",
            blocks=REGTILES,
            elements_a_thread=lambda block: 64,
            needs="sm_80",
            shared_bytes=lambda block, itemsize: STAGES * DEPTH * (sum(block) * itemsize + 16),
            macros=lambda: {"STAGES": STAGES},
            fallback=LOADS_OF_B,
        ),
        with_thread_tiles(
            "warptiled",
            "warp tiles, asynchronous copies in stages, rasterised blocks",
            blocks=tuple(WARP_TILES),
            elements_a_thread=lambda block: prod(WARP_TILES[block]) // 32,
            needs="sm_80",
            fixed_blocks=True,
            order=rasterised(WARP_GROUP),
            takes=lambda block, dtype: dtype == "float32" or prod(WARP_TILES[block]) <= MOST_DOUBLES,
            shared_bytes=lambda block, itemsize: WARP_STAGES * DEPTH * (sum(block) + 8) * itemsize,
            macros=lambda block: {
                "WARP_X": WARP_TILES[block][0],
                "WARP_Y": WARP_TILES[block][1],
                "STAGES": WARP_STAGES,
            },
            fallback=LOADS_OF_B,
        ),
        with_thread_tiles(
            "tensor",
            "tensor cores in float64, asynchronous copies in stages",
            blocks=tuple(TENSOR_WARP_TILES),
            dtypes=("float64",),
            elements_a_thread=lambda block: prod(TENSOR_WARP_TILES[block]) // 32,
            needs="sm_90",
            fixed_blocks=True,
            order=rasterised(TENSOR_GROUP),
            shared_bytes=lambda block, itemsize: (
                TENSOR_STAGES * (block[1] * (TENSOR_DEPTH + 4) + TENSOR_DEPTH * (block[0] + 4)) * itemsize
            ),
            macros=lambda block: {
                "WARP_X": TENSOR_WARP_TILES[block][0],
                "WARP_Y": TENSOR_WARP_TILES[block][1],
                "STAGES": TENSOR_STAGES,
            },
            fallback=LOADS,
        ),
    ),
)
