"""Computes the largest error that is allowed to a result, by theory or by a rule that a family chooses.

A family chooses a rule for all its results, or one for each by name. Without a rule, results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.elements import is_float, numpy_type, rounding_error, smallest_normal, unit_roundoff, wide
from warpwatch.catalogue.named_arguments import BadFunction, call
from warpwatch.catalogue.threads import for_each

Length = str | int | Callable[..., int]
CONVERTED_AT_ONCE = 2**18  # elements of a matrix that are converted to float64 at a time, by a thread: 2 MB


@dataclass(frozen=True, kw_only=True)
class Result:
    """A result whose allowed error is asked for.

    ``reference``: its right value. ``given``: what functions of the declaration may take by name. ``magnitudes``:
    computes the reference of the magnitudes of all inputs. ``plain``: computes this result by another function.
    ``ordinary``: of uniform random inputs, whose rounding errors are independent.
    """

    dtype: np.dtype[Any]
    reference: Array
    given: Mapping[str, Any]
    magnitudes: Callable[[], Array]
    plain: Callable[[Callable[..., Any]], Array]
    ordinary: bool = True


@dataclass(frozen=True)
class Exact:
    """Rule that results are equal to the bit."""

    def bound(self, result: Result) -> Array | float:
        return 0.0


@dataclass(frozen=True)
class Relative:
    """Rule that allows errors of a share of the right value, and an absolute error besides."""

    share: float
    absolute: float = 0.0

    def __str__(self) -> str:
        return f"relative({self.share:g}{f', absolute={self.absolute:g}' if self.absolute else ''})"

    def bound(self, result: Result) -> Array | float:
        if not is_float(result.dtype):
            return 0.0
        with np.errstate(invalid="ignore"):  # of an infinite share, which a rule of the declaration refuses
            return self.share * np.abs(result.reference).astype(np.float64) + self.absolute


@dataclass(frozen=True)
class Ulp:
    """Rule that allows errors of so many units in the last place of the right value."""

    units: float

    def __str__(self) -> str:
        return f"ulp({self.units:g})"

    def bound(self, result: Result) -> Array | float:
        if not is_float(result.dtype):
            return 0.0
        magnitude = np.maximum(np.abs(result.reference).astype(np.float64), smallest_normal(result.dtype))
        return self.units * np.exp2(np.floor(np.log2(magnitude))) * (2 * unit_roundoff(result.dtype))


@dataclass(frozen=True)
class DotError:
    """Rule that errors are within the bound of theory for sums of so many products (``dot_share``).

    ``lengths``: names of sizes, numbers or functions of the sizes; their product is the number of products. ``sums``:
    the type in which the sums are computed, where it is not the result's; the result is then rounded once more.
    """

    lengths: tuple[Length, ...]
    sums: str = ""

    def bound(self, result: Result) -> Array | float:
        length = prod(_length(each, result.given) for each in self.lengths)
        sums = numpy_type(self.sums) if self.sums else result.dtype
        share = dot_share(length, sums, result.ordinary) if is_float(result.dtype) else 0.0
        if not share:
            return 0.0
        error = share * result.magnitudes()
        return error if sums == result.dtype else error + rounding_error(result.reference, result.dtype)


def _length(given: Length, sizes: Mapping[str, Any]) -> int:
    if isinstance(given, str) and given not in sizes:
        raise BadFunction(f"dot_error names {given!r}, which is not a size; there are {', '.join(sizes['sizes'])}")
    if isinstance(given, str):
        return int(sizes[given])
    return int(call(given, sizes)) if callable(given) else given


@dataclass(frozen=True)
class ErrorOf:
    """Rule that allows ``times`` the largest error of a plain implementation in NumPy, and one rounding.

    The plain implementation takes by name what the reference takes, and computes in the type that kernels use. This is
    how flash-attention's tests choose their tolerance (Dao-AILab/flash-attention, tests/test_flash_attn.py).
    """

    plain: Callable[..., Any]
    times: float = 2.0

    def __str__(self) -> str:
        return f"error_of(..., times={self.times:g})"

    def bound(self, result: Result) -> Array | float:
        got, exact = result.plain(self.plain).astype(wide(result.dtype)), result.reference
        largest = float(np.max(np.abs(got - exact), initial=0.0))
        return self.times * largest + rounding_error(exact, result.dtype)


Rule = Exact | Relative | Ulp | DotError | ErrorOf
exact = Exact()
relative = Relative
ulp = Ulp
error_of = ErrorOf


def dot_error(*lengths: Length, sums: str = "") -> DotError:
    """Allow the error of sums of products of the inputs, in any order: ``dot_error("n")`` for n products.

    ``sums``: the type in which the sums are taken, where it is not the result's.
    """
    return DotError(lengths, sums)


def dot_share(length: int, dtype: np.dtype[Any], independent: bool = True) -> float:
    """Return the largest error of a sum of ``length`` products, as a share of the sum of their magnitudes.

    Any order of summation stays within length * u (Higham, Accuracy and Stability of Numerical
    Algorithms, 3.1); independent rounding errors stay within a few sqrt(length) * u (Ipsen and Zhou, arXiv
    1906.10465; 1.01 * sqrt(length) was the largest of 200,000 float32 chains of 1,024 products). The result is the
    smaller of the two, with 4 for "a few". For float64 it is doubled, because the reference is float64 too and its
    error is as large. Integers are exact. ``independent``: without it errors are not taken for independent: those of
    equal terms all have one sign.
    """
    if not is_float(dtype):
        return 0.0
    roundings = min(length, 4 * sqrt(length)) if independent else length
    return roundings * unit_roundoff(dtype) * (2 if dtype in (np.float64, np.complex128) else 1)


def product(a: Array, b: Array, magnitudes: bool = False) -> Array:
    """Return a @ b: in float64 for floats, exact modulo 2^32 for int32.

    ``magnitudes``: use the magnitudes of the elements of both, which are floats.
    """
    if not is_float(a.dtype):
        return _wrapping_product(a, b)
    right = np.abs(b.astype(np.float64)) if magnitudes else b.astype(np.float64)
    if b.ndim == 1:
        return _by_rows(a, right, magnitudes)
    left = np.abs(a) if magnitudes else a
    return left.astype(np.float64) @ right


def _by_rows(a: Array, right: Array, magnitudes: bool) -> Array:
    """Return the product of a matrix and a vector: to convert all of a takes longer than the product itself.

    The pieces depend on the shape alone, so that the number of cores changes nothing.
    """
    result = np.empty(len(a))
    rows = max(1, CONVERTED_AT_ONCE // max(1, a.shape[1]))

    def compute(row: int) -> None:
        piece = a[row : row + rows].astype(np.float64)
        np.matmul(np.abs(piece, out=piece) if magnitudes else piece, right, out=result[row : row + rows])

    for_each(compute, range(0, len(a), rows))
    return result


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
