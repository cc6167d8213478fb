"""Normalisation of the rows of an m x n matrix: y = (x - mean) rstd gamma + beta, with rstd = 1 / sqrt(var + eps)."""

from __future__ import annotations

import numpy as np

import warpwatch as ww
from kernels.copy import nearest_copy
from kernels.softmax import kept, rows
from warpwatch import ALL_ROWS, Array, Part

SHAPES = ((4096, 1000), (16384, 4095), (16384, 4096), (2048, 32768))


def reference(
    x: Array, gamma: Array, beta: Array, eps: float, part: Part = ALL_ROWS, magnitudes: bool = False
) -> dict[str, Array]:
    """Return y, mean and rstd of the rows ``part``; for ``magnitudes``, what the errors of each are a share of."""
    y = x[part].astype(np.float64)
    mean = y.mean(axis=1)
    size = np.abs(y).mean(axis=1) if magnitudes else mean
    rstd = 1 / np.sqrt(y.var(axis=1) + eps)
    y = np.abs(y) + size[:, None] if magnitudes else y - mean[:, None]
    y *= rstd[:, None]
    y *= np.abs(gamma) if magnitudes else gamma
    y += np.abs(beta) if magnitudes else beta
    return {"y": y, "mean": size, "rstd": rstd}


def roundings(n: int) -> int:
    """Return of how many products a sum has the errors of y, as shares of (abs(x) + mean of abs(x)) rstd gamma + beta.

    No kernel adds more than n / 32 terms in a row. The mean has the error of such a sum, and the variance that of two:
    of the mean, which it depends on in second order, and its own, with one rounding more a term. So rstd, a root of it,
    has at most 1.5 times the error of a sum, and y 2.5 times; the square of that is the number of terms. A tree,
    scaling and the last operations add at most 40 roundings.
    """
    return 7 * n // 32 + 40


def work(m: int, n: int, itemsize: int) -> ww.Work:
    return ww.Work(8 * m * n, 2 * (m * n + m + n) * itemsize)


LAYERNORM = ww.Family(
    "layernorm",
    sizes=("m", "n"),
    dtypes=("float32",),
    arrays=lambda m, n: {
        "x": ww.In((m, n)),
        "gamma": ww.In(n),
        "beta": ww.In(n),
        "y": ww.Out((m, n)),
        "mean": ww.Out(m),
        "rstd": ww.Out(m),
    },
    scalars={"eps": ww.Scalar(1e-5)},
    reference=reference,
    tolerance=ww.dot_error(roundings),
    work=work,
    serial_seconds=lambda m, n: m * n / 4.0e8,
    tests=((17, 33), (5, 4099), (2, 9001), (1, 40_001)),
    benchmarks=SHAPES,
    reference_case=lambda m, n, dtype: nearest_copy(work(m, n, 4), dtype),
    ladder_shapes={"float32": ((16384, 4096),)},
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
            "welford",
            "a warp a row, read twice: mean and variance in one pass",
            blocks=((8,),),
            threads=lambda block: block[0] * 32,
        ),
        rows(
            "registers",
            "a block a row, kept in registers, loads of 16 bytes",
            blocks=((256,), (1024,)),
            threads=lambda block: block[0],
            tile=lambda: (1, 1),
            entry=lambda n, block: f"layernorm_registers{kept(n, block)}",
            fallback=lambda n, block: "" if kept(n, block) else "read three times: too long for registers",
        ),
    ),
)
