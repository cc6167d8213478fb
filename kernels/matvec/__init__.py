"""Matrix-vector product y = A x, row-major: A is m x n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warpwatch as ww
from kernels.copy import nearest_copy
from kernels.matmul.cublas import CUBLAS
from kernels.matvec.cublas import gemv
from warpwatch import Array, Block, Part, by_elements, product

BLOCKS = ((64,), (128,), (256,), (512,))
FLOATS = ("float32", "float64")
ROWS = 4  # of the result that a warp of `rows` computes
SHAPES = ((1000, 1000), (10000, 10000), (4096, 1023))
LADDER = dict.fromkeys(FLOATS, ((1000, 10000), (4096, 4096), (8192, 8192), (16384, 16384)))
BOTH = {dtype: (*SHAPES, *LADDER[dtype]) for dtype in FLOATS}


def reference(A: Array, x: Array, part: Part, magnitudes: bool = False) -> Array:
    return product(A[part], x, magnitudes)


def work(m: int, n: int, itemsize: int) -> ww.Work:
    return ww.Work(2 * m * n, (m * n + n + m) * itemsize)


def with_rows_in_parallel(
    name: str,
    note: str,
    *,
    blocks: tuple[Block, ...],
    threads: Callable[[Block], int],
    rows_a_block: int = 0,
    **more: Any,
) -> ww.Variant:
    """Make a variant whose block computes as many rows as its block size says, or ``rows_a_block``."""
    return ww.kernel(
        name,
        note,
        configurations=blocks,
        x=0,
        y=None,
        threads=lambda block: (threads(block), 1),
        tile=(lambda: (rows_a_block, 1)) if rows_a_block else None,
        benchmarks=LADDER,
        **more,
    )


MATVEC = ww.Family(
    "matvec",
    sizes=("m", "n"),
    dtypes=FLOATS,
    arrays=lambda m, n: {"A": ww.In((m, n)), "x": ww.In(n), "y": ww.Out(m)},
    reference=reference,
    tolerance=ww.dot_error("n"),
    exact=True,
    work=work,
    serial_seconds=lambda m, n: m * n / 1.0e9,
    tests=((17, 33), (128, 128), (1009, 257), (63, 4096)),
    benchmarks=SHAPES,
    reference_case=lambda m, n, dtype: nearest_copy(work(m, n, 8 if dtype == "float64" else 4), dtype),
    ladder_shapes={"float32": ((8192, 8192),)},
    reached_shapes={"float32": ((1000, 10000), (4096, 4096), (8192, 8192), (16384, 16384))},
    variants=(
        ww.serial("serial", "plain C++, one thread of the host", x=0, y=None),
        ww.kernel("naive", "one thread a row", configurations=BLOCKS, x=0, y=None),
        ww.call("cublas", "the vendor's", prepare=gemv, needs=CUBLAS, benchmarks=BOTH),
        ww.kernel("tiled", "one thread a row, x staged through shared memory", configurations=BLOCKS, x=0, y=None),
        with_rows_in_parallel("warp", "a warp a row", blocks=((8,),), threads=lambda block: block[0] * 32),
        with_rows_in_parallel(
            "vectorised",
            "a warp a row, several loads of 16 bytes in flight",
            blocks=((4,), (8,)),
            threads=lambda block: block[0] * 32,
            fallback=by_elements("x", "n"),
        ),
        with_rows_in_parallel(
            "rows",
            "four rows a warp, a piece of x for them all",
            blocks=((32,),),
            threads=lambda block: block[0] // ROWS * 32,
            macros=lambda: {"ROWS": ROWS},
            fallback=by_elements("A and x", "n"),
        ),
        with_rows_in_parallel(
            "split",
            "a block a row",
            blocks=((128,), (256,), (512,)),
            threads=lambda block: block[0],
            rows_a_block=1,
            fallback=by_elements("x", "n"),
        ),
    ),
)
