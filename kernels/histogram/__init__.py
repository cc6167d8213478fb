"""Histogram of n bytes: counts[k] says how many of them are k.

A shape names how many different values the bytes have: 256 is a uniform draw, 1 is all alike, which is hardest for
kernels that count by atomic operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import warpwatch as ww
from kernels.copy import BETWEEN, nearest_copy
from warpwatch import Array

BINS = 256
MULTIPROCESSORS = 132  # of an H200 or H100
LEAST = 64  # bytes a thread, at least, where the array is smaller than a grid of blocks that all run at a time
SHAPES = tuple((2**power, values) for power in (20, 26, 28) for values in (BINS, 1))
COUNTED_AT_ONCE = 2**20  # bytes, which NumPy makes 8 bytes each of


def draw(rng: np.random.Generator, n: int, values: int) -> dict[str, Array]:
    """Draw bytes of so many different values."""
    numbers = rng.integers(0, values, n, dtype=np.uint8)
    return {"keys": rng.permutation(BINS).astype(np.uint8)[numbers]}


def reference(keys: Array) -> Array:
    counts = np.zeros(BINS, np.int64)
    for start in range(0, len(keys), COUNTED_AT_ONCE):
        counts += np.bincount(keys[start : start + COUNTED_AT_ONCE], minlength=BINS)
    return counts.astype(np.uint32)


def work(n: int) -> ww.Work:
    return ww.Work(n, n + 4 * BINS)


def grid(resident: int = 2048) -> str:
    """Return the blocks that all run at a time, with so many threads on a multiprocessor, or fewer for few bytes."""
    return f"min({MULTIPROCESSORS * resident}//BLOCK_X,ceil(n/({LEAST}*BLOCK_X)))"


def kernel(name: str, note: str, **more: Any) -> ww.Variant:
    """Make a variant that takes keys, counts and the number of keys."""
    return ww.kernel(name, note, arguments="keys counts n", **more)


HISTOGRAM = ww.Family(
    "histogram",
    sizes=("n", "values"),
    dtypes=("uint8",),
    arrays=lambda n: {"keys": ww.In(n), "counts": ww.Out(BINS, "uint32", initial=0)},
    draw=draw,
    valid=lambda values: values <= BINS,
    reference=reference,
    deterministic=True,
    work=work,
    serial_seconds=lambda n: n / 1.0e9,
    tests=((33, 256), (4096, 1), (70_001, 256), (300_001, 3)),
    benchmarks=SHAPES,
    reference_case=lambda n: nearest_copy(work(n), "float32", BETWEEN),
    ladder_shapes={"uint8": ((2**26, BINS), (2**26, 1))},
    reached_shapes={"uint8": SHAPES[2:]},
    variants=(
        ww.serial("serial", "plain C++, one thread of the host", x=0, y=None, benchmarks=SHAPES[:2]),
        kernel(
            "naive",
            "one thread a byte, counted in global memory",
            configurations=((256,),),
            grid="ceil(n/BLOCK_X)",
            benchmarks=SHAPES[:4],
        ),
        kernel(
            "shared",
            "a histogram a block in shared memory, loads of one byte",
            configurations=((512,),),
            grid=grid(),
            benchmarks=SHAPES[:4],
        ),
        kernel(
            "columns",
            "a histogram for each lane in its own bank, loads of 16 bytes",
            configurations=((1024,),),
            grid=grid(),
        ),
        kernel(
            "pipelined",
            "columns again, and the next loads are always on their way: half as many threads with more registers",
            configurations=((512,), (1024,)),
            grid=grid(1024),
        ),
    ),
)
