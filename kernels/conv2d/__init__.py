"""2-D convolution, "valid", filter not flipped: rows x columns image, K x K filter.

out[i][j] = sum of filter[p][q] * image[i + p][j + q]; the result is (rows-K+1) x (columns-K+1).
int32 wraps modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np

from kernels.conv2d.cudnn import CONVOLUTION
from kernels.copy import nearest_copy
from warpwatch.catalogue.declaration import Array, Block, Family, Rows, Shape, Variant, Work
from warpwatch.catalogue.tolerance import dot_error

SQUARES = ((8, 8), (16, 16), (32, 32))
TYPES = ("int32", "float32")
SHAPES = tuple((size, size, k) for size in (1000, 10000) for k in (3, 5))
LADDER = {dtype: tuple((8192, 8192, k) for k in (3, 5, 7)) for dtype in TYPES}
HALOS = ((32, 8), (32, 32))
WINDOW_THREADS, WINDOWS = 128, ((256, 32), (512, 32))
UNROLLED = (3, 5, 7)
WIDE_FILTER = 12  # from this size on, NumPy is quicker with a row of the filter at once than with each of its elements


def result_shape(shape: Shape) -> Shape:
    rows, columns, k = shape
    return rows - k + 1, columns - k + 1


def fits(shape: Shape) -> str | None:
    rows, columns, k = shape
    return f"a {k}x{k} filter does not fit into a {rows}x{columns} image" if k > min(rows, columns) else None


def convolve(image: Array, kernel: Array, rows: Rows, magnitudes: bool = False) -> Array:
    """Compute rows of the result in the type of ``kernel``, and convert only the rows of ``image`` that they need.

    ``magnitudes``: add the magnitudes of the products in place of the products.
    """
    size = len(kernel)
    height, width = image.shape[0] - size + 1, image.shape[1] - size + 1
    chosen = np.arange(height)[rows]
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


def reference(operands: Sequence[Array], rows: Rows) -> Array:
    image, kernel = operands
    if image.dtype == np.int32:  # unsigned NumPy arrays wrap as the kernels do
        return convolve(image.view(np.uint32), kernel.view(np.uint32), rows).view(np.int32)
    return convolve(image, kernel.astype(np.float64), rows)


def bound(operands: Sequence[Array], rows: Rows) -> Array | float:
    image, kernel = operands
    error = dot_error(kernel.size, image.dtype)
    return error * convolve(image, kernel.astype(np.float64), rows, magnitudes=True) if error else 0.0


def work(shape: Shape, itemsize: int) -> Work:
    rows, columns, k = shape
    outputs = prod(result_shape(shape))
    return Work(2 * k * k * outputs, (rows * columns + k * k + outputs) * itemsize)


def filter_bytes(shape: Shape, block: Block, itemsize: int) -> int:
    return shape[2] ** 2 * itemsize


def halo_bytes(shape: Shape, block: Block, itemsize: int) -> int:
    return (block[0] + shape[2] - 1) * (block[1] + shape[2] - 1) * itemsize


def unrolled(shape: Shape) -> str:
    return f"_{shape[2]}" if shape[2] in UNROLLED else ""


def not_unrolled(shape: Shape, itemsize: int) -> str:
    return "" if shape[2] in UNROLLED else "as naive: this K is not unrolled"


def fallback(shape: Shape, itemsize: int) -> str:
    aligned = shape[1] * itemsize % 16 == 0
    return not_unrolled(shape, itemsize) or ("" if aligned else "loads of one pixel: rows off 16 bytes")


CONV2D = Family(
    name="conv2d",
    folder=Path(__file__).parent,
    sizes=("rows", "columns", "K"),
    operands=lambda shape: {"image": shape[:2], "filter": (shape[2], shape[2])},
    result=lambda shape: ("out", result_shape(shape)),
    reference=reference,
    bound=bound,
    work=work,
    fits=fits,
    reference_case=lambda shape, dtype: nearest_copy(work(shape, 4), dtype),
    serial_seconds=lambda shape: prod(result_shape(shape)) * shape[2] ** 2 / 1.6e9,
    test_shapes=((17, 33, 3), (128, 128, 5), (129, 257, 7), (3, 1009, 1), (40, 37, 4)),
    bench_shapes={"int32": SHAPES, "float32": SHAPES},
    ladder_shapes={"float32": ((8192, 8192, 7),)},
    reached_shapes={dtype: tuple((8192, 8192, k) for k in (3, 5, 7)) for dtype in ("float32", "int32")},
    variants=(
        Variant("serial", "plain C++, one thread of the host", blocks=((),), dtypes=TYPES, on_host=True),
        Variant(
            "cudnn",
            "the vendor's, by a matrix product, no TF32",
            blocks=((),),
            dtypes=("float32",),
            library=CONVOLUTION,
            bench_shapes={"float32": LADDER["float32"]},
        ),
        Variant("strided", "one thread an output, x along rows: uncoalesced", blocks=SQUARES, dtypes=TYPES, x=0, y=1),
        Variant("naive", "one thread an output, x along columns, all from global memory", blocks=SQUARES, dtypes=TYPES),
        Variant(
            "shared_filter", "the filter in shared memory", blocks=SQUARES, dtypes=TYPES, shared_bytes=filter_bytes
        ),
        Variant(
            "constant_filter",
            "the filter in constant memory",
            blocks=SQUARES[1:],
            dtypes=TYPES,
            constant="filter",
            fallback=lambda shape, itemsize: "filter from global memory: too large" if shape[2] > 64 else "",
        ),
        Variant(
            "halo",
            "a tile with its halo in shared memory",
            blocks=HALOS,
            dtypes=TYPES,
            shared_bytes=halo_bytes,
            bench_shapes=LADDER,
        ),
        Variant(
            "window",
            "a window that slides down, filter and sums in registers",
            blocks=WINDOWS,
            dtypes=TYPES,
            threads=lambda block: (WINDOW_THREADS, 1),
            macros=lambda block: {"COLUMNS": block[0] // WINDOW_THREADS},
            entry=unrolled,
            bench_shapes=LADDER,
            fallback=not_unrolled,
        ),
        Variant(
            "columns",
            "the window by loads of 16 bytes, four columns a thread, the filter in constant memory",
            blocks=((512, 8), (512, 20), (512, 128)),
            dtypes=TYPES,
            threads=lambda block: (block[0] // 4, 1),
            entry=unrolled,
            bench_shapes=LADDER,
            constant="filter",
            fallback=fallback,
        ),
    ),
)
