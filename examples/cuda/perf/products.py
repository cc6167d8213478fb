"""Products: of matrices in float16, and of a sparse matrix with a vector."""

import numpy as np
from scipy.sparse import csr_array

import warpwatch as ww


def product(a, b, part=slice(None)):
    """Return the rows ``part`` of a @ b, in float64."""
    return a[part].astype(np.float64) @ b.astype(np.float64)


PRODUCT = ww.Family(
    "product_half",
    sizes=("m", "n", "k"),
    dtypes=("float16", "float32"),  # of the result
    arrays=lambda m, n, k: {"a": ww.In((m, k), "float16"), "b": ww.In((k, n), "float16"), "product": ww.Out((m, n))},
    reference=product,
    tolerance=ww.dot_error("k", sums="float32"),
    exact=True,
    work=lambda m, n, k, itemsize: ww.Work(2 * m * n * k, 2 * (m + n) * k + m * n * itemsize),
    tests=((1, 1, 1), (17, 33, 5), (129, 65, 63)),
    benchmarks=((512, 512, 512), (2048, 2048, 2048)),
    variants=(
        ww.kernel("tiled", "tiles in shared memory, a microtile in registers", source="../csrc/product_half.cu",
            configurations=({"block": (16, 16), "MICRO": 4}, {"block": (16, 16), "MICRO": 8}),
            grid=lambda m, n, c: ww.blocks((n, m), (c.block[0] * c.MICRO, c.block[1] * c.MICRO)),
            arguments="a b product m n k"),
    ),
)  # fmt: skip


def draw_sparse(rng, rows, cols, longest):
    """Draw a matrix in compressed rows, each of 0 to ``longest`` values."""
    lengths = rng.integers(0, longest + 1, rows)
    lengths[0] = longest  # so that there is a value
    row_start = np.concatenate([[0], lengths.cumsum()])
    count = row_start[-1]
    columns = rng.integers(0, cols, count, np.int32)
    return {"row_start": row_start, "columns": columns, "values": rng.uniform(-1, 1, count).astype(np.float32)}


def multiply_sparse(row_start, columns, values, x):
    """Return the product of the sparse matrix with x, in float64."""
    return csr_array((values.astype(np.float64), columns, row_start), (len(row_start) - 1, len(x))) @ x


SPMV = ww.Family(
    "spmv",
    sizes=("rows", "cols", "longest"),
    arrays=lambda rows, cols: {
        "row_start": ww.In(rows + 1, "int64"), "columns": ww.In(None, "int32"), "values": ww.In(None, "float32"),
        "x": ww.In(cols, "float32"), "y": ww.Out(rows, "float32"),
    },
    draw=draw_sparse,
    reference=multiply_sparse,
    tolerance=ww.dot_error("longest"),
    tests=((1, 1, 1), (17, 33, 5), (1000, 777, 100)),
    benchmarks=((16384, 16384, 64), (1 << 20, 1 << 20, 128)),
    variants=(
        ww.kernel("warp", "a warp a row", source="../csrc/spmv_csr.cu",
            configurations=((256,),),
            grid=lambda rows, block: ww.blocks(rows, block[0] // 32),
            arguments="row_start columns values x y rows"),
    ),
)  # fmt: skip
