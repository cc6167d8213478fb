"""Kernels that add up: a sum, a scan and a histogram."""

import numpy as np

import warpwatch as ww

PARTS = 132 * 8  # sums that the first launch of the sum leaves: eight blocks for each multiprocessor of an H200
BINS = 256
PER_THREAD = 8  # elements of the scan
SCAN_BLOCK = 256
TILE = SCAN_BLOCK * PER_THREAD

SUM = ww.Family(
    "sum",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "float32"), "parts": ww.Scratch(PARTS, "float32"), "total": ww.Out(1, "float32")},
    reference=lambda x: x.sum(dtype=np.float64, keepdims=True),
    tolerance=ww.dot_error("n"),
    exact=True,
    work=lambda n: ww.Work(n, 4 * n + 4),
    tests=((1,), (33,), (270337,), (2500001,)),
    benchmarks=((1_000_000,), (150_000_000,)),
    variants=(
        ww.kernel("two_steps", "a sum a block, then the sum of those",
            source="../csrc/sum.cu",
            configurations=({"block": (256,), "PARTS": PARTS},),
            launches=(
                ww.Step(entry="sum_parts", launch=lambda: ww.Launch(grid=PARTS), arguments="x parts n:int64"),
                ww.Step(entry="sum_total", launch=lambda: ww.Launch(grid=1), arguments="parts total"),
            )),
    ),
)  # fmt: skip


def draw_addends(rng, n, dtype):
    """Draw numbers from -1 to 1, or whole numbers whose sums stay far below 2^31."""
    return {"x": rng.integers(-99, 100, n, dtype) if dtype == "int32" else rng.uniform(-1, 1, n).astype(dtype)}


SCAN = ww.Family(
    "scan",
    sizes=("n",),
    dtypes=("float32", "int32"),
    arrays=lambda n: {"x": ww.In(n), "y": ww.Out(n), "sums": ww.Scratch(-(-n // TILE))},
    draw=draw_addends,
    reference=lambda x: x.cumsum(dtype=np.float64 if x.dtype.kind == "f" else x.dtype),
    tolerance=ww.dot_error("n"),
    exact=True,
    work=lambda n: ww.Work(n, 16 * n),
    tests=((1,), (33,), (TILE + 1,), (300 * TILE + 77,)),
    benchmarks=((1_000_000,), (70_000_000,)),
    variants=(
        ww.kernel("three_steps", "tiles, then the sums of the tiles, then both added",
            source="../csrc/scan.cu",
            configurations=({"block": (SCAN_BLOCK,), "PER_THREAD": PER_THREAD},),
            launches=(
                ww.Step(entry="scan_blocks", launch=lambda n: ww.Launch(grid=-(-n // TILE)), arguments="x y sums n:int64"),
                ww.Step(entry="scan_sums", launch=lambda: ww.Launch(grid=1), arguments="sums n:int64"),
                ww.Step(entry="scan_add", launch=lambda n: ww.Launch(grid=-(-n // TILE)), arguments="y sums n:int64"),
            )),
    ),
)  # fmt: skip


HISTOGRAM = ww.Family(
    "histogram",
    sizes=("n",),
    arrays=lambda n: {"keys": ww.In(n, "int32"), "bins": ww.Out(BINS, "int32", initial=0)},
    draw=lambda rng, n: {"keys": rng.integers(-1, BINS + 1, n, "int32")},  # a few lie outside
    reference=lambda keys: np.bincount(keys[(keys >= 0) & (keys < BINS)], minlength=BINS).astype(np.int32),
    work=lambda n: ww.Work(n, 4 * n + 4 * BINS),
    tests=((1,), (33,), (70001,), (2500001,)),
    benchmarks=((1_000_000,), (150_000_000,)),
    variants=(
        ww.kernel("global", "a thread a key, counted in global memory",
            source="../csrc/histogram_global.cu",
            configurations=({"block": (256,), "BINS": BINS},),
            launch=lambda n, block: ww.Launch(grid=-(-n // block[0])), arguments="keys bins n:int64"),
        ww.kernel("shared", "counted in shared memory first, by each warp for itself",
            source="../csrc/histogram_shared.cu",
            configurations=({"block": (256,), "BINS": BINS},),
            launch=lambda n, block: ww.Launch(grid=min(-(-n // block[0]), 132 * 8)), arguments="keys bins n:int64"),
    ),
)  # fmt: skip
