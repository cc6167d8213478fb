"""Declares kernels that read their inputs through texture objects: of linear memory, and of matrices."""

from __future__ import annotations

import numpy as np

import warpwatch as ww
from warpwatch.catalogue.arrays import Array


def gathered(x: Array, places: Array) -> Array:
    """Return the numbers at these places, of pairs the first plus the second."""
    pairs = x.reshape(-1, 2)[places]
    return pairs[:, 0] + pairs[:, 1]


GATHER = ww.Family(
    "gather",
    sizes=("n",),
    arrays=lambda n: {
        "x": ww.In(2 * n, "float32", aligned=512),
        "places": ww.In(n, "int32", low=0, high=n - 1),
        "y": ww.Out(n, "float32"),
    },
    reference=gathered,
    draw=lambda rng, n: {"places": rng.integers(0, n, n, np.int32)},
    tests=((1,), (100,), (1000,)),
    variants=(
        ww.kernel(
            "fetch",
            source="textures.cu",
            entry="gather",
            configurations=((128,),),
            grid=lambda n, block: ww.blocks(n, block[0]),
            arguments=lambda at, n: (
                ww.texture(at["x"], "float32", (n,), channels=2), np.uint64(at["places"]), np.uint64(at["y"]),
                np.int32(n),
            ),
        ),
    ),
)  # fmt: skip


def shrunk(image: Array) -> Array:
    """Return the mean of each 2 x 2 pixels as a share of 255; those at odd edges count twice."""
    height, width = image.shape
    padded = np.pad(image.astype(np.float64) / 255, ((0, height % 2), (0, width % 2)), "edge")
    rows = padded[0::2] + padded[1::2]
    return np.asarray((rows[:, 0::2] + rows[:, 1::2]) / 4)


SHRINK = ww.Family(
    "shrink",
    sizes=("m", "n"),
    valid=lambda n: n % 32 == 0,
    arrays=lambda m, n: {
        "image": ww.In((m, n), "uint8", aligned=512),
        "small": ww.Out(((m + 1) // 2, n // 2), "float32"),
    },
    reference=shrunk,
    tolerance=ww.relative(0, absolute=2e-3),  # filters have 8 bits
    tests=((1, 32), (33, 64), (64, 96)),
    variants=(
        ww.kernel(
            "filtered",
            source="textures.cu",
            entry="shrink",
            configurations=((16, 8),),
            grid=lambda m, n, block: ww.blocks((n // 2, (m + 1) // 2), block),
            arguments=lambda at, m, n: (
                ww.texture(at["image"], "uint8", (m, n), filter="linear", as_float=True), np.uint64(at["small"]),
                np.int32(m), np.int32(n),
            ),
        ),
    ),
)  # fmt: skip

FAMILIES = (GATHER, SHRINK)
