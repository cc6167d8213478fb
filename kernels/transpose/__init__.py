"""Transpose B = A^T, out of place, row-major: A is m x n, B is n x m."""

from __future__ import annotations

import warpwatch as ww
from kernels.copy import nearest_copy
from warpwatch import Block

BLOCKS = ((8, 8), (16, 16), (32, 32), (32, 16))
FLOATS = ("float32", "float64")
SHAPES = ((1000, 1000), (10000, 10000), (1024, 1024), (2048, 2048), (4096, 4096), (4096, 1000))
LADDER = dict.fromkeys(FLOATS, ((2048, 2048), (4096, 4096), (8192, 8192), (8191, 8193)))
SECTOR = 32  # bytes of memory that a GPU writes at once
TILES = ((32, 32), (64, 64), (32, 128))


def work(m: int, n: int, itemsize: int) -> ww.Work:
    return ww.Work(0, 2 * m * n * itemsize)


def tile_owner(block: Block, index: tuple[int, ...]) -> ww.Owner:
    """Return the owner of an element: a block of (x, y) threads reads y rows of x elements and writes x rows of y."""
    (bx, by), (row, col) = block, index
    thread = (row % bx) * by + col % by
    return ww.Owner((row // bx, col // by), (thread % bx, thread // bx))


def vectorised_threads(tile: Block) -> int:
    """Return the threads of a block of vectorised.cu: of float32, each reads two pieces of 16 bytes at least."""
    return 128 if tile[0] * tile[1] < 4096 else 256


def sector_tile(m: int, n: int, block: Block, itemsize: int, index: tuple[int, ...], offset: int) -> tuple[int, int]:
    """Return the tile of vectorised.cu whose block writes an element.

    Blocks write whole sectors of memory: the part of a row of B that a block writes is moved back by as many elements
    as the row starts past a sector.
    """
    (row, col), (bx, by) = index, block
    back = (row * m + offset) % (SECTOR // itemsize)
    return row // bx, min((col + back) // by, (m - 1) // by)


TRANSPOSE = ww.Family(
    "transpose",
    sizes=("m", "n"),
    dtypes=FLOATS,
    arrays=lambda m, n: {"A": ww.In((m, n)), "B": ww.Out((n, m))},
    reference=lambda A, part: A[:, part].T,
    exact=True,
    work=work,
    serial_seconds=lambda m, n: m * n / 1.4e8,
    tests=((17, 33), (128, 128), (257, 129), (3, 1009)),
    benchmarks=SHAPES,
    reference_case=lambda m, n, dtype: nearest_copy(work(m, n, 8 if dtype == "float64" else 4), dtype),
    ladder_shapes={"float32": ((8192, 8192),)},
    reached_shapes={"float32": ((8192, 8192), (8191, 8193))},
    variants=(
        ww.serial("serial", "plain C++, one thread of the host"),
        ww.kernel("naive", "one thread an element, all from global memory", configurations=BLOCKS, x=0, y=1),
        ww.kernel(
            "tiled",
            "a tile in shared memory: reads and writes coalesced",
            configurations=BLOCKS,
            x=0,
            y=1,
            owner=tile_owner,
        ),
        ww.kernel(
            "padded",
            "tiled, with a spare column against bank conflicts",
            configurations=BLOCKS,
            x=0,
            y=1,
            owner=tile_owner,
        ),
        ww.kernel(
            "rows",
            "padded, several rows a thread",
            configurations=TILES,
            x=0,
            y=1,
            threads=lambda: (256, 1),
            benchmarks=LADDER,
        ),
        ww.kernel(
            "swizzled",
            "an exclusive or, no spare column",
            configurations=TILES,
            x=0,
            y=1,
            threads=lambda: (256, 1),
            benchmarks=LADDER,
        ),
        ww.kernel(
            "vectorised",
            "loads and stores of 16 bytes, blocks down the rows of A first",
            configurations=TILES,
            x=0,
            y=1,
            threads=lambda block: (vectorised_threads(block), 1),
            macros=lambda block: {"THREADS": vectorised_threads(block)},
            order=lambda tile, tiles: tile[0] * tiles[1] + tile[1],
            tile_of=sector_tile,
            benchmarks=LADDER,
        ),
    ),
)
