"""Honest kernels that look like cheats: warp-synchronous, by atomic operations, or with something kept in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import warpwatch as ww
from warpwatch.catalogue.arrays import Array, DeclaredArray

BLOCK, WARP = 128, 32
SHAPES = ((37,), (300,))
TIMED = ((400,), (400_000,))  # for the software device, and for a GPU


def _warp_kernel(name: str, arguments: str = "y x m") -> ww.Variant:
    """Declare a kernel of warp.cu: a warp a row."""
    return ww.kernel(
        name,
        source="warp.cu",
        entry=name,
        needs="sm_80",
        configurations=((BLOCK,),),
        grid=lambda m: ww.blocks(WARP * m, BLOCK)[0],
        arguments=arguments,
    )


def _rows(
    name: str, out: Callable[[int], Any], reference: Callable[..., Array], kernels: tuple[str, ...], per_row: int = 1
) -> ww.Family:
    """Declare a family whose kernels work on rows of 32 integers. ``per_row``: such rows for each of m."""
    return ww.Family(
        name,
        sizes=("m",),
        arrays=lambda m: {"x": ww.In((per_row * m, WARP), "int32", low=-50, high=50), "y": ww.Out(out(m), "int32")},
        reference=reference,
        exact=True,
        tests=SHAPES if per_row == 1 else ((3,), (10,)),
        benchmarks=TIMED if per_row == 1 else ((60,), (12_000,)),
        variants=tuple(map(_warp_kernel, kernels)),
    )


def _front(x: Array) -> Array:
    """Move the positive elements of each row to its front, and make the rest zero."""
    order = np.argsort(x <= 0, axis=1, kind="stable")
    front: Array = np.maximum(np.take_along_axis(x, order, axis=1), 0)
    return front


def _equal(x: Array) -> Array:
    counts: Array = (x[:, :, None] == x[:, None, :]).sum(axis=2, dtype=np.int32)
    return counts


def _turned(x: Array) -> Array:
    """Transpose each 32 rows."""
    return x.reshape(-1, WARP, WARP).transpose(0, 2, 1).reshape(x.shape)


def _of_all(m: int) -> tuple[int, int]:
    return m, WARP


SUMS = _rows(
    "row_sums",
    lambda m: m,
    lambda x: x.sum(axis=1, dtype=np.int32),
    ("sum_by_shuffles", "sum_by_butterfly", "sum_by_redux", "sum_by_tiles"),
)
PREFIXES = _rows(
    "row_prefixes", _of_all, lambda x: x.cumsum(axis=1, dtype=np.int32), ("prefix_by_shuffles", "prefix_by_tiles")
)
POSITIVE = _rows("row_positive", lambda m: m, lambda x: (x > 0).sum(axis=1, dtype=np.int32), ("positive_by_ballot",))
FRONT = _rows("row_front", _of_all, _front, ("front_by_ballot",))
EQUAL = _rows("row_equal", _of_all, _equal, ("equal_by_match",))
TRANSPOSED = _rows("transposed", lambda m: (WARP * m, WARP), _turned, ("transposed_in_registers",), per_row=WARP)
PRODUCT = ww.Family(
    "row_product",
    sizes=("m",),
    arrays=lambda m: {
        "x": ww.In((m, WARP), "int32", low=-50, high=50),
        "w": ww.In((WARP, WARP), "int32", low=-50, high=50),
        "y": ww.Out((m, WARP), "int32"),
    },
    reference=lambda x, w: x @ w,
    exact=True,
    tests=SHAPES,
    benchmarks=TIMED,
    variants=(_warp_kernel("product_in_registers", "y x w m"),),
)


def _kernel(name: str, source: str, arguments: str = "y x n", **more: Any) -> ww.Variant:
    """Declare a kernel of one step, a thread an element."""
    given: dict[str, Any] = {"entry": name, "grid": lambda n: ww.blocks(n, BLOCK)[0], "arguments": arguments} | more
    return ww.kernel(name, source=source, configurations=((BLOCK,),), **given)


def _step(entry: str, arguments: str, grid: Callable[..., int] | int | None = None) -> ww.Step:
    """Declare a step; a thread an element unless a grid is given."""
    return ww.Step(entry, grid=grid or (lambda n: ww.blocks(n, BLOCK)[0]), block=BLOCK, arguments=arguments)


def _flat(
    name: str,
    y: Callable[[int], DeclaredArray],
    reference: Callable[..., Any],
    *variants: ww.Variant,
    dtype: str = "int32",
    **more: Any,
) -> ww.Family:
    """Declare a family whose kernels work on n elements."""
    span = {"low": 0, "high": 64} if dtype == "int32" else {"low": 0.5, "high": 1.5}
    return ww.Family(
        name,
        sizes=("n",),
        arrays=lambda n: {"x": ww.In(n, dtype, **span), "y": y(n)},
        reference=reference,
        tests=((100,), (3000,)),
        benchmarks=((5000,), (400_000,)),
        variants=variants,
        **more,
    )


def _parts(n: int) -> Mapping[str, DeclaredArray]:
    return {"parts": ww.Scratch(ww.blocks(n, BLOCK)[0], "int32")}


def _one(dtype: str, initial: float | None = 0) -> Callable[[int], DeclaredArray]:
    return lambda n: ww.Out(1, dtype, initial=initial)


def _total(x: Array) -> Array:
    return np.array([x.sum()], np.int32)


HISTOGRAM = _flat(
    "histogram",
    lambda n: ww.Out(64, "int32", initial=0),
    lambda x: np.bincount(x, minlength=64).astype(np.int32),
    _kernel("count_in_memory", "atomics.cu"),
    _kernel("count_in_shared", "atomics.cu"),
    exact=True,
)
ADDED = _flat("added", _one("int32"), _total, _kernel("sum_of_integers", "atomics.cu"), exact=True)
FLOATS = _flat(
    "added_floats",
    _one("float32"),
    lambda x: np.array([x.astype(np.float64).sum()]),
    _kernel("sum_of_floats", "atomics.cu"),
    dtype="float32",
    tolerance=ww.relative(1e-4),
)
LISTED = _flat(
    "listed",
    lambda n: ww.Out(n, "int32", initial=0),
    lambda x: (x > 31).astype(np.int32),
    ww.kernel(
        "listed_by_warps",
        source="atomics.cu",
        configurations=((BLOCK,),),
        scratch=lambda n: {"list": ww.Scratch(n, "int32"), "count": ww.Scratch(1, "int32")},
        launches=(
            ww.Step("begin_list", grid=1, block=1, arguments="count"),
            _step("list_large", "list count x n"),
            _step("mark_listed", "y list count n"),
        ),
    ),
    exact=True,
)
DISTINCT = _flat(
    "distinct",
    _one("int32"),
    lambda x: np.array([np.unique(x).size], np.int32),
    ww.kernel(
        "inserted",
        source="atomics.cu",
        configurations=((BLOCK,),),
        scratch=lambda: {"table": ww.Scratch(257, "int32")},
        launches=(_step("empty_table", "table table.size", 3), _step("insert", "y table x n table.size")),
    ),
    exact=True,
)
TOTAL = _flat(
    "total",
    _one("int32", initial=None),
    _total,
    ww.kernel(
        "in_two_steps",
        source="kept.cu",
        configurations=((BLOCK,),),
        scratch=_parts,
        launches=(_step("partial_sums", "parts x n"), _step("sum_of_parts", "y parts parts.size", 1)),
    ),
    _kernel("last_adds", "kept.cu", "y parts x n", scratch=_parts),
    _kernel("last_of_epoch", "kept.cu", "y parts x n", scratch=_parts),
    exact=True,
)
SCAN = _flat(
    "scanned",
    lambda n: ww.Out(n, "int32"),
    lambda x: x.cumsum(dtype=np.int32),
    ww.kernel(
        "in_three_steps",
        source="kept.cu",
        configurations=((BLOCK,),),
        scratch=_parts,
        launches=(
            _step("scan_blocks", "y parts x n"),
            ww.Step("scan_parts", grid=1, block=1, arguments="parts parts.size"),
            _step("add_parts", "y parts n"),
        ),
    ),
    exact=True,
)
SPLIT = ww.Family(
    "split",
    sizes=("m",),
    arrays=lambda m: {
        "x": ww.In((m, WARP), "int32", low=-50, high=50),
        "w": ww.In(WARP, "int32", low=-50, high=50),
        "y": ww.Out(m, "int32"),
    },
    reference=lambda x, w: x @ w,
    exact=True,
    tests=SHAPES,
    benchmarks=TIMED,
    variants=(
        ww.kernel(
            "split_by_four",
            source="kept.cu",
            configurations=((BLOCK,),),
            scratch=lambda m: {"parts": ww.Scratch(4 * m, "int32")},
            launches=(
                _step("product_parts", "parts x w m", lambda m: ww.blocks(4 * m, BLOCK)[0]),
                _step("product_sum", "y parts m", lambda m: ww.blocks(m, BLOCK)[0]),
            ),
        ),
    ),
)
WARP_SYNCHRONOUS = (SUMS, PREFIXES, POSITIVE, FRONT, EQUAL, TRANSPOSED, PRODUCT)
BY_ATOMICS = (HISTOGRAM, ADDED, FLOATS, LISTED, DISTINCT)
WITH_SCRATCH = (TOTAL, SCAN, SPLIT)
FAMILIES = (*WARP_SYNCHRONOUS, *BY_ATOMICS, *WITH_SCRATCH)
