"""2-D convolution with a filter of rank 1, a column of K elements times a row of K; otherwise like conv2d.

out[i][j] = sum of column[p] * row[q] * image[i + p][j + q]: 2 K multiplications an output where conv2d needs K^2.
Rank 1 is in the operands, and not looked for in a filter: a kernel cannot do that for integers that wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np

from kernels.conv2d import LADDER, TYPES, convolve, fallback, fits, result_shape, unrolled
from kernels.copy import nearest_copy
from warpwatch.catalogue.declaration import Array, Family, Rows, Shape, Variant, Work
from warpwatch.catalogue.tolerance import dot_error


def reference(operands: Sequence[Array], rows: Rows) -> Array:
    image, column, row = operands
    if image.dtype == np.int32:  # unsigned NumPy arrays wrap as the kernels do
        filter_ = np.outer(column.view(np.uint32), row.view(np.uint32))
        return convolve(image.view(np.uint32), filter_, rows).view(np.int32)
    return convolve(image, np.outer(column.astype(np.float64), row), rows)


def bound(operands: Sequence[Array], rows: Rows) -> Array | float:
    """Return conv2d's bound with one more rounding for each product, in whatever order its factors are multiplied."""
    image, column, row = operands
    error = dot_error(len(column) ** 2 + 1, image.dtype)
    filter_ = np.outer(column.astype(np.float64), row)
    return error * convolve(image, filter_, rows, magnitudes=True) if error else 0.0


def work(shape: Shape, itemsize: int) -> Work:
    rows, columns, k = shape
    outputs = prod(result_shape(shape))
    return Work(4 * k * outputs, (rows * columns + 2 * k + outputs) * itemsize)


SEPARABLE = Family(
    name="separable",
    folder=Path(__file__).parent,
    sizes=("rows", "columns", "K"),
    operands=lambda shape: {"image": shape[:2], "column": (shape[2],), "row": (shape[2],)},
    result=lambda shape: ("out", result_shape(shape)),
    reference=reference,
    bound=bound,
    work=work,
    fits=fits,
    reference_case=lambda shape, dtype: nearest_copy(work(shape, 4), dtype),
    serial_seconds=lambda shape: prod(result_shape(shape)) * 2 * shape[2] / 6.6e8,
    test_shapes=((17, 33, 3), (129, 257, 7), (3, 1009, 1), (40, 37, 4), (64, 128, 5)),
    bench_shapes=LADDER,
    ladder_shapes={"float32": ((8192, 8192, 7),)},
    variants=(
        Variant("serial", "plain C++, one thread of the host", blocks=((),), dtypes=TYPES, on_host=True),
        Variant("naive", "one thread an output, K^2 products", blocks=((32, 8),), dtypes=TYPES),
        Variant(
            "columns",
            "one pass, along the row and then down, four columns a thread",
            blocks=((512, 8), (512, 20)),
            dtypes=TYPES,
            threads=lambda block: (block[0] // 4, 1),
            entry=unrolled,
            fallback=fallback,
        ),
    ),
)
