"""Attention, forward: o = softmax(q k^T / sqrt(d)) v for each head, with q, k, v and o of n rows of d elements a head.

Two families: of a causal one, a row attends to no row behind it.
"""

from __future__ import annotations

import functools
from math import sqrt
from typing import Any

import numpy as np

import warpwatch as ww
from kernels.attention.pytorch import PREPARE
from kernels.matmul_half import BYTES, HALVES, ptx_type
from warpwatch import ALL_ROWS, Array, Block, Part

WIDTHS = (64, 128)  # of a head
LOW, HIGH = ((16, 1024, 128),), ((16, 8192, 128), (16, 8192, 64))
BENCHMARKS = {"float16": HIGH, "bfloat16": HIGH[:1]}
BOTH = {dtype: (*LOW, *shapes) for dtype, shapes in BENCHMARKS.items()}
CUDNN_LEAST = 64  # rows a head: cuDNN takes no single one, and PyTorch 2.11's returned NaN for 33 on an H200
WARP_ROWS = 32  # of o, of mma.cu
KEYS = 64  # rows of k and v that a block of tiled.cu and mma.cu has at a time
AT_ONCE, WEIGHED_AT_ONCE = 1024, 64  # rows of which the reference holds the scores; that a thread weighs
HALF_ROUNDINGS = {"float16": 2**13, "bfloat16": 2**16}  # roundoffs of float32 in one of the type
SUBNORMAL = {"float16": 0.5, "bfloat16": 0.0}  # the same of a power below the smallest normal number


