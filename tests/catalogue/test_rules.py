"""Tests of the rules for allowed errors, on results whose errors are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.by_name import BadFunction
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.tolerance import Result, Rule, dot_share

RIGHT = np.array([[1.0, -4.0], [0.0, 1000.0]])
LEAST_FLOAT16 = 2.0**-24  # its smallest positive number
INTEGERS = ("int32", "uint8", "bool")


def bound(rule: Rule, dtype: str = "float32", reference: Array = RIGHT, plain: Array | None = None) -> Array:
    """Return what a rule allows to a result, for sums of products whose magnitudes add up to 2."""

    def computed(function: Callable[..., Any]) -> Array:
        assert function() == "plain"
        assert plain is not None
        return plain

    given = {"m": 3, "n": 100, "shape": (3, 100), "sizes": {"m": 3, "n": 100}}
    magnitudes = np.full(RIGHT.shape, 2.0)
    result = Result(
        dtype=numpy_type(dtype), reference=reference, given=given, magnitudes=lambda: magnitudes, plain=computed
    )
    return np.broadcast_to(rule.bound(result), reference.shape)


def test_exact_allows_nothing() -> None:
    assert (bound(ww.exact) == 0).all()


def test_relative_allows_a_share_of_each_value_and_an_absolute_error() -> None:
    assert np.allclose(bound(ww.relative(1e-3)), [[1e-3, 4e-3], [0.0, 1.0]], rtol=1e-15)
    assert np.allclose(bound(ww.relative(1e-3, absolute=0.5)), [[0.501, 0.504], [0.5, 1.5]], rtol=1e-15)
    assert np.allclose(bound(ww.relative(0.5), "complex64", np.array([3 + 4j])), [2.5])


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 23), ("float16", 10), ("bfloat16", 7), ("float64", 52)])
def test_ulp_allows_units_in_the_last_place_of_each_value(dtype: str, digits: int) -> None:
    unit = 2.0**-digits
    allowed = bound(ww.ulp(1.5), dtype)
    assert allowed[0].tolist() == [1.5 * unit, 6 * unit]
    assert allowed[1, 1] == 1.5 * 512 * unit
    assert 0 < allowed[1, 0] < 1e-4 * unit, "the smallest normal number's unit"


def test_dot_error_takes_sizes_numbers_and_functions_of_sizes_for_the_length() -> None:
    share = dot_share(100, np.dtype("float32"))
    assert share == 40 * 2.0**-24
    assert (bound(ww.dot_error("n")) == 2 * share).all()
    assert (bound(ww.dot_error(100)) == 2 * share).all()
    assert (bound(ww.dot_error(lambda n: n)) == 2 * share).all()
    assert (bound(ww.dot_error("m", 4)) == 2 * dot_share(12, np.dtype("float32"))).all()
    with pytest.raises(BadFunction, match="dot_error names 'k', which is not a size; there are m, n"):
        bound(ww.dot_error("k"))


def test_sums_in_a_wider_type_are_rounded_once_more() -> None:
    plain = bound(ww.dot_error("n"), "float16")
    wide = bound(ww.dot_error("n", sums="float32"), "float16")
    sums, rounding = 2 * dot_share(100, np.dtype("float32")), 2.0**-11 * np.abs(RIGHT) + LEAST_FLOAT16 / 2
    assert np.allclose(wide, sums + rounding, rtol=1e-15)
    assert wide[0, 0] < plain[0, 0] / 10
    same = bound(ww.dot_error("n", sums="float16"), "float16")
    assert (same == plain).all()


def test_sums_in_float32_of_half_numbers_stay_within_the_bound_and_use_some_of_it() -> None:
    """A kernel adds float16 products in float32 and rounds the sum to float16."""
    rng, length = np.random.default_rng(1), 256
    a, b = (rng.uniform(-1, 1, (2000, length)).astype(np.float16) for _ in "ab")
    total = np.zeros(2000, np.float32)
    for i in range(length):
        total += a[:, i].astype(np.float32) * b[:, i].astype(np.float32)
    right = np.einsum("ij,ij->i", a.astype(np.float64), b.astype(np.float64))
    magnitudes = np.einsum("ij,ij->i", np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    result = Result(
        dtype=np.dtype("float16"),
        reference=right,
        given={"n": length, "sizes": {"n": length}},
        magnitudes=lambda: magnitudes,
        plain=lambda function: right,
    )
    allowed = ww.dot_error("n", sums="float32").bound(result)
    share = np.abs(total.astype(np.float16).astype(np.float64) - right) / allowed
    assert 0.5 < share.max() <= 1
    assert (np.abs(right * 2.0**-9) > allowed).mean() > 0.5, "a result with two digits less is wrong"


def test_error_of_allows_a_multiple_of_the_largest_error_of_a_plain_implementation() -> None:
    off = RIGHT + np.array([[0.0, 0.25], [-0.5, 0.0]])
    allowed = bound(ww.error_of(lambda: "plain", times=3), plain=off.astype(np.float32))
    assert np.allclose(allowed, 1.5 + 2.0**-24 * np.abs(RIGHT), rtol=1e-15)
    exact = bound(ww.error_of(lambda: "plain"), plain=RIGHT.astype(np.float32))
    assert np.allclose(exact, 2.0**-24 * np.abs(RIGHT), rtol=1e-15)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("rule", [ww.relative(0.5, 1), ww.ulp(4), ww.dot_error("n")])
def test_no_rule_allows_an_error_to_whole_numbers(rule: Rule, dtype: str) -> None:
    assert (bound(rule, dtype, np.ones((2, 2), dtype)) == 0).all()


def test_complex_sums_are_allowed_no_less_than_real_ones() -> None:
    for wide, narrow in (("complex64", "float32"), ("complex128", "float64")):
        assert (bound(ww.dot_error("n"), wide) >= bound(ww.dot_error("n"), narrow)).all()
