"""Kernels on grids of points: a step of a 3-D stencil."""

import numpy as np

import warpwatch as ww

CENTRE, SIDE = 0.4, 0.1


def step(x):
    """Return 0.4 x + 0.1 times the sum of the six neighbours, in float64; beyond the box is 0."""
    padded = np.pad(x.astype(np.float64), 1)
    neighbours = sum(np.roll(padded, by, axis) for axis in range(3) for by in (-1, 1))
    return (CENTRE * padded + SIDE * neighbours)[1:-1, 1:-1, 1:-1]


STENCIL = ww.Family(
    "stencil3d",
    sizes=("nz", "ny", "nx"),
    arrays=lambda nz, ny, nx: {"x": ww.In((nz, ny, nx), "float32"), "y": ww.Out((nz, ny, nx), "float32")},
    reference=step,
    tolerance=ww.dot_error(8),
    work=lambda nz, ny, nx: ww.Work(8 * nz * ny * nx, 8 * nz * ny * nx),
    tests=((1, 1, 1), (3, 5, 33), (37, 17, 65)),
    benchmarks=((64, 128, 128), (512, 512, 512)),
    variants=(
        ww.kernel("plain", "a thread a point",
            source="../csrc/stencil3d_plain.cu", configurations=((32, 4, 4), (64, 4, 2)),
            launch=lambda nz, ny, nx, block: ww.Launch(
                grid=(-(-nx // block[0]), -(-ny // block[1]), -(-nz // block[2]))),
            arguments=f"x y nz ny nx centre:float32={CENTRE} side:float32={SIDE}"),
        ww.kernel("columns", "a thread a column of points",
            source="../csrc/stencil3d_columns.cu", configurations=({"block": (32, 8), "DEEP": 32},),
            launch=lambda nz, ny, nx, c: ww.Launch(
                grid=(-(-nx // c.block[0]), -(-ny // c.block[1]), -(-nz // c.DEEP))),
            arguments=f"x y nz ny nx centre:float32={CENTRE} side:float32={SIDE}"),
    ),
)  # fmt: skip
