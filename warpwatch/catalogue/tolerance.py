"""Computes the largest error that theory allows a right result, and references that are exact enough for it."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from warpwatch.catalogue.declaration import Array


def dot_error(length: int, dtype: np.dtype[Any]) -> float:
    """Return the largest error of a sum of ``length`` products, as a share of the sum of their magnitudes.

    Any order of summation stays within length * u (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.1); independent rounding errors stay within a few sqrt(length) * u (Ipsen and Zhou, arXiv
    1906.10465; 1.01 * sqrt(length) was the largest of 200,000 float32 chains of 1,024 products). The result is the
    smaller of the two, with 4 for "a few". For float64 it is doubled, because the reference is float64 too and its
    error is as large. Integers are exact.
    """
    if dtype.kind != "f":
        return 0.0
    unit_roundoff = float(np.finfo(dtype).eps) / 2
    return min(length, 4 * sqrt(length)) * unit_roundoff * (2 if dtype == np.float64 else 1)


def product(a: Array, b: Array) -> Array:
    """Return a @ b: in float64 for floats, exact modulo 2^32 for int32."""
    if a.dtype.kind == "f":
        return a.astype(np.float64) @ b.astype(np.float64)
    return _wrapping_product(a, b)


def _wrapping_product(a: Array, b: Array) -> Array:
    """Return the int32 product modulo 2^32, by float64 products of 16-bit halves; NumPy's own is 1000 times slower.

    A half is below 2^16, so two sums of up to 2^20 products stay below 2^53 and float64 holds them exactly.
    """
    if a.shape[-1] > 2**20:
        raise ValueError(f"sums of {a.shape[-1]:,} products of 16-bit halves do not fit in float64")
    halves = [(x.view(np.uint32) & 0xFFFF, x.view(np.uint32) >> 16) for x in (a, b)]
    (a_low, a_high), (b_low, b_high) = [(lo.astype(np.float64), hi.astype(np.float64)) for lo, hi in halves]
    low = (a_low @ b_low).astype(np.uint64)
    middle = ((a_low @ b_high) + (a_high @ b_low)).astype(np.uint64) << np.uint64(16)
    return (low + middle).astype(np.uint32).view(np.int32)
