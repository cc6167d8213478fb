"""Sum of n elements: x is read once, and next to nothing is written."""

from __future__ import annotations

from typing import Any

import numpy as np

import warpwatch as ww
from kernels.copy import BETWEEN, nearest_copy

MULTIPROCESSORS, RESIDENT = 132, 1024  # of an H200 or H100, and threads on each: a grid of which all run at a time
BLOCKS = ((512,),)
LEAST = 16  # elements a thread, at least, where the array is smaller than that grid
GRID = f"min(PARTS,ceil(n/({LEAST}*BLOCK_X)))"
SHAPES = tuple((2**power,) for power in (20, 24, 26, 28))


def work(n: int) -> ww.Work:
    return ww.Work(n, 4 * n + 4)


def with_resident_blocks(name: str, note: str, **more: Any) -> ww.Variant:
    """Make a variant of no more blocks than run at a time: each has an equal share of the array, and leaves its sum."""
    return ww.kernel(
        name,
        note,
        configurations=BLOCKS,
        macros=lambda block: {"PARTS": MULTIPROCESSORS * RESIDENT // block[0]},
        scratch=lambda c, block: {
            "parts": ww.Scratch(MULTIPROCESSORS * RESIDENT // block[0]),
            "ticket": ww.Scratch(1, "uint32", initial=0),
        },
        deterministic=True,
        **more,
    )


def two_launches(name: str) -> dict[str, Any]:
    """Return the launches of a kernel that leaves sums of parts, and of the one that adds these up."""
    return {
        "launches": (
            ww.Step(f"reduce_{name}", grid=GRID, arguments="x parts n"),
            ww.Step("reduce_parts", grid=1, arguments=f"parts sum {GRID}"),
        )
    }


REDUCE = ww.Family(
    "reduce",
    sizes=("n",),
    dtypes=("float32",),
    arrays=lambda n: {"x": ww.In(n), "sum": ww.Out(1, initial=0)},
    reference=lambda x: x.sum(dtype=np.float64, keepdims=True),
    tolerance=ww.dot_error("n"),
    exact=True,
    work=work,
    serial_seconds=lambda n: n / 1.0e9,
    tests=((33,), (4096,), (70_001,)),
    benchmarks=SHAPES,
    reference_case=lambda n, dtype: nearest_copy(work(n), dtype, BETWEEN),
    ladder_shapes={"float32": ((2**26,),)},
    reached_shapes={"float32": ((2**24,), (2**26,), (2**28,))},
    variants=(
        ww.serial("serial", "plain C++, one thread of the host", x=0, y=None, benchmarks=SHAPES[:2]),
        ww.kernel(
            "naive",
            "one thread an element, a tree in shared memory, an atomic addition a block",
            configurations=BLOCKS,
            grid=lambda n, block: ww.blocks(n, block[0]),
            deterministic=False,
            benchmarks=SHAPES[:3],
        ),
        with_resident_blocks(
            "shuffle",
            "blocks that all run at a time, warps add by shuffles, two launches",
            **two_launches("shuffle"),
        ),
        with_resident_blocks("vectorised", "eight loads of 16 bytes in flight", **two_launches("vectorised")),
        with_resident_blocks(
            "last_block", "the last block adds up: one launch", grid=GRID, arguments="x parts ticket sum n"
        ),
    ),
)
