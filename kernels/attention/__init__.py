"""Attention, forward: o = softmax(q k^T / sqrt(d)) v for each head, with q, k, v and o of n rows of d elements a head.

Two families: of a causal one, a row attends to no row behind it.
"""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from typing import Any

import numpy as np

import warpwatch as ww
from kernels.attention.pytorch import prepare_causal_cudnn, prepare_causal_flash, prepare_cudnn, prepare_flash
from kernels.matmul_half import BYTES, HALVES, ptx_type
from warpwatch import ALL_ROWS, Array, Block, Part

WIDTHS = (64, 128)  # of a head
LOW, HIGH = ((16, 1024, 128),), ((16, 8192, 128), (16, 8192, 64))
KEYS = 64  # rows of k and v that a block of tiled.cu and mma.cu has at a time
AT_ONCE = 256  # rows of which the reference holds the scores
HALF_ROUNDINGS = {"float16": 2**13, "bfloat16": 2**16}  # roundoffs of float32 in one of the type
SUBNORMAL = {"float16": 2.0**-25, "bfloat16": 0.0}  # the largest error of what is below the smallest normal number


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
    rows = np.arange(len(q))[part]
    result = np.empty((len(rows), d))

    def compute(chosen: Array) -> None:
        head = rows[chosen[0]] // n
        own = slice(head * n, head * n + (int(rows[chosen].max()) % n + 1 if causal else n))
        keys, values = (array[own].astype(np.float64) for array in (k, v))
        queries = q[rows[chosen]].astype(np.float64) / sqrt(d)
        scores = queries @ keys.T
        hidden = np.arange(len(keys)) > rows[chosen, None] % n if causal else np.zeros(scores.shape, bool)
        scores[hidden] = -np.inf
        scores -= scores.max(axis=1, keepdims=True)
        powers = np.exp(scores)
        total = powers.sum(axis=1, keepdims=True)
        if not magnitudes:
            result[chosen] = powers @ values / total
            return
        terms = np.abs(queries) @ np.abs(keys).T
        terms[hidden] = 0
        values = np.abs(values)
        rounded = powers @ values * (HALF_ROUNDINGS[dtype] + roundings(n, d, terms.max(axis=1, keepdims=True)))
        result[chosen] = (rounded + (~hidden @ values) * (SUBNORMAL[dtype] * 2**24)) / total

    heads_rows = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows // n)) + 1)
    with ThreadPoolExecutor() as pool:
        for own in heads_rows:
            list(pool.map(compute, np.array_split(own, -(-len(own) // AT_ONCE))))
    return result


def roundings(n: int, d: int, terms: Array) -> Array:
    """Return how many roundoffs of float32 a weighted sum has lost, as a share of the sum of its terms' magnitudes.

    ``terms``: the largest sum of the magnitudes of a score's products. A score has the error of a sum of d products,
    and of two products more; a power has its score's, and so has the sum of powers. Both sums have n terms. What was
    summed is scaled to another maximum at most 20 times, each time by a power, a product and an addition.
    """
    return 2 * (d + 3) * terms + 2 * min(n, 4 * sqrt(n)) + 120


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
        grid=lambda heads, n, block: ww.blocks((n, heads), (block[0], 1)),
        source=f"{name}.cu",
        entry=lambda d: f"attention_{name}_{d}{'_causal' * causal}",
        arguments="q k v o heads n",
        macros=lambda dtype: {"KEYS": KEYS, "PTX_TYPE": ptx_type(dtype), **own},
        fixed_blocks=True,
        **more,
    )


def shared_bytes(d: int, block: Block) -> int:
    return (block[0] + 2 * KEYS) * d * BYTES


def family(name: str, *, causal: bool) -> ww.Family:
    """Declare attention, causal or not."""

    def reference(
        q: Array, k: Array, v: Array, n: int, d: int, dtype: str, part: Part = ALL_ROWS, magnitudes: bool = False
    ) -> Array:
        return attend(q, k, v, n, d, dtype, part, magnitudes, causal=causal)

    def work(heads: int, n: int, d: int) -> ww.Work:
        pairs = n * (n + 1) // 2 if causal else n * n
        return ww.Work(4 * heads * pairs * d, 4 * heads * n * d * BYTES)

    kernel = functools.partial(variant, causal=causal)
    return ww.Family(
        name,
        sizes=("heads", "n", "d"),
        dtypes=HALVES,
        arrays=lambda heads, n, d: {
            **{name: ww.In((heads * n, d)) for name in "qkv"},
            "o": ww.Out((heads * n, d)),
        },
        valid=lambda d: d in WIDTHS,
        reference=reference,
        tolerance=ww.dot_error(1, sums="float32"),
        work=work,
        tests=((2, 33, 64), (1, 257, 128), (3, 130, 64), (1, 1, 128)),
        benchmarks=LOW,
        reference_case=lambda heads, n, d, dtype: f"{name}-flash-vendor-{heads}x{n}x{d}-{dtype}",
        ladder_shapes=dict.fromkeys(HALVES, HIGH[:1]),
        reached_shapes=dict.fromkeys(HALVES, HIGH),
        variants=(
            ww.call(
                "flash",
                "PyTorch's flash attention",
                prepare=prepare_causal_flash if causal else prepare_flash,
                needs="torch",
                benchmarks=(*LOW, *HIGH),
            ),
            ww.call(
                "cudnn",
                "cuDNN's attention, by PyTorch",
                prepare=prepare_causal_cudnn if causal else prepare_cudnn,
                needs="torch",
                benchmarks=HIGH,
            ),
            kernel("naive", "a warp a row, one key at a time", block=8, threads=8 * 32),
            kernel("tiled", "tiles of scores in shared memory, maximum and sum as they come", block=32, threads=256),
            kernel(
                "mma",
                "tensor cores by warps, scores and weights in registers, asynchronous copies",
                block=128,
                threads=128 // 16 * 32,
                warp_rows=16,
                needs="sm_90",  # for its shared memory
                shared_bytes=shared_bytes,
                benchmarks=(*LOW, *HIGH),
            ),
        ),
    )


ATTENTION, ATTENTION_CAUSAL = family("attention", causal=False), family("attention_causal", causal=True)
