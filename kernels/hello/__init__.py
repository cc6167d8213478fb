"""Hello world: N blocks of M x K threads; each thread prints its block and its place in the block."""

from __future__ import annotations

import warpwatch as ww

MOST_BLOCKS = 10_000  # a GPU keeps what kernels print in a megabyte, which is some 25,000 of these lines
HOST_LINE = "Hello from the host"


def fits(blocks: int) -> str | None:
    return f"blocks = {blocks} is more than the {MOST_BLOCKS:,} that may print" if blocks > MOST_BLOCKS else None


def lines(block: tuple[int, int], blocks: int) -> list[str]:
    """Return the lines of a run: the host's line, then one of each thread. The GPU prints blocks in any order."""
    bx, by = block
    return [HOST_LINE] + [
        f"Hello from block {b}, thread ({x}, {y})" for b in range(blocks) for y in range(by) for x in range(bx)
    ]


HELLO = ww.Family(
    "hello",
    sizes=("blocks",),
    prints=lines,
    work=lambda: ww.Work(0, 0),
    fits=fits,
    tests=((1,), (15,), (4,)),
    benchmarks=((15,), (4,)),
    variants=(
        ww.kernel("hello", "each thread prints one line", configurations=((5, 5), (8, 4)), arguments=lambda: ()),
    ),
)
