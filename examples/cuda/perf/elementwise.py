"""Kernels that work element by element: saxpy, and a residual added to gelu."""

import numpy as np
from scipy.special import erf

import warpwatch as ww

SAXPY = ww.Family(
    "saxpy",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "float32"), "y": ww.InOut(n, "float32")},
    scalars={"a": ww.Scalar(2.5, "float32")},
    reference=lambda a, x, y: a * x.astype(np.float64) + y,
    tolerance=ww.dot_error(2),
    exact=True,
    work=lambda n: ww.Work(2 * n, 12 * n),
    tests=((1,), (33,), (1025,), (70001,)),
    benchmarks=((1_000_000,), (100_000_000,)),
    variants=(
        ww.kernel("plain", "a few elements a thread", source="../csrc/saxpy.cu",
            configurations=({"block": 256, "PER_THREAD": 4}, {"block": 512, "PER_THREAD": 4}),
            grid=lambda n, c: ww.blocks(n, c.block[0] * c.PER_THREAD), arguments="n:int64 a x y"),
    ),
)  # fmt: skip


def residual_gelu(x, residual):
    """Return residual + gelu(x) in float64, gelu by erf."""
    x = x.astype(np.float64)
    return residual + 0.5 * x * (1 + erf(x / np.sqrt(2)))


RESIDUAL_GELU = ww.Family(
    "residual_gelu",
    sizes=("n",),
    dtypes=("float16", "float32"),
    arrays=lambda n: {"out": ww.Out(n), "x": ww.In(n), "residual": ww.In(n)},
    reference=residual_gelu,
    tolerance=ww.dot_error(8, sums="float32"),  # erf loses as much as eight roundings of its terms
    work=lambda n, itemsize: ww.Work(12 * n, 3 * n * itemsize),
    tests=((1,), (33,), (1025,), (70001,)),
    benchmarks=((1_000_000,), (100_000_000,)),
    variants=(
        ww.kernel("forward", "a template of csrc/, left as it is", source="../csrc/residual_gelu.cu",
            include=("../csrc/include",), entry="ops::forward<scalar_t, BLOCK_X>",
            configurations=((256,), (512,)),
            grid=lambda n, block: ww.blocks(n, 4 * block[0]), arguments="out x residual n:uint64"),
    ),
)  # fmt: skip
