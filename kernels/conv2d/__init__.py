"""2-D convolution, "valid", filter not flipped: rows x columns image, K x K filter.

out[i][j] = sum of filter[p][q] * image[i + p][j + q]; the result is (rows-K+1) x (columns-K+1).
int32 wraps modulo 2^32.
"""

from __future__ import annotations

import numpy as np

import warpwatch as ww
from kernels.conv2d.cudnn import CUDNN, convolution
from kernels.copy import nearest_copy
from warpwatch import ALL_ROWS, Array, Part

SQUARES = ((8, 8), (16, 16), (32, 32))
TYPES = ("int32", "float32")
SHAPES = tuple((size, size, k) for size in (1000, 10000) for k in (3, 5))
LADDER = {dtype: tuple((8192, 8192, k) for k in (3, 5, 7)) for dtype in TYPES}
HALOS = ((32, 8), (32, 32))
WINDOW_THREADS, WINDOWS = 128, ((256, 32), (512, 32))
UNROLLED = (3, 5, 7)
WIDE_FILTER = 12  # from this size on, NumPy is quicker with a row of the filter at once than with each of its elements


def fits(rows: int, columns: int, K: int) -> str | None:
    return f"a {K}x{K} filter does not fit into a {rows}x{columns} image" if min(rows, columns) < K else None


def convolve(image: Array, kernel: Array, part: Part = ALL_ROWS, magnitudes: bool = False) -> Array:
    """Compute ``part`` of the rows of the result in the type of ``kernel``; convert only the rows of ``image`` needed.

    ``magnitudes``: add the magnitudes of the products in place of the products.
    """
    size = len(kernel)
    height, width = image.shape[0] - size + 1, image.shape[1] - size + 1
    chosen = np.arange(height)[part]
    weights = np.abs(kernel) if magnitudes else kernel
    total = np.zeros((len(chosen), width), kernel.dtype)
    for p in range(size):
        pixels = image[chosen + p].astype(kernel.dtype)
        if magnitudes:
            np.abs(pixels, out=pixels)
        if size > WIDE_FILTER:
            windows = np.lib.stride_tricks.sliding_window_view(pixels, size, axis=1)
            total += np.einsum("ijk,k->ij", windows, weights[p])
            continue
        for q in range(size):
            total += weights[p, q] * pixels[:, q : q + width]
    return total


def reference(image: Array, filter: Array, part: Part, magnitudes: bool = False) -> Array:
    if image.dtype == np.int32:  # unsigned NumPy arrays wrap as the kernels do
        return convolve(image.view(np.uint32), filter.view(np.uint32), part).view(np.int32)
    return convolve(image, filter.astype(np.float64), part, magnitudes)


def outputs(rows: int, columns: int, K: int) -> int:
    return (rows - K + 1) * (columns - K + 1)


def work(rows: int, columns: int, K: int, itemsize: int) -> ww.Work:
    made = outputs(rows, columns, K)
    return ww.Work(2 * K * K * made, (rows * columns + K * K + made) * itemsize)


def unrolled(K: int) -> str:
    return f"_{K}" if K in UNROLLED else ""


def not_unrolled(K: int) -> str:
    return "" if K in UNROLLED else "as naive: this K is not unrolled"


def fallback(columns: int, K: int, itemsize: int) -> str:
    aligned = columns * itemsize % 16 == 0
    return not_unrolled(K) or ("" if aligned else "loads of one pixel: rows off 16 bytes")


CONV2D = ww.Family(
    "conv2d",
    sizes=("rows", "columns", "K"),
    dtypes=TYPES,
    arrays=lambda rows, columns, K: {
        "image": ww.In((rows, columns)),
        "filter": ww.In((K, K)),
        "out": ww.Out((rows - K + 1, columns - K + 1)),
    },
    reference=reference,
    tolerance=ww.dot_error("K", "K"),
    exact=True,
    work=work,
    fits=fits,
    reference_case=lambda rows, columns, K, dtype: nearest_copy(work(rows, columns, K, 4), dtype),
    serial_seconds=lambda rows, columns, K: outputs(rows, columns, K) * K**2 / 1.6e9,
    tests=((17, 33, 3), (128, 128, 5), (129, 257, 7), (3, 1009, 1), (40, 37, 4)),
    benchmarks=SHAPES,
    ladder_shapes={"float32": ((8192, 8192, 7),)},
    reached_shapes={dtype: tuple((8192, 8192, k) for k in (3, 5, 7)) for dtype in ("float32", "int32")},
    variants=(
        ww.serial("serial", "plain C++, one thread of the host"),
        ww.call(
            "cudnn",
            "the vendor's, by a matrix product, no TF32",
            dtypes=("float32",),
            prepare=convolution,
            needs=CUDNN,
            benchmarks=LADDER,
        ),
        ww.kernel("strided", "one thread an output, x along rows: uncoalesced", configurations=SQUARES, x=0, y=1),
        ww.kernel("naive", "one thread an output, x along columns, all from global memory", configurations=SQUARES),
        ww.kernel(
            "shared_filter",
            "the filter in shared memory",
            configurations=SQUARES,
            shared_bytes=lambda K, itemsize: K**2 * itemsize,
        ),
        ww.kernel(
            "constant_filter",
            "the filter in constant memory",
            configurations=SQUARES[1:],
            symbols={"constant_filter": "filter"},
            fallback=lambda K: "filter from global memory: too large" if K > 64 else "",
        ),
        ww.kernel(
            "halo",
            "a tile with its halo in shared memory",
            configurations=HALOS,
            shared_bytes=lambda K, block, itemsize: (block[0] + K - 1) * (block[1] + K - 1) * itemsize,
            benchmarks=LADDER,
        ),
        ww.kernel(
            "window",
            "a window that slides down, filter and sums in registers",
            configurations=WINDOWS,
            threads=lambda: (WINDOW_THREADS, 1),
            macros=lambda block: {"COLUMNS": block[0] // WINDOW_THREADS},
            entry=lambda K: f"conv2d_window{unrolled(K)}",
            benchmarks=LADDER,
            fallback=not_unrolled,
        ),
        ww.kernel(
            "columns",
            "the window by loads of 16 bytes, four columns a thread, the filter in constant memory",
            configurations=((256, 8), (512, 8), (512, 250)),
            threads=lambda block: (block[0] // 4, 1),
            entry=lambda K: f"conv2d_columns{unrolled(K)}",
            benchmarks=LADDER,
            symbols={"constant_filter": "filter"},
            fallback=fallback,
        ),
        ww.kernel(
            "paired",
            "columns, two neighbouring outputs share products of integers",
            dtypes=("int32",),
            configurations=((512, 20), (512, 112)),
            threads=lambda block: (block[0] // 4, 1),
            entry=lambda K: f"conv2d_paired{unrolled(K)}",
            benchmarks={"int32": tuple(shape for shape in LADDER["int32"] if shape[2] > 3)},
            symbols={"constant_filter": "filter"},
            fallback=fallback,
        ),
    ),
)
