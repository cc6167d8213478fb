"""Copy of n elements: the bandwidth of memory, which every kernel that mostly moves bytes is held against."""

from __future__ import annotations

from math import log2, prod
from pathlib import Path

from kernels.copy.memcpy import MEMCPY
from warpwatch.catalogue.declaration import Block, Family, Shape, Variant, Work

FLOATS = ("float32", "float64")
BLOCKS = ((256,), (1024,))
LARGEST = {"float32": 28, "float64": 27}  # log2 of the most elements that are timed: 1 GiB
SHAPES = {dtype: tuple((2**power,) for power in (20, 24, 26, most)) for dtype, most in LARGEST.items()}


def nearest_copy(work: Work, dtype: str) -> str:
    """Return the id of the driver's copy that moves about as many bytes as ``work``; of float32 for integers."""
    dtype = "float64" if dtype == "float64" else "float32"
    elements = work.bytes / 2 / (8 if dtype == "float64" else 4)
    nearest = min(SHAPES[dtype], key=lambda shape: abs(log2(shape[0] / elements)))
    return f"copy-memcpy-vendor-{nearest[0]}-{dtype}"


def work(shape: Shape, itemsize: int) -> Work:
    return Work(0, 2 * prod(shape) * itemsize)


def sixteenth(block: Block) -> tuple[int, int]:
    return block[0] // 16, 1


COPY = Family(
    name="copy",
    folder=Path(__file__).parent,
    sizes=("n",),
    operands=lambda shape: {"A": shape},
    result=lambda shape: ("B", shape),
    reference=lambda operands, rows: operands[0][rows],
    bound=lambda operands, rows: 0.0,
    work=work,
    serial_seconds=lambda shape: prod(shape) / 1.0e9,
    test_shapes=((33,), (4096,), (10_007,)),
    bench_shapes=SHAPES,
    reference_case=lambda shape, dtype: nearest_copy(work(shape, 8 if dtype == "float64" else 4), dtype),
    variants=(
        Variant("serial", "plain C++, one thread of the host", blocks=((),), dtypes=FLOATS, x=0, y=None, on_host=True),
        Variant("memcpy", "the driver's own copy", blocks=((),), dtypes=FLOATS, x=0, y=None, library=MEMCPY),
        Variant("naive", "one thread an element", blocks=BLOCKS, dtypes=FLOATS, x=0, y=None),
        Variant(
            "vectorised",
            "four loads of 16 bytes a thread",
            blocks=((2048,), (4096,)),
            dtypes=FLOATS,
            x=0,
            y=None,
            threads=sixteenth,
        ),
    ),
)
