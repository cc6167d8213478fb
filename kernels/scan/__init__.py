"""Inclusive scan of n elements: y[i] is the sum of x[0] to x[i]."""

from __future__ import annotations

import numpy as np

import warpwatch as ww
from kernels.copy import nearest_copy

SHAPES = tuple((2**power,) for power in (20, 24, 26))
IN_TILE = {"naive": 1, "lookback": 8, "window": 32, "persistent": 12}  # elements a thread
STAGES = 4  # tiles in shared memory
BLOCKS = 2 * 132  # that run at a time on an H200 or H100: with fewer multiprocessors a large launch is refused


def work(n: int) -> ww.Work:
    return ww.Work(n, 8 * n)


def tile_of_workers(block: tuple[int, ...]) -> int:
    """Return the elements of a tile where one warp of the block scans none."""
    return IN_TILE["persistent"] * (block[0] - 32)


def single_pass(name: str, note: str, block: int) -> ww.Variant:
    """Make a variant whose blocks take tiles by a ticket, and look back at the words of earlier tiles."""
    return ww.kernel(
        name,
        note,
        configurations=((block,),),
        macros=lambda: {"EACH": IN_TILE[name]},
        scratch=lambda n, block: {
            "words": ww.Scratch(ww.blocks(n, IN_TILE[name] * block[0])[0], "uint64", initial=0),
            "ticket": ww.Scratch(1, "uint64", initial=0),
        },
        grid="ceil(n/(EACH*BLOCK_X))",
        arguments="x y words ticket n",
        deterministic=False,
    )


SCAN = ww.Family(
    "scan",
    sizes=("n",),
    dtypes=("float32",),
    arrays=lambda n: {"x": ww.In(n), "y": ww.Out(n)},
    reference=lambda x: x.cumsum(dtype=np.float64),
    tolerance=ww.dot_error("n"),
    exact=True,
    work=work,
    serial_seconds=lambda n: n / 1.0e9,
    tests=((20_011,), (33,), (270_337,)),
    benchmarks=SHAPES,
    reference_case=lambda n, dtype: nearest_copy(work(n), dtype),
    ladder_shapes={"float32": ((2**26,),)},
    reached_shapes={"float32": ((2**24,), (2**26,))},
    variants=(
        ww.serial("serial", "plain C++, one thread of the host", x=0, y=None, benchmarks=SHAPES[:2]),
        ww.kernel(
            "naive",
            "tiles by steps that double, then the sums of tiles, then both added: three launches",
            configurations=((256,),),
            scratch=lambda n, block: {"sums": ww.Scratch(ww.blocks(n, block[0])[0])},
            launches=(
                ww.Step("scan_naive", grid="ceil(n/BLOCK_X)", arguments="x y sums n"),
                ww.Step("scan_sums", grid=1, arguments="sums ceil(n/BLOCK_X)"),
                ww.Step("scan_add", grid="ceil(n/BLOCK_X)", arguments="y sums n"),
            ),
        ),
        single_pass("lookback", "one pass: a thread looks back at earlier tiles, one after another", 512),
        single_pass("window", "a warp looks back at 32 tiles at a time, loads and stores of 16 bytes", 256),
        ww.kernel(
            "persistent",
            "blocks that stay: a warp adds up earlier tiles, the others scan tiles that were copied ahead",
            configurations=((544,),),
            macros=lambda: {"EACH": IN_TILE["persistent"], "STAGES": STAGES},
            scratch=lambda n, block: {
                "words": ww.Scratch(ww.blocks(n, tile_of_workers(block))[0], "uint64", initial=0),
                "launches": ww.Scratch(1, "uint64", initial=0),
            },
            grid=f"min({BLOCKS},ceil(n/(2*EACH*(BLOCK_X-32))))",
            shared_bytes=lambda block: STAGES * tile_of_workers(block) * 4,
            arguments="x y words launches n",
            needs="sm_90",  # for its shared memory, and as many blocks at a time
            cooperative=True,
            deterministic=True,
        ),
    ),
)
