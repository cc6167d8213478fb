"""Declares kernels with what those of this repository do not have, for tests of how declarations are carried out.

Arrays that change in place, initial values, scratch memory, scalars, several results, several launches, and blocks and
grids with three axes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import warpwatch as ww
from warpwatch.catalogue.arrays import Array

BLOCK = 64


def add(x: Array, state: Array) -> dict[str, Array]:
    """Return the sums, and how many there are; of integers modulo 2^32."""
    return {"state": state + x, "count": np.array([x.size], np.int32), "largest": np.array([x.max()])}


ADD = ww.Family(
    "add",
    sizes=("n",),
    arrays=lambda n: {
        "x": ww.In(n, "int32"),
        "state": ww.InOut(n, "int32"),
        "count": ww.Out(1, "int32", initial=0),
        "largest": ww.Out(1, "int32", initial=-1),
    },
    reference=add,
    draw=lambda rng, n: {"x": rng.integers(0, 1000, n)},
    exact=True,
    tests=((100,), (257,)),
    benchmarks=((1000,),),
    variants=(
        ww.serial("serial", x=0, y=None),
        ww.kernel("atomic", source="add.cu", configurations=((BLOCK,), (128,)), x=0, y=None),
    ),
)


def scale(x: Array, eps: float) -> tuple[Array, Array]:
    """Return x over the sum of its magnitudes and eps, and that sum."""
    total = np.array([np.abs(x.astype(np.float64)).sum()])
    return x / (total + eps), total


def parts(n: int) -> int:
    return ww.blocks(n, BLOCK)[0]


SCALE = ww.Family(
    "scale",
    sizes=("n",),
    arrays=lambda n: {
        "x": ww.In(n, "float32", low=0.5, high=1.5),
        "y": ww.Out(n, "float32"),
        "total": ww.Out(1, "float32"),
    },
    scalars={"eps": ww.Scalar(0.25, "float32")},
    reference=scale,
    tolerance={"y": ww.relative(1e-5), "total": ww.relative(1e-5)},
    tests=((100,), (1000,)),
    variants=(
        ww.kernel(
            "two_steps",
            source="scale.cu",
            scratch=lambda n: {"parts": ww.Scratch(parts(n), "float32")},
            launches=(
                ww.Step("scale_sum", grid=parts, block=BLOCK, shared_bytes=f"4*{BLOCK}", arguments="parts x n"),
                ww.Step("scale_by", grid=parts, block=BLOCK, arguments="y total parts parts.size x n:int64 eps"),
            ),
        ),
    ),
)


def corner(u: Array) -> Mapping[str, Array]:
    """Return each cell times its number, as the kernel counts cells."""
    return {"v": (u.astype(np.int64) * np.arange(u.size).reshape(u.shape)).astype(np.int32)}


CELLS = ww.Family(
    "cells",
    sizes=("depth", "height", "width"),
    arrays=lambda shape: {"u": ww.In(shape, "int32", low=-8, high=9), "v": ww.Out(shape, "int32")},
    reference=corner,
    exact=True,
    tests=((5, 7, 9), (1, 1, 1), (8, 8, 8)),
    variants=(
        ww.kernel(
            "cube",
            source="cells.cu",
            entry="cells<BLOCK_X, PER>",
            configurations=({"block": (4, 2, 2), "PER": 1}, {"block": (4, 2, 2), "PER": 2}),
            grid=lambda depth, height, width, block, c: ww.blocks(
                (width, height, depth), (block[0] * c.PER, block[1], block[2])
            ),
        ),
    ),
)


def hundreds(rows: int) -> Array:
    return 100 * (1 + np.arange(rows))


COUNT = ww.Family(
    "count",
    sizes=("rows", "n"),
    valid=lambda n: n % 8 == 0,
    arrays=lambda rows, n: {
        "x": ww.In((rows, n), "int32"),
        "y": ww.Out((rows, n // 8), "int32"),
        "turn": ww.Scratch(rows, "int32", initial=0),
        "from_100": ww.Scratch(rows + 1, "int32", initial=lambda rows: 100 * np.arange(rows + 1)),
    },
    reference=lambda x: x.reshape(len(x), -1, 8).sum(2, dtype=np.int32),
    draw=lambda rng, rows, n: {"x": rng.integers(0, 1000, (rows, n))},
    exact=True,
    tests=((1, 8), (3, 64)),
    benchmarks=((4, 128),),
    variants=(
        ww.kernel(
            "words",
            source="count.cu",
            configurations=((4,),),
            grid=("ceil(n/8/BLOCK_X)", "rows"),
            scratch=lambda rows: {
                "hundreds": ww.Scratch(rows, "int32", initial=lambda rows: 100 + 100 * np.arange(rows))
            },
            arguments="y x turn hundreds null n/8",
        ),
        ww.kernel(
            "function",
            source="count.cu",
            entry="count_words",
            configurations=((4,),),
            grid="ceil(n/8/BLOCK_X) rows",
            arguments=lambda at, n: (at["y"], at["x"], at["turn"], at["from_100"] + 4, None, np.int32(n // 8)),
        ),
    ),
)


def mean(x: Array) -> Array:
    wide = x.astype(np.float64)
    return wide - float(wide.mean())


MEAN = ww.Family(
    "mean",
    sizes=("n",),
    arrays=lambda n: {
        "y": ww.Out(n, "float32"),
        "x": ww.In(n, "float32", low=0.5, high=1.5),
        "parts": ww.Scratch(2, "float32", initial=0),
    },
    reference=mean,
    tolerance=ww.relative(1e-5, absolute=1e-6),
    tests=((2,), (100,), (300,)),
    benchmarks=((1000,),),
    variants=(
        ww.kernel(
            "together",
            "its blocks wait for each other",
            source="mean.cu",
            configurations=((BLOCK,),),
            grid=parts,
            arguments="y x parts n",
            cooperative=True,
        ),
        ww.kernel(
            "streams",
            "two halves on two streams",
            source="mean.cu",
            launches=(
                ww.Step("mean_half", grid=1, block=BLOCK, arguments="parts x n 0"),
                ww.Step("mean_half", grid=1, block=BLOCK, arguments="parts x n 1", stream="second"),
                ww.Step("mean_of", grid=parts, block=BLOCK, arguments="y x parts n", stream="third", after="mean_half"),
            ),
        ),
        ww.kernel(
            "early",
            "the second launch may begin before the first has ended",
            source="early.cu",
            needs="sm_90",
            launches=(
                ww.Step("mean_sum", grid=1, block=BLOCK, arguments="parts x n"),
                ww.Step("mean_early", grid=parts, block=BLOCK, arguments="y x parts n", programmatic=True),
            ),
        ),
    ),
)

FAMILIES = (ADD, SCALE, CELLS, COUNT, MEAN)
