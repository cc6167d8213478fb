"""Transpose B = A^T, out of place, row-major: A is m x n, B is n x m."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

from kernels.copy import nearest_copy
from warpwatch.catalogue.alignment import by_elements
from warpwatch.catalogue.declaration import Array, Block, Case, Family, Owner, Rows, Shape, Variant, Work

BLOCKS = ((8, 8), (16, 16), (32, 32), (32, 16))
FLOATS = ("float32", "float64")
SHAPES = ((1000, 1000), (10000, 10000), (1024, 1024), (2048, 2048), (4096, 4096), (4096, 1000))
LADDER = dict.fromkeys(FLOATS, ((2048, 2048), (4096, 4096), (8192, 8192), (8191, 8193)))
SECTOR = 32  # bytes of memory that a GPU writes at once
TILES = ((32, 32), (64, 64), (32, 128))


def reference(operands: Sequence[Array], rows: Rows) -> Array:
    (a,) = operands
    return a[:, rows].T


def work(shape: Shape, itemsize: int) -> Work:
    return Work(0, 2 * prod(shape) * itemsize)


def tile_owner(block: Block, index: tuple[int, ...]) -> Owner:
    """Return the owner of an element: a block of (x, y) threads reads y rows of x elements and writes x rows of y."""
    (bx, by), (row, col) = block, index
    thread = (row % bx) * by + col % by
    return Owner((row // bx, col // by), (thread % bx, thread // bx))


def sector_tile(case: Case, index: tuple[int, ...], offset: int) -> tuple[int, int]:
    """Return the tile of vectorised.cu whose block writes an element.

    Where rows are not aligned to 16 bytes, blocks write whole sectors of memory: the part of a row of B that a block
    writes is moved back by as many elements as the row starts past a sector.
    """
    (m, n), (row, col), (bx, by) = case.shape, index, case.tile
    pack, sector = 16 // case.itemsize, SECTOR // case.itemsize
    aligned = m % pack == n % pack == offset % pack == 0
    back = 0 if aligned else (row * m + offset) % sector
    return row // bx, min((col + back) // by, (m - 1) // by)


def fixed(block: Block) -> tuple[int, int]:
    return 256, 1


TRANSPOSE = Family(
    name="transpose",
    folder=Path(__file__).parent,
    sizes=("m", "n"),
    operands=lambda shape: {"A": shape},
    result=lambda shape: ("B", (shape[1], shape[0])),
    reference=reference,
    bound=lambda operands, rows: 0.0,
    work=work,
    serial_seconds=lambda shape: prod(shape) / 1.4e8,
    test_shapes=((17, 33), (128, 128), (257, 129), (3, 1009)),
    bench_shapes={"float32": SHAPES, "float64": SHAPES},
    reference_case=lambda shape, dtype: nearest_copy(work(shape, 8 if dtype == "float64" else 4), dtype),
    ladder_shapes={"float32": ((8192, 8192),)},
    reached_shapes={"float32": ((8192, 8192), (8191, 8193))},
    variants=(
        Variant("serial", "plain C++, one thread of the host", blocks=((),), dtypes=FLOATS, on_host=True),
        Variant("naive", "one thread an element, all from global memory", blocks=BLOCKS, dtypes=FLOATS, x=0, y=1),
        Variant(
            "tiled",
            "a tile in shared memory: reads and writes coalesced",
            blocks=BLOCKS,
            dtypes=FLOATS,
            x=0,
            y=1,
            owner=tile_owner,
        ),
        Variant(
            "padded",
            "tiled, with a spare column against bank conflicts",
            blocks=BLOCKS,
            dtypes=FLOATS,
            x=0,
            y=1,
            owner=tile_owner,
        ),
        Variant(
            "rows",
            "padded, several rows a thread",
            blocks=TILES,
            dtypes=FLOATS,
            x=0,
            y=1,
            threads=fixed,
            bench_shapes=LADDER,
        ),
        Variant(
            "swizzled",
            "an exclusive or, no spare column",
            blocks=TILES,
            dtypes=FLOATS,
            x=0,
            y=1,
            threads=fixed,
            bench_shapes=LADDER,
        ),
        Variant(
            "vectorised",
            "loads and stores of 16 bytes",
            blocks=TILES,
            dtypes=FLOATS,
            x=0,
            y=1,
            threads=lambda block: (128, 1),
            tile_of=sector_tile,
            bench_shapes=LADDER,
            fallback=by_elements("A and B", 0, 1),
        ),
    ),
)
