"""Hello world: N blocks of M x K threads; each thread prints its block and its place in the block."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpwatch.catalogue.declaration import Block, Family, Shape, Variant, Work

MOST_BLOCKS = 10_000  # a GPU keeps what kernels print in a megabyte, which is some 25,000 of these lines
HOST_LINE = "Hello from the host"


def fits(shape: Shape) -> str | None:
    (blocks,) = shape
    return f"blocks = {blocks} is more than the {MOST_BLOCKS:,} that may print" if blocks > MOST_BLOCKS else None


def lines(block: Block, shape: Shape) -> list[str]:
    """Return the lines of a run: the host's line, then one of each thread. The GPU prints blocks in any order."""
    (blocks,), (bx, by) = shape, block
    return [HOST_LINE] + [
        f"Hello from block {b}, thread ({x}, {y})" for b in range(blocks) for y in range(by) for x in range(bx)
    ]


HELLO = Family(
    name="hello",
    folder=Path(__file__).parent,
    sizes=("blocks",),
    operands=lambda shape: {},
    result=None,
    reference=lambda operands, rows: np.empty(0),
    bound=lambda operands, rows: 0.0,
    work=lambda shape, itemsize: Work(0, 0),
    prints=lines,
    fits=fits,
    test_shapes=((1,), (15,), (4,)),
    bench_shapes={"none": ((15,), (4,))},
    variants=(
        Variant(
            "hello", "each thread prints one line", blocks=((5, 5), (8, 4)), dtypes=("none",), arguments=lambda p, s: ()
        ),
    ),
)
