"""Tests of element types: their names in NumPy and CUDA C++, how they are rounded, and the words that fill them."""

from __future__ import annotations

import numpy as np
import pytest

from warpwatch.catalogue.elements import (
    C_TYPES,
    NONE,
    is_float,
    itemsize,
    numpy_type,
    rounding_error,
    smallest_normal,
    unit_roundoff,
    word_of,
)

TYPES = [name for name in C_TYPES if name != NONE]
ROUNDED = [name for name in TYPES if is_float(numpy_type(name))]
# Digits of the significand, with the one that is not stored (IEEE 754; OCP's 8-bit formats; bfloat16).
DIGITS = {
    "float16": 11,
    "float32": 24,
    "float64": 53,
    "bfloat16": 8,
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
    "complex64": 24,
    "complex128": 53,
}


@pytest.mark.parametrize("name", TYPES)
def test_each_type_is_one_of_numpys_or_of_ml_dtypes(name: str) -> None:
    assert numpy_type(name).name == name
    assert itemsize(name) == numpy_type(name).itemsize > 0
    assert itemsize(NONE) == 0


def test_the_rounded_types_are_those_of_real_and_complex_numbers() -> None:
    assert set(ROUNDED) == set(DIGITS)


@pytest.mark.parametrize("name", ROUNDED)
def test_a_rounding_is_half_a_unit_in_the_last_of_so_many_digits(name: str) -> None:
    assert unit_roundoff(numpy_type(name)) == 2.0 ** -DIGITS[name]


@pytest.mark.parametrize("name", ["float16", "float32", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_no_rounding_is_worse_than_its_bound_and_some_are_as_bad(name: str) -> None:
    """Over all magnitudes, down to where every number is rounded to zero."""
    kind, rng = numpy_type(name), np.random.default_rng(1)
    least = np.log2(smallest_normal(kind) * 2.0 ** (1 - DIGITS[name]))  # of its numbers
    values = np.exp2(rng.uniform(least - 2, 3, 200_000)) * rng.choice([-1, 1], 200_000)
    share = np.abs(values.astype(kind).astype(np.float64) - values) / rounding_error(values, kind)
    assert 0.45 < share.max() <= 1


@pytest.mark.parametrize("name", TYPES)
def test_zero_fills_every_type(name: str) -> None:
    assert word_of(0, name) == 0
    assert word_of(False, name) == 0


@pytest.mark.parametrize(
    ("value", "dtype", "word"),
    [
        (-1, "int32", 0xFFFFFFFF),
        (-1, "int64", 0xFFFFFFFF),
        (1, "int32", 1),
        (1, "int16", 0x00010001),
        (7, "uint8", 0x07070707),
        (True, "bool", 0x01010101),
        (1.0, "float32", 0x3F800000),
        (1.0, "float16", 0x3C003C00),
        (1.0, "bfloat16", 0x3F803F80),
        (1.0, "float8_e4m3fn", 0x38383838),
        (float("-inf"), "float32", 0xFF800000),
        (1, "int64", None),
        (1.0, "float64", None),
        (1.0, "complex64", None),
        (float("-inf"), "float64", None),
        (300, "uint8", None),
        (-1, "uint32", None),
        (0.5, "int32", None),
        (2, "bool", None),
    ],
)
def test_memory_is_filled_with_words_that_repeat_a_value(value: float, dtype: str, word: int | None) -> None:
    assert word_of(value, dtype) == word
    if word is not None:
        filled = np.full(4, word, np.uint32).view(numpy_type(dtype))
        assert (filled == np.array(value).astype(numpy_type(dtype))).all()
