"""Declares kernels that use their arrays through textures, of memory and of CUDA arrays, and surfaces."""

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


def neighbours(image: Array) -> Array:
    """Return the sum of the pixels above and below, of those at the edges twice."""
    padded = np.pad(image, ((1, 1), (0, 0)), "edge")
    return np.asarray(padded[:-2] + padded[2:])


SURFACES = ww.Family(
    "surfaces",
    sizes=("m", "n"),
    arrays=lambda m, n: {"image": ww.In((m, n), "float32"), "sums": ww.Out((m, n), "float32")},
    reference=neighbours,
    tests=((1, 1), (5, 33), (64, 100)),
    benchmarks=((64, 128),),
    work=lambda m, n: ww.Work(m * n, 8 * m * n),
    variants=(
        ww.kernel(
            "neighbours",
            source="textures.cu",
            entry="neighbours",
            configurations=((16, 8),),
            grid=lambda m, n, block: ww.blocks((n, m), block),
            arguments=lambda at, m, n: (
                ww.surface(at["image"], "float32", (m, n)), ww.surface(at["sums"], "float32", (m, n)),
                np.int32(m), np.int32(n),
            ),
        ),
    ),
)  # fmt: skip
IN_PLACE = ww.Family(
    "in_place",
    sizes=("n",),
    arrays=lambda n: {"x": ww.InOut(2 * n, "float32"), "y": ww.Out(n, "float32")},
    reference=lambda x: (2 * x, 2 * x[0::2] + 2 * x[1::2]),
    tests=((1,), (1000,)),
    variants=(
        ww.kernel(
            "doubled",
            source="textures.cu",
            launches=(
                ww.Step(
                    "doubled",
                    grid="ceil(n/BLOCK_X)",
                    arguments=lambda at, n: (ww.surface(at["x"], "float32", (n,), channels=2), np.int32(n)),
                ),
                ww.Step(
                    "added",
                    grid="ceil(n/BLOCK_X)",
                    arguments=lambda at, n: (
                        ww.texture(at["x"], "float32", (n,), channels=2, cuda_array=True), np.uint64(at["y"]),
                        np.int32(n),
                    ),
                ),
            ),
            configurations=((128,),),
        ),
    ),
)  # fmt: skip


def middles(volume: Array) -> Array:
    """Return the mean of each 2 x 2 x 2 numbers; those at edges count more often."""
    padded = np.pad(volume.astype(np.float64), 1, "edge")
    for axis in range(3):
        first, last = (np.take(padded, range(i, padded.shape[axis] - 1 + i), axis) for i in (0, 1))
        padded = (first + last) / 2
    return padded


VOLUME = ww.Family(
    "volume",
    sizes=("d", "m", "n"),
    arrays=lambda d, m, n: {
        "volume": ww.In((d, m, n), "float32"),
        "means": ww.Out((d + 1, m + 1, n + 1), "float32"),
    },
    reference=middles,
    tolerance=ww.relative(0, absolute=1e-2),  # filters have 8 bits
    tests=((2, 3, 5), (8, 9, 10)),
    variants=(
        ww.kernel(
            "corners",
            source="textures.cu",
            entry="corners",
            configurations=((8, 4, 4),),
            grid=lambda d, m, n, block: ww.blocks((n + 1, m + 1, d + 1), block),
            arguments=lambda at, d, m, n: (
                ww.texture(at["volume"], "float32", (d, m, n), filter="linear", cuda_array=True),
                np.uint64(at["means"]), np.int32(d), np.int32(m), np.int32(n),
            ),
        ),
    ),
)  # fmt: skip
FAMILIES = (GATHER, SHRINK, SURFACES, IN_PLACE, VOLUME)
