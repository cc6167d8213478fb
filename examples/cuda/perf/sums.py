"""Kernels that add up: a sum, a scan and a histogram."""

import numpy as np

import warpwatch as ww

SUM = ww.Family(
    "sum",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "float32"), "total": ww.Out(1, "float32")},
    reference=lambda x: x.sum(dtype=np.float64, keepdims=True),
    tolerance=ww.dot_error("n"),
    exact=True,
    work=lambda n: ww.Work(n, 4 * n + 4),
    tests=((1,), (33,), (270337,), (2500001,)),
    benchmarks=((1_000_000,), (150_000_000,)),
    variants=(
        ww.kernel("two_steps", "a sum a block, then the sum of those", source="../csrc/sum.cu",
            configurations=({"block": 256, "PARTS": 1056},),  # eight blocks for each multiprocessor of an H200
            scratch=lambda c: {"parts": ww.Scratch(c.PARTS, "float32")},
            launches=(
                ww.Step("sum_parts", grid=lambda c: c.PARTS, arguments="x parts n:int64"),
                ww.Step("sum_total", grid=1, arguments="parts total"),
            )),
    ),
)  # fmt: skip


def tiles(n, c):
    """Return how many tiles the scan has."""
    return ww.blocks(n, c.block[0] * c.PER_THREAD)[0]


SCAN = ww.Family(
    "scan",
    sizes=("n",),
    dtypes=("float32", "int32"),
    arrays=lambda n: {"x": ww.In(n, low=-99, high=100), "y": ww.Out(n)},
    reference=lambda x: x.cumsum(dtype=np.float64 if x.dtype.kind == "f" else x.dtype),
    tolerance=ww.dot_error("n"),
    exact=True,
    work=lambda n: ww.Work(n, 16 * n),
    tests=((1,), (33,), (2049,), (614477,)),
    benchmarks=((1_000_000,), (70_000_000,)),
    variants=(
        ww.kernel("three_steps", "tiles, then the sums of the tiles, then both added", source="../csrc/scan.cu",
            configurations=({"block": 256, "PER_THREAD": 8}, {"block": 512, "PER_THREAD": 8}),
            scratch=lambda n, c: {"sums": ww.Scratch(tiles(n, c))},
            launches=(
                ww.Step("scan_blocks", grid=tiles, arguments="x y sums n:int64"),
                ww.Step("scan_sums", grid=1, arguments="sums n:int64"),
                ww.Step("scan_add", grid=tiles, arguments="y sums n:int64"),
            )),
    ),
)  # fmt: skip


BINS = 256


def count_keys(keys):
    """Return how often each key occurs; those outside are not counted."""
    return np.bincount(keys[(keys >= 0) & (keys < BINS)], minlength=BINS).astype(np.int32)


HISTOGRAM = ww.Family(
    "histogram",
    sizes=("n",),
    arrays=lambda n: {
        "keys": ww.In(n, "int32", low=-1, high=BINS + 1), "bins": ww.Out(BINS, "int32", initial=0),
    },
    reference=count_keys,
    work=lambda n: ww.Work(n, 4 * n + 4 * BINS),
    tests=((1,), (33,), (70001,), (2500001,)),
    benchmarks=((1_000_000,), (150_000_000,)),
    variants=(
        ww.kernel("global", "a thread a key, counted in global memory", source="../csrc/histogram_global.cu",
            configurations=((256,),), macros=lambda: {"BINS": BINS},
            grid=lambda n, block: ww.blocks(n, block[0]), arguments="keys bins n:int64"),
        ww.kernel("shared", "counted in shared memory first, by each warp", source="../csrc/histogram_shared.cu",
            configurations=((256,),), macros=lambda: {"BINS": BINS},
            grid=lambda n, block: min(ww.blocks(n, block[0])[0], 1056), arguments="keys bins n:int64"),
    ),
)  # fmt: skip
