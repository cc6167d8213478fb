"""CuPy's sum of an array."""

import numpy as np

import warpwatch as ww


def cupy_sum(x, total, stream):
    """Queue CuPy's sum into ``total``. Its work space comes from CuPy's pool, so only the first call allocates."""
    import cupy

    with cupy.cuda.ExternalStream(stream):
        cupy.asarray(x).sum(out=cupy.asarray(total).reshape(()))


TOTAL = ww.Family(
    "total",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "float32"), "total": ww.Out(1, "float32")},
    reference=lambda x: x.sum(dtype=np.float64, keepdims=True),
    tolerance=ww.dot_error("n"),
    exact=True,
    work=lambda n: ww.Work(n, 4 * n + 4),
    tests=((1,), (33,), (70001,)),
    benchmarks=((1_000_000,), (150_000_000,)),
    variants=(ww.call("cupy", "ndarray.sum", needs="cupy", function=cupy_sum),),
)
