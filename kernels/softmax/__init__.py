"""Softmax of the rows of an m x n matrix: y = exp(x - max) / sum of exp(x - max), row-major."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

import warpwatch as ww
from kernels.copy import nearest_copy
from warpwatch import ALL_ROWS, Array, Block, Part

SHAPES = ((4096, 1000), (16384, 4095), (16384, 4096), (2048, 32768))
PACK = 4  # elements of a load of 16 bytes
KEPT = (1, 2, 4, 8)  # pieces of 16 bytes that a thread keeps in registers


def reference(x: Array, part: Part = ALL_ROWS) -> Array:
    powers = x[part].astype(np.float64)
    powers -= powers.max(axis=1, keepdims=True)
    np.exp(powers, out=powers)
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


def tolerance(n: int) -> ww.relative:
    """Allow what roundings can add up to: those of a sum, and of exponentials, scaling and division besides.

    No kernel adds more than n / 32 terms in a row before it adds such sums up in a tree. Numbers of [-1, 1) lose at
    most 2 roundoffs by x - max and 2 by exp, in the numerator and in each term. A sum is scaled to another maximum at
    most 15 times, each time by an exponential, a product and an addition, 5 roundoffs. The quotient has 3.
    """
    terms = n / 32 + 10
    return ww.relative(2**-24 * (min(terms, 4 * sqrt(terms)) + 86), absolute=2**-126)


def work(m: int, n: int, itemsize: int) -> ww.Work:
    return ww.Work(5 * m * n, 2 * m * n * itemsize)


def kept(elements: int, block: Block) -> str:
    """Return the end of an entry's name: of the kernel that keeps so many elements, or of the one that keeps none."""
    least = next((pieces for pieces in KEPT if pieces * PACK * block[0] >= elements), None)
    return f"_{least}" if least else ""


def rows(
    name: str, note: str, *, blocks: tuple[Block, ...], threads: Callable[[Block], int], **more: Any
) -> ww.Variant:
    """Make a variant whose block computes whole rows."""
    return ww.kernel(name, note, configurations=blocks, x=0, y=None, threads=lambda block: (threads(block), 1), **more)


SOFTMAX = ww.Family(
    "softmax",
    sizes=("m", "n"),
    dtypes=("float32",),
    arrays=lambda m, n: {"x": ww.In((m, n)), "y": ww.Out((m, n))},
    reference=reference,
    tolerance=tolerance,
    work=work,
    serial_seconds=lambda m, n: m * n / 2.0e8,
    tests=((17, 33), (5, 4099), (2, 9001), (1, 140_001)),
    benchmarks=SHAPES,
    reference_case=lambda m, n, dtype: nearest_copy(work(m, n, 4), dtype),
    ladder_shapes={"float32": ((16384, 4096), (2048, 32768))},
    reached_shapes={"float32": SHAPES[1:]},
    variants=(
        ww.serial("serial", "plain C++, one thread of the host", x=0, y=None, benchmarks=SHAPES[:1]),
        rows(
            "naive",
            "a block a row, read three times, trees in shared memory",
            blocks=((256,),),
            threads=lambda block: block[0],
            tile=lambda: (1, 1),
        ),
        rows(
            "online",
            "a warp a row, read twice: maximum and sum in one pass",
            blocks=((8,),),
            threads=lambda block: block[0] * 32,
        ),
        rows(
            "registers",
            "a block a row, kept in registers, loads of 16 bytes",
            blocks=((256,), (1024,)),
            threads=lambda block: block[0],
            tile=lambda: (1, 1),
            entry=lambda n, block: f"softmax_registers{kept(n, block)}",
            fallback=lambda n, block: "" if kept(n, block) else "read twice: too long for registers",
        ),
    ),
)
