"""2-D convolution with a filter of rank 1, a column of K elements times a row of K; otherwise like conv2d.

out[i][j] = sum of column[p] * row[q] * image[i + p][j + q]: 2 K multiplications an output where conv2d needs K^2.
Rank 1 is in the operands, and not looked for in a filter: a kernel cannot do that for integers that wrap.
"""

from __future__ import annotations

import numpy as np

import warpwatch as ww
from kernels.conv2d import LADDER, TYPES, convolve, fallback, fits, outputs, unrolled
from kernels.copy import nearest_copy
from warpwatch import Array, Part


def reference(image: Array, column: Array, row: Array, part: Part, magnitudes: bool = False) -> Array:
    if image.dtype == np.int32:  # unsigned NumPy arrays wrap as the kernels do
        filter_ = np.outer(column.view(np.uint32), row.view(np.uint32))
        return convolve(image.view(np.uint32), filter_, part).view(np.int32)
    return convolve(image, np.outer(column.astype(np.float64), row), part, magnitudes)


def work(rows: int, columns: int, K: int, itemsize: int) -> ww.Work:
    made = outputs(rows, columns, K)
    return ww.Work(4 * K * made, (rows * columns + 2 * K + made) * itemsize)


SEPARABLE = ww.Family(
    "separable",
    sizes=("rows", "columns", "K"),
    dtypes=TYPES,
    arrays=lambda rows, columns, K: {
        "image": ww.In((rows, columns)),
        "column": ww.In(K),
        "row": ww.In(K),
        "out": ww.Out((rows - K + 1, columns - K + 1)),
    },
    reference=reference,
    # conv2d's, and one more rounding for each product, in whatever order its factors are multiplied
    tolerance=ww.dot_error(lambda K: K**2 + 1),
    exact=True,
    work=work,
    fits=fits,
    reference_case=lambda rows, columns, K, dtype: nearest_copy(work(rows, columns, K, 4), dtype),
    serial_seconds=lambda rows, columns, K: outputs(rows, columns, K) * 2 * K / 6.6e8,
    tests=((17, 33, 3), (129, 257, 7), (3, 1009, 1), (40, 37, 4), (64, 128, 5)),
    benchmarks=LADDER,
    ladder_shapes={"float32": ((8192, 8192, 7),)},
    variants=(
        ww.serial("serial", "plain C++, one thread of the host"),
        ww.kernel("naive", "one thread an output, K^2 products", configurations=((32, 8),)),
        ww.kernel(
            "columns",
            "one pass, along the row and then down, four columns a thread",
            configurations=((512, 8), (512, 16)),
            threads=lambda block: (block[0] // 4, 1),
            entry=lambda K: f"separable_columns{unrolled(K)}",
            fallback=fallback,
        ),
    ),
)
