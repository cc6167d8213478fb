"""Kernels that work on the rows of a matrix: softmax and layer normalisation."""

import numpy as np

import warpwatch as ww


def softmax(x, part=slice(None)):
    """Return the softmax of the rows ``part``, in float64."""
    powers = np.exp(x[part].astype(np.float64) - x[part].max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


SOFTMAX = ww.Family(
    "softmax",
    sizes=("m", "n"),
    dtypes=("float32", "float64"),
    arrays=lambda m, n: {"x": ww.In((m, n)), "y": ww.Out((m, n))},
    reference=softmax,
    tolerance=ww.ulp(8),
    work=lambda m, n, itemsize: ww.Work(5 * m * n, 2 * m * n * itemsize),
    tests=((1, 1), (17, 33), (5, 4099), (3, 9001)),
    benchmarks=((1024, 1000), (8192, 8192)),
    variants=(
        ww.kernel("registers", "a block a row, the row in registers", source="../csrc/softmax_registers.cu",
            configurations=({"block": 256, "KEPT": 8}, {"block": 512, "KEPT": 16}),
            grid=lambda m: m, arguments="x y n"),
        ww.kernel("shared", "a block a row, the row in shared memory", source="../csrc/softmax_shared.cu",
            configurations=({"block": 256, "HELD": 8192},),
            grid=lambda m: m, shared_bytes=lambda n, c, itemsize: itemsize * min(n, c.HELD), arguments="x y n"),
    ),
)  # fmt: skip


def layernorm(x, gamma, beta, eps, precision=np.float64):
    """Return the normalised rows, and the mean and the reciprocal standard deviation of each."""
    x = x.astype(precision)
    mean = x.mean(axis=1)
    rstd = 1 / np.sqrt(x.var(axis=1) + precision(eps))
    return {"y": (x - mean[:, None]) * rstd[:, None] * gamma + beta, "mean": mean, "rstd": rstd}


def plain_layernorm(x, gamma, beta, eps):
    """Return the same, computed in float32 as the kernels do."""
    return layernorm(x, gamma, beta, eps, np.float32)


LAYERNORM = ww.Family(
    "layernorm",
    sizes=("m", "n"),
    dtypes=("float16", "float32"),
    arrays=lambda m, n: {
        "x": ww.In((m, n)), "gamma": ww.In(n, "float32"), "beta": ww.In(n, "float32"),
        "y": ww.Out((m, n)), "mean": ww.Out(m, "float32"), "rstd": ww.Out(m, "float32"),
    },
    scalars={"eps": ww.Scalar(1e-5, "float32")},
    reference=layernorm,
    tolerance={"y": ww.error_of(plain_layernorm), "mean": ww.dot_error("n"), "rstd": ww.ulp(16)},
    work=lambda m, n, itemsize: ww.Work(8 * m * n, 2 * m * n * itemsize + 8 * (m + n)),
    tests=((1, 1), (17, 33), (5, 4099), (3, 9001)),
    benchmarks=((1024, 1000), (16384, 8192)),
    variants=(
        ww.kernel("registers", "a block a row, the row in registers", source="../csrc/layernorm.cu",
            configurations=({"block": 256, "KEPT": 16}, {"block": 512, "KEPT": 16}),
            grid=lambda m: m, arguments="x gamma beta y mean rstd n eps"),
    ),
)  # fmt: skip
