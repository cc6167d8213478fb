"""Copy of n elements: the bandwidth of memory, which every kernel that mostly moves bytes is held against."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2

import warpwatch as ww
from kernels.copy.memcpy import memcpy

FLOATS = ("float32", "float64")
BLOCKS = ((256,), (1024,))
LARGEST = {"float32": 28, "float64": 27}  # log2 of the most elements that are timed: 1 GiB
SHAPES = {dtype: tuple((2**power,) for power in (20, 24, 26, most)) for dtype, most in LARGEST.items()}
BETWEEN = {"float32": tuple((2**power,) for power in (20, 23, 24, 25, 26, 27, 28)), "float64": SHAPES["float64"]}


def nearest_copy(work: ww.Work, dtype: str, shapes: Mapping[str, tuple[ww.Shape, ...]] = SHAPES) -> str:
    """Return the id of the driver's copy that moves about as many bytes as ``work``; of float32 for integers.

    ``shapes``: those that it is chosen from, for each element type. Only the driver's copy is timed on all of BETWEEN.
    """
    dtype = "float64" if dtype == "float64" else "float32"
    elements = work.bytes / 2 / (8 if dtype == "float64" else 4)
    nearest = min(shapes[dtype], key=lambda shape: abs(log2(shape[0] / elements)))
    return f"copy-memcpy-vendor-{nearest[0]}-{dtype}"


def work(n: int, itemsize: int) -> ww.Work:
    return ww.Work(0, 2 * n * itemsize)


COPY = ww.Family(
    "copy",
    sizes=("n",),
    dtypes=FLOATS,
    arrays=lambda n: {"A": ww.In(n), "B": ww.Out(n)},
    reference=lambda A, part: A[part],
    exact=True,
    work=work,
    serial_seconds=lambda n: n / 1.0e9,
    tests=((33,), (4096,), (10_007,)),
    benchmarks=SHAPES,
    reference_case=lambda n, dtype: nearest_copy(work(n, 8 if dtype == "float64" else 4), dtype),
    variants=(
        ww.serial("serial", "plain C++, one thread of the host", x=0, y=None),
        ww.call(
            "memcpy", "the driver's own copy", prepare=memcpy, needs=ww.Driver(), needs_gpu=False, benchmarks=BETWEEN
        ),
        ww.kernel("naive", "one thread an element", configurations=BLOCKS, x=0, y=None),
        ww.kernel(
            "vectorised",
            "four loads of 16 bytes a thread",
            configurations=((2048,), (4096,)),
            x=0,
            y=None,
            threads=lambda block: (block[0] // 16, 1),
        ),
    ),
)
