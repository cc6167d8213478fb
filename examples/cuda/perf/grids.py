"""Kernels on grids of points: a step of a 3-D stencil."""

import numpy as np

import warpwatch as ww


def step(x, centre, side):
    """Return centre x + side times the sum of the six neighbours, in float64; beyond the box is 0."""
    padded = np.pad(x.astype(np.float64), 1)
    neighbours = sum(np.roll(padded, by, axis) for axis in range(3) for by in (-1, 1))
    return (np.float32(centre) * padded + np.float32(side) * neighbours)[1:-1, 1:-1, 1:-1]


STENCIL = ww.Family(
    "stencil3d",
    sizes=("nz", "ny", "nx"),
    arrays=lambda nz, ny, nx: {"x": ww.In((nz, ny, nx), "float32"), "y": ww.Out((nz, ny, nx), "float32")},
    scalars={"centre": ww.Scalar(0.4, "float32"), "side": ww.Scalar(0.1, "float32")},
    reference=step,
    tolerance=ww.dot_error(8),
    work=lambda nz, ny, nx: ww.Work(8 * nz * ny * nx, 8 * nz * ny * nx),
    tests=((1, 1, 1), (3, 5, 33), (37, 17, 65)),
    benchmarks=((64, 128, 128), (512, 512, 512)),
    variants=(
        ww.kernel("plain", "a thread a point", source="../csrc/stencil3d_plain.cu",
            configurations=((32, 4, 4), (64, 4, 2)),
            grid=lambda nz, ny, nx, block: ww.blocks((nx, ny, nz), block), arguments="x y nz ny nx centre side"),
        ww.kernel("columns", "a thread a column of points", source="../csrc/stencil3d_columns.cu",
            configurations=({"block": (32, 8), "DEEP": 32},),
            grid=lambda nz, ny, nx, c: ww.blocks((nx, ny, nz), (*c.block, c.DEEP)),
            arguments="x y nz ny nx centre side"),
    ),
)  # fmt: skip
