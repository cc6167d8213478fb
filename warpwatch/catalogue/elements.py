"""Names the types of an array's elements, and what NumPy, ml_dtypes and CUDA C++ call them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

NONE = "none"  # the type in the id of a case that has no arrays
# Kernels are given their type as the macro ``scalar_t`` (``Build.own_macros`` in cases.py).
C_TYPES: Mapping[str, str] = {
    "float32": "float",
    "float64": "double",
    # Overflow of a signed int is undefined in C++. An unsigned int wraps modulo 2^32 and has the same bits.
    "int32": "unsigned",
    "int64": "unsigned long long",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
    "int8": "signed char",
    "int16": "short",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "unsigned long long",
    "bool": "bool",
    "complex64": "float2",
    "complex128": "double2",
    NONE: "void",
}
WORD = 4  # bytes of the word that memory can be filled with
EXTENSIONS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # types of the package ml_dtypes


@functools.cache
def numpy_type(name: str) -> np.dtype[Any]:
    """Return NumPy's type of that name, from ml_dtypes where NumPy has none."""
    if name not in EXTENSIONS:
        return np.dtype(name)
    import ml_dtypes  # noqa: PLC0415  # takes 20 ms, and few declarations need it

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def itemsize(name: str) -> int:
    """Return the bytes of an element; 0 where a case has no arrays."""
    return 0 if name == NONE else numpy_type(name).itemsize


def word_of(value: float | bool, dtype: str) -> int | None:
    """Return the word of 4 bytes that memory is filled with so that each element has a value; None where none does."""
    with np.errstate(all="ignore"):
        element = np.array([value]).astype(numpy_type(dtype))
    if element.dtype.kind in "iub" and element[0] != value:
        return None
    content = np.resize(element.view(np.uint8), max(WORD, element.nbytes))
    word = content[:WORD]
    return int(word.view(np.uint32)[0]) if np.array_equal(content, np.resize(word, content.size)) else None


def no_word(value: object, dtype: str) -> str:
    """Say that memory cannot be filled with a value, and what helps."""
    return (
        f"has the initial value {value!r}, which {dtype} repeats in no 4 bytes: "
        "declare it InOut, and let `draw` give its first values"
    )


def is_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether results in this type are rounded: real or complex numbers, in NumPy's types or ml_dtypes'."""
    return dtype.kind in "fc" or dtype.name in EXTENSIONS


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which values of a rounded type are compared: float64 or complex128."""
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def unit_roundoff(dtype: np.dtype[Any]) -> float:
    """Return the largest relative error of one rounding to a type."""
    return float(_about(dtype).eps) / 2


def _about(dtype: np.dtype[Any]) -> Any:
    """Return NumPy's or ml_dtypes' description of a floating-point type; of the parts' type for complex numbers."""
    if dtype.name not in EXTENSIONS:
        return np.finfo(dtype)
    import ml_dtypes  # noqa: PLC0415

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def greatest(dtype: np.dtype[Any]) -> float:
    """Return the greatest finite number of a floating-point type."""
    return float(_about(dtype).max)


def smallest_normal(dtype: np.dtype[Any]) -> float:
    """Return the smallest positive number of a floating-point type that is not subnormal."""
    return float(_about(dtype).smallest_normal)


def rounding_error(
    values: np.ndarray[Any, np.dtype[Any]], dtype: np.dtype[Any]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the largest error of rounding each value to a type, also where the type's numbers are subnormal.

    It is u |x| + s / 2, with the unit roundoff u and the smallest positive number s (Higham, Accuracy and Stability of
    Numerical Algorithms, 2.8). Without s, float16 would allow too little below 6e-5.
    """
    smallest = float(_about(dtype).smallest_subnormal)
    error: np.ndarray[Any, np.dtype[np.float64]] = unit_roundoff(dtype) * np.abs(values).astype(np.float64)
    return error + smallest / 2
