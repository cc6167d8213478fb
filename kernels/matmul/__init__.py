"""Matrix product C = A B, row-major: A is m x n, B is n x k, C is m x k."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from kernels.catalogue import Array, Family, Rows, Shape, Variant, Work
from kernels.numerics import dot_error, product

SQUARES = ((8, 8), (16, 16), (32, 32))
FLOATS = ("float64", "float32")
CUBES = tuple((n, n, n) for n in (128, 256, 512, 1024, 2048))
MATRIX = np.dtype([("width", "i4"), ("height", "i4"), ("stride", "i4"), ("data", "u8")], align=True)


def structs(pointers: Sequence[int], shape: Shape) -> tuple[np.generic, ...]:
    """A, B and C as structs by value: width, height, stride (elements), data."""
    m, n, k = shape
    a, b, c = pointers
    return tuple(np.array([(n, m, n, a), (k, n, k, b), (k, m, k, c)], MATRIX))


def reference(operands: Sequence[Array], rows: Rows) -> Array:
    a, b = operands
    return product(a[rows], b)


def bound(operands: Sequence[Array], rows: Rows) -> Array | float:
    a, b = operands
    error = dot_error(a.shape[1], a.dtype)
    return error * product(np.abs(a[rows]), np.abs(b)) if error else 0.0


def work(shape: Shape, itemsize: int) -> Work:
    m, n, k = shape
    return Work(2 * m * n * k, (m * n + n * k + m * k) * itemsize)


MATMUL = Family(
    name="matmul",
    sizes=("m", "n", "k"),
    operands=lambda shape: {"A": (shape[0], shape[1]), "B": (shape[1], shape[2])},
    result=lambda shape: ("C", (shape[0], shape[2])),
    reference=reference,
    bound=bound,
    work=work,
    serial_seconds=lambda shape: prod(shape) / 3.0e9,
    test_shapes=((17, 33, 65), (128, 128, 128), (129, 257, 63), (2, 1009, 3)),
    bench_shapes={
        "float64": (*CUBES, (1920, 1024, 1280)),
        "float32": (*CUBES, (1920, 1024, 1280)),
        "int32": ((1024, 1024, 1024), (1920, 1024, 1280)),
    },
    variants=(
        Variant("serial", "plain C++, one thread of the host", blocks=((),), dtypes=FLOATS, on_host=True),
        Variant("strided", "one thread an element, x along rows: uncoalesced", SQUARES, FLOATS, x=0, y=1),
        Variant("naive", "one thread an element, all from global memory", SQUARES, (*FLOATS, "int32")),
        Variant("rowstrip", "a strip of one row of C a block, A's row in shared memory", ((64, 1), (256, 1)), FLOATS),
        Variant("tiled", "2-D tiles of A and B in shared memory", SQUARES, (*FLOATS, "int32")),
        Variant("struct_naive", "naive on Matrix structs passed by value", SQUARES, FLOATS, arguments=structs),
        Variant("struct_tiled", "tiled on views of Matrix structs", SQUARES, FLOATS, arguments=structs),
    ),
)