def attend(
    q: Array,
    k: Array,
    v: Array,
    n: int,
    d: int,
    dtype: str,
    part: Part = ALL_ROWS,
    magnitudes: bool = False,
    *,
    causal: bool,
) -> Array:
    """Return the rows ``part`` of o; for ``magnitudes`` their largest errors, in roundoffs of float32."""
    rows, scale = np.arange(len(q))[part], 1 / sqrt(d)
    result = np.empty((len(rows), d))
    heads = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows // n)) + 1)
    for chosen in (piece for own in heads for piece in np.array_split(own, -(-len(own) // AT_ONCE))):
        queries, first = q[rows[chosen]].astype(np.float64) * scale, rows[chosen[0]] // n * n
        last = rows[chosen] - first if causal else np.full(len(chosen), n - 1)
        keys, values = (array[first : first + last.max() + 1].astype(np.float64) for array in (k, v))
        if magnitudes:
            result[chosen] = _errors(queries, keys, values, last, dtype)
            continue
        weights = queries @ keys.T
        starts = range(0, len(weights), WEIGHED_AT_ONCE)
        ww.for_each(_weigh, [(weights[i : i + WEIGHED_AT_ONCE], last[i : i + WEIGHED_AT_ONCE]) for i in starts])
        result[chosen] = weights @ values
    return result


def _weigh(rows: tuple[Array, Array]) -> None:
    """Make scores of rows weights. ``rows``: the scores, and the last key that each row attends to."""
    scores, last = rows
    scores[np.arange(scores.shape[1]) > last[:, None]] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)


def _errors(queries: Array, keys: Array, values: Array, last: Array, dtype: str) -> Array:
    """Return the largest errors of rows that attend to the keys up to ``last``, in roundoffs of float32.

    A row is a mean of values, whose magnitudes are at most the largest. A score has the error of a sum of d products,
    and of two products more, and so have its power and the sum of powers. Both sums have a term a key. What was summed
    is scaled to another maximum at most 20 times, each time by a power, a product and an addition. Tensor cores
    multiply powers that are rounded to the type; in float16 those below 2^-14 have an absolute error.
    """
    most_key, most_value = (np.maximum.accumulate(np.abs(array), axis=0)[last] for array in (keys, values))
    products, terms = (np.abs(queries) * most_key).sum(axis=1, keepdims=True), last[:, None] + 1
    sums = 2 * (keys.shape[1] + 3) * products + 2 * np.minimum(terms, 4 * np.sqrt(terms)) + 120
    allowed: Array = most_value * (HALF_ROUNDINGS[dtype] + SUBNORMAL[dtype] * terms + sums)
    return allowed


def variant(
    name: str, note: str, *, block: int, threads: int, causal: bool, warp_rows: int = 0, **more: Any
) -> ww.Variant:
    """Make a variant whose blocks compute so many rows of o each."""
    own = {"WARP_ROWS": warp_rows} if warp_rows else {}
    return ww.kernel(
        name,
        note,
        configurations=((block,),),
        threads=lambda: (threads, 1),
        grid=lambda heads, n, block: heads * ww.blocks(n, block[0])[0],
        source=f"{name}.cu",
        entry=lambda d: f"attention_{name}_{d}",
        arguments="q k v o n",
        macros=lambda dtype: {"CAUSAL": int(causal), "KEYS": KEYS, "PTX_TYPE": ptx_type(dtype), **own},
        fixed_blocks=True,
        **more,
    )


def shared_bytes(d: int, block: Block) -> int:
    return (block[0] + 2 * 2 * KEYS) * d * BYTES


def variants(causal: bool) -> tuple[ww.Variant, ...]:
    """Make the variants of a family: calls of PyTorch, then the ladder."""
    kernel = functools.partial(variant, causal=causal)
    flash, cudnn = PREPARE[causal]
    return (
        ww.call("flash", "PyTorch's flash attention", prepare=flash, needs="torch", benchmarks=BOTH),
        ww.call(
            "cudnn",
            "cuDNN's attention, by PyTorch",
            prepare=cudnn,
            needs="torch",
            valid=lambda n: n >= CUDNN_LEAST,
            benchmarks=BENCHMARKS,
        ),
        kernel("naive", "a warp a row, one key at a time", block=8, threads=8 * 32),
        kernel("tiled", "tiles of scores in shared memory, maximum and sum as they come", block=32, threads=256),
        kernel(
            "mma",
            "tensor cores by warps, scores and weights in registers, asynchronous copies",
            block=128,
            threads=128 // WARP_ROWS * 32,
            warp_rows=WARP_ROWS,
            needs="sm_90",  # for its shared memory
            shared_bytes=shared_bytes,
            benchmarks=BOTH,
        ),
    )


def family(name: str, *, causal: bool) -> ww.Family:
    """Declare attention, causal or not."""

    def reference(
        q: Array, k: Array, v: Array, n: int, d: int, dtype: str, part: Part = ALL_ROWS, magnitudes: bool = False
    ) -> Array:
        return attend(q, k, v, n, d, dtype, part, magnitudes, causal=causal)

    def work(heads: int, n: int, d: int) -> ww.Work:
        pairs = n * (n + 1) // 2 if causal else n * n
        return ww.Work(4 * heads * pairs * d, 4 * heads * n * d * BYTES)

    return ww.Family(
        name,
        sizes=("heads", "n", "d"),
        dtypes=HALVES,
        arrays=lambda heads, n, d: {
            **{each: ww.In((heads * n, d)) for each in "qkv"},
            "o": ww.Out((heads * n, d)),
        },
        valid=lambda d: d in WIDTHS,
        reference=reference,
        tolerance=ww.dot_error(1, sums="float32"),
        work=work,
        serial_seconds=lambda heads, n, d: heads * n * n * d / 1.0e9,
        tests=((2, 33, 64), (3, 1, 128), (3, 130, 64), (1, 150, 128)),
        benchmarks=LOW,
        reference_case=lambda heads, n, d, dtype: f"{name}-flash-vendor-{heads}x{n}x{d}-{dtype}",
        ladder_shapes=dict.fromkeys(HALVES, HIGH[:1]),
        reached_shapes=BENCHMARKS,
        variants=variants(causal),
    )


ATTENTION, ATTENTION_CAUSAL = family("attention", causal=False), family("attention_causal", causal=True)
