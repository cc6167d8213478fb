"""Declares kernels into each of which one fault can be planted, which makes it slower and nothing else.

``plant`` plants all of them; ``EXPECTED`` names for each the rule of warpwatch/explain that is to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import warpwatch as ww
from warpwatch.catalogue.arrays import Array

FOLDER = Path(__file__).parent
SWITCH = FOLDER / "planted.h"
PLANTED = "#define PLANTED" in SWITCH.read_text()
EXPECTED: Mapping[str, str] = {
    "spills": "spills",
    "unrolling": "unrolling",
    "width": "width",
    "padding": "bank conflicts",
    "restrict": "restrict",
    "barriers": "barriers",
    "tile": "tile",
    "occupancy": "occupancy",
    "store": "coalescing",
    "precision": "double precision",
    "division": "division",
    "flags": "flags",
    "grid": "launch",
    "loads": "more accesses",
}
ROWS, BITS = 48, 5
Numbers = Callable[..., Any]


def plant(folder: Path) -> None:
    """Plant every fault into a copy of this folder."""
    switch = folder / SWITCH.name
    switch.write_text(switch.read_text() + "#define PLANTED\n")


def family(
    name: str,
    entry: str,
    reference: Numbers,
    *,
    shape: tuple[int, int],
    small: tuple[int, int],
    result: Numbers = lambda m, n: n,
    **more: Any,
) -> ww.Family:
    """Declare a kernel on a matrix x of m x n numbers."""
    configuration, inputs = more.pop("block", (256,)), more.pop("inputs", lambda m: {})
    return ww.Family(
        name,
        sizes=("m", "n"),
        dtypes=("float32",),
        arrays=lambda m, n: {"x": ww.In((m, n)), **inputs(m), "y": ww.Out(result(m, n))},
        reference=reference,
        tolerance=ww.relative(1e-4, absolute=1e-2),  # 1,024 numbers of magnitude ten are summed in float32
        work=lambda m, n: ww.Work(m * n, 8 * m * n + 4 * m),
        tests=(small,),
        benchmarks=(shape,),
        variants=(
            ww.kernel(
                entry,
                "with a fault or without",
                configurations=(configuration,),
                grid=more.pop("grid", lambda n, block: ww.blocks(n, block[0])),
                arguments=more.pop("arguments", "x y m n"),
                source=f"{name}.cu",
                **more,
            ),
        ),
    )


def fixed_point(x: Array, step: Callable[[Array], Array], times: int) -> Array:
    value: Array = x[0].astype(np.float64)
    for _ in range(times):
        value = step(value)
    return value


def squares_of(n: int, m: int) -> tuple[int, int]:
    return ww.blocks(n, 32)[0], ww.blocks(m, 32)[0]


def neighbours(x: Array, m: int) -> Array:
    blocks = x[np.arange(m) % 4].astype(np.float64).sum(0).reshape(-1, 256)
    return np.asarray(np.roll(blocks, -1, axis=1).reshape(-1))


def divided(x: Array, n: int) -> Array:
    values = x[0][np.arange(n) >> BITS].astype(np.float64) * (np.arange(n) & (2**BITS - 1))
    return np.array([values.take(np.arange(at, at + 64), mode="wrap").sum() for at in range(n)])


TALL, SMALL = (256, 2**16), (8, 512)
WIDE, FLAT = (1, 2**20), (1, 512)
SQUARE, LITTLE = (4096, 4096), (64, 96)
TILES: Mapping[str, Any] = {"block": (32, 8), "grid": squares_of, "shape": SQUARE, "small": LITTLE}
STEPS = 512

FAMILIES = (
    family(
        "spills", "column", lambda x: x - x.astype(np.float64).mean(0), shape=(ROWS, 2**18), small=(ROWS, 512),
        result=lambda m, n: (m, n), arguments="x y n",
    ),
    family("unrolling", "column", lambda x: x.astype(np.float64).sum(0), shape=TALL, small=SMALL),
    family(
        "width", "columns", lambda x: x.astype(np.float64).sum(0), shape=TALL, small=SMALL,
        grid=lambda n, block: ww.blocks(n // 4, block[0]),
    ),
    family("padding", "tile", lambda x: x.T, result=lambda m, n: (n, m), **TILES),
    family(
        "restrict", "rows", lambda x, weights: weights.astype(np.float64) @ x, shape=TALL, small=SMALL,
        inputs=lambda m: {"weights": ww.In(m)}, arguments="x weights y m n",
    ),
    family("barriers", "neighbours", neighbours, shape=(1024, 2**16), small=SMALL),
    ww.Family(
        "tile",
        sizes=("m", "n", "k"),
        dtypes=("float32",),
        arrays=lambda m, n, k: {"a": ww.In((m, n)), "b": ww.In((n, k)), "c": ww.Out((m, k))},
        reference=lambda a, b: a.astype(np.float64) @ b,
        tolerance=ww.dot_error("n"),
        work=lambda m, n, k: ww.Work(2 * m * n * k, 4 * (m * n + n * k + m * k)),
        tests=((64, 128, 64),),
        benchmarks=((1024, 1024, 1024),),
        variants=(
            ww.kernel(
                "product", "with a fault or without", configurations=((16, 16),),
                grid=lambda m, k: (k // 16, m // 16), arguments="a b c m n k",
                source="tile.cu",
            ),
        ),
    ),
    family("occupancy", "column", lambda x: x.astype(np.float64).sum(0), shape=(64, 2**20), small=SMALL),
    family("store", "tile", lambda x: 2 * x, result=lambda m, n: (m, n), **TILES),
    family(
        "precision", "steps", lambda x: fixed_point(x, lambda v: v * 0.5 + 0.25, 64), shape=WIDE, small=FLAT,
        arguments="x y steps:int32=64 n",
    ),
    family(
        "division", "index", divided, shape=WIDE, small=FLAT, arguments=f"x y n w:int32={2**BITS} bits:int32={BITS}",
    ),
    family(
        "flags", "steps", lambda x: fixed_point(x, lambda v: v * 0.5 + 0.25, STEPS), shape=WIDE, small=FLAT,
        arguments=f"x y steps:int32={STEPS} n", flags=("-fmad=false",) if PLANTED else (),
    ),
    family(
        "grid", "stride", lambda x: 2 * x[0], shape=(1, 2**24), small=FLAT, arguments="x y n",
        grid=66 if PLANTED else 1056,
    ),
    family("loads", "squares", lambda x: (x.astype(np.float64) ** 2).sum(0), shape=TALL, small=SMALL),
)  # fmt: skip
