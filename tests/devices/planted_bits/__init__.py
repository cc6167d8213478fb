"""Declares kernels whose bits depend on the order of threads, blocks or time: the tests copy this folder."""

from collections.abc import Callable
from typing import Any

import numpy as np

import warpwatch as ww

SUMS = ("atomic_sum", "warp_atomics", "split_k", "arrivals", "exchange", "by_the_clock", "list_order")
ONES = ("last_writer", "neighbour", "first_of_equals")
HONEST = ("in_order", "fixed_point")


def summing(name: str, entry: str = "", **fields: Any) -> ww.Variant:
    return ww.kernel(
        name,
        source="sums.cu",
        entry=entry or name,
        configurations=((64,),),
        grid=lambda n: ww.blocks(n, 64),
        scratch=lambda n: {"parts": ww.Scratch(ww.blocks(n, 64)[0])},
        arguments="x total parts n",
        **fields,
    )


SUM = ww.Family(
    "sum",
    sizes=("n",),
    dtypes=("float32",),
    arrays=lambda n: {"x": ww.In(n, low=0.5, high=1.5), "total": ww.Out(1, initial=0)},
    reference=lambda x: np.array([x.astype(np.float64).sum()]),
    tolerance=ww.relative(1e-4),
    tests=((1000,),),
    variants=(
        *map(summing, (*SUMS, *HONEST)),
        summing("required", "split_k", deterministic=True),
        summing("kept", "in_order", deterministic=True),
        summing("allowed", "split_k", deterministic=False),
    ),
)


def other(name: str, reference: Callable[..., Any], *names: str) -> ww.Family:
    return ww.Family(
        name,
        sizes=("n",),
        dtypes=("float32",),
        arrays=lambda n: {"x": ww.In(n, low=0.5, high=1.5), "y": ww.Out(16, initial=0)},
        reference=reference,
        tolerance=ww.relative(1e-2),
        tests=((1000,),),
        variants=tuple(
            ww.kernel(
                each,
                source="others.cu",
                entry=each,
                configurations=({"block": (64,), "SPLITS": 1},),
                grid=lambda n: ww.blocks(n, 64),
                arguments="x y n",
            )
            for each in names
        ),
    )


BINS = other("bins", lambda x: np.bincount(np.arange(len(x)) % 16, x.astype(np.float64), 16), "histogram")
ONE = other("one", lambda x: np.ones(16), *ONES, "by_address")
ROWS = ww.Family(
    "rows",
    sizes=("m", "n"),
    dtypes=("float32",),
    arrays=lambda m, n: {"x": ww.In((m, n), low=0.5, high=1.5), "y": ww.Out(m)},
    reference=lambda x: x.astype(np.float64).sum(axis=1),
    tolerance=ww.relative(1e-4),
    same_for=("m",),
    tests=((16, 100),),
    variants=tuple(
        ww.kernel(
            name,
            source="others.cu",
            entry="rows",
            configurations=({"block": (1,), "SPLITS": splits},),
            grid=lambda m: m,
            arguments="x y m n",
        )
        for name, splits in (("split", 1), ("whole", 0))
    ),
)
FAMILIES = (SUM, BINS, ONE, ROWS)
