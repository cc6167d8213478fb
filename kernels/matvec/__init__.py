"""Matrix-vector product y = A x, row-major: A is m x n."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.catalogue import Array, Family, Rows, Shape, Variant, Work
from kernels.numerics import dot_error, product

BLOCKS = ((64,), (128,), (256,), (512,))
FLOATS = ("float32", "float64")
SHAPES = ((1000, 1000), (10000, 10000), (4096, 1023))


def reference(operands: Sequence[Array], rows: Rows) -> Array:
    a, x = operands
    return product(a[rows], x)


def bound(operands: Sequence[Array], rows: Rows) -> Array | float:
    a, x = operands
    return dot_error(a.shape[1], a.dtype) * product(np.abs(a[rows]), np.abs(x))


def work(shape: Shape, itemsize: int) -> Work:
    m, n = shape
    return Work(2 * m * n, (m * n + n + m) * itemsize)


MATVEC = Family(
    name="matvec",
    sizes=("m", "n"),
    operands=lambda shape: {"A": shape, "x": (shape[1],)},
    result=lambda shape: ("y", (shape[0],)),
    reference=reference,
    bound=bound,
    work=work,
    serial_seconds=lambda shape: shape[0] * shape[1] / 1.0e9,
    test_shapes=((17, 33), (128, 128), (1009, 257), (63, 4096)),
    bench_shapes={"float32": SHAPES, "float64": SHAPES},
    variants=(
        Variant("serial", "plain C++, one thread of the host", ((),), FLOATS, x=0, y=None, on_host=True),
        Variant("naive", "one thread a row", BLOCKS, FLOATS, x=0, y=None),
        Variant("tiled", "one thread a row, x staged through shared memory", BLOCKS, FLOATS, x=0, y=None),
    ),
)
