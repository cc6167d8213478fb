"""Matrix-vector product y = A x, row-major: A is m x n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernels.copy import nearest_copy
from kernels.matvec.cublas import GEMV
from warpwatch.catalogue.alignment import by_elements
from warpwatch.catalogue.declaration import Array, Block, Family, Rows, Shape, Variant, Work
from warpwatch.catalogue.tolerance import dot_error, product

BLOCKS = ((64,), (128,), (256,), (512,))
FLOATS = ("float32", "float64")
ROWS = 4  # of the result that a warp of `rows` computes
ROWS_AT_ONCE = 1024  # that the reference computes at a time
SHAPES = ((1000, 1000), (10000, 10000), (4096, 1023))
LADDER = dict.fromkeys(FLOATS, ((1000, 10000), (4096, 4096), (8192, 8192), (16384, 16384)))
BOTH = {dtype: (*SHAPES, *LADDER[dtype]) for dtype in FLOATS}


def multiply(a: Array, x: Array, magnitudes: bool = False) -> Array:
    """Return A x in float64, computed some rows at a time: converting all of A would take longer than the product.

    ``magnitudes``: use the magnitudes of the elements of both.
    """
    pieces = (a[row : row + ROWS_AT_ONCE] for row in range(0, len(a), ROWS_AT_ONCE))
    if magnitudes:
        return np.concatenate([product(np.abs(piece), np.abs(x)) for piece in pieces])
    return np.concatenate([product(piece, x) for piece in pieces])


def reference(operands: Sequence[Array], rows: Rows) -> Array:
    a, x = operands
    return multiply(a[rows], x)


def bound(operands: Sequence[Array], rows: Rows) -> Array | float:
    a, x = operands
    return dot_error(a.shape[1], a.dtype) * multiply(a[rows], x, magnitudes=True)


def work(shape: Shape, itemsize: int) -> Work:
    m, n = shape
    return Work(2 * m * n, (m * n + n + m) * itemsize)


def with_rows_in_parallel(
    name: str,
    note: str,
    *,
    blocks: tuple[Block, ...],
    threads: Callable[[Block], int],
    rows_a_block: int = 0,
    **more: Any,
) -> Variant:
    """Make a variant whose block computes as many rows as its block size says, or ``rows_a_block``."""
    return Variant(
        name,
        note,
        blocks=blocks,
        dtypes=FLOATS,
        x=0,
        y=None,
        threads=lambda block: (threads(block), 1),
        tile=(lambda block: (rows_a_block, 1)) if rows_a_block else None,
        bench_shapes=LADDER,
        **more,
    )


MATVEC = Family(
    name="matvec",
    folder=Path(__file__).parent,
    sizes=("m", "n"),
    operands=lambda shape: {"A": shape, "x": (shape[1],)},
    result=lambda shape: ("y", (shape[0],)),
    reference=reference,
    bound=bound,
    work=work,
    serial_seconds=lambda shape: shape[0] * shape[1] / 1.0e9,
    test_shapes=((17, 33), (128, 128), (1009, 257), (63, 4096)),
    bench_shapes={"float32": SHAPES, "float64": SHAPES},
    reference_case=lambda shape, dtype: nearest_copy(work(shape, 8 if dtype == "float64" else 4), dtype),
    ladder_shapes={"float32": ((8192, 8192),)},
    reached_shapes={"float32": ((1000, 10000), (4096, 4096), (8192, 8192), (16384, 16384))},
    variants=(
        Variant("serial", "plain C++, one thread of the host", blocks=((),), dtypes=FLOATS, x=0, y=None, on_host=True),
        Variant("naive", "one thread a row", blocks=BLOCKS, dtypes=FLOATS, x=0, y=None),
        Variant("cublas", "the vendor's", blocks=((),), dtypes=FLOATS, x=0, y=None, library=GEMV, bench_shapes=BOTH),
        Variant("tiled", "one thread a row, x staged through shared memory", blocks=BLOCKS, dtypes=FLOATS, x=0, y=None),
        with_rows_in_parallel("warp", "a warp a row", blocks=((8,),), threads=lambda block: block[0] * 32),
        with_rows_in_parallel(
            "vectorised",
            "a warp a row, several loads of 16 bytes in flight",
            blocks=((4,), (8,)),
            threads=lambda block: block[0] * 32,
            fallback=by_elements("x", 1),
        ),
        with_rows_in_parallel(
            "rows",
            "four rows a warp, a piece of x for them all",
            blocks=((32,),),
            threads=lambda block: block[0] // ROWS * 32,
            macros=lambda block: {"ROWS": ROWS},
            fallback=by_elements("A and x", 1),
        ),
        with_rows_in_parallel(
            "split",
            "a block a row",
            blocks=((128,), (256,), (512,)),
            threads=lambda block: block[0],
            rows_a_block=1,
            fallback=by_elements("x", 1),
        ),
    ),
)
