"""Tests what references may return and ask for: several results, rows of one, magnitudes, scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from tests.catalogue.changed import own_case, own_family
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.elements import numpy_type
from warpwatch.catalogue.expected import Expected, expected
from warpwatch.catalogue.named_arguments import takes
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.tolerance import dot_share

X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5


def case(reference: Callable[..., Any], several: bool = True, dtype: str = "float32", **fields: Any) -> Case:
    """Make a case with an input x of m x n, and the results ``sums`` and, where there are several, ``largest``."""
    results = {"sums": ww.Out(4, "float32")} | ({"largest": ww.Out(1, "float32")} if several else {})
    fields |= {"sizes": ("m", "n"), "reference": reference, "tests": ((4, 3),)}
    return own_case(own_family(lambda m, n: {"x": ww.In((m, n), dtype), **results}, **fields))


def sums(reference: Callable[..., Any], x: Array = X, *, exact: bool = False, **fields: Any) -> Expected:
    return expected(case(reference, several=False, **fields), {"x": x}, exact=exact)["sums"]


def both(x: Array) -> tuple[Array, Array]:
    return x.sum(axis=1), x.max().reshape(1)


@pytest.mark.parametrize(
    "reference",
    [
        both,
        lambda x: list(both(x)),
        lambda x: dict(zip(("sums", "largest"), both(x), strict=True)),
        lambda x: dict(zip(("largest", "sums"), both(x)[::-1], strict=True)),
    ],
)
def test_several_results_are_a_tuple_in_order_or_a_mapping(reference: Callable[..., Any]) -> None:
    made = expected(case(reference), {"x": X})
    assert list(made) == ["sums", "largest"]
    assert made["sums"].reference.tolist() == X.sum(axis=1).tolist()
    assert made["largest"].reference.tolist() == [6.0]


def counts(reference: Callable[..., Any], dtype: str) -> Expected:
    arrays = {"x": ww.In(3, "int32"), "y": ww.Out(3, dtype)}
    family = own_family(lambda n: arrays, reference=reference, exact=True, tests=((3,),))
    return expected(own_case(family), {"x": np.arange(3, dtype=np.int32)})["y"]


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint8", "uint64"])
def test_integers_of_another_type_become_those_of_the_result(dtype: str) -> None:
    made = counts(lambda x: x.astype(np.int64), dtype).reference
    assert (made.dtype, made.tolist()) == (numpy_type(dtype), [0, 1, 2])


@pytest.mark.parametrize(
    ("value", "dtype", "kept"), [(2**40, "int32", "int64"), (-1, "uint64", "int64"), (0.5, "int32", "float64")]
)
def test_numbers_that_the_result_cannot_hold_stay_what_they_are(value: float, dtype: str, kept: str) -> None:
    made = counts(lambda x: np.full(3, value), dtype).reference
    assert (made.dtype.name, made.tolist()) == (kept, [value] * 3)


class Same(np.ndarray):
    """Array that does not differ from any other."""

    def __sub__(self, other: object) -> Any:
        return np.zeros(self.shape)

    __rsub__ = __sub__


def test_the_type_of_an_array_does_not_decide_what_it_equals() -> None:
    for type_of in (Same, np.ma.MaskedArray):
        right = sums(lambda x, own=type_of: x.sum(axis=1).view(own)).reference
        assert type(right) is np.ndarray
        assert (right - 1).tolist() == (X.sum(axis=1) - 1).tolist()


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (lambda x: x.sum(axis=1), "the reference returns 1 value; the results are sums, largest"),
        (lambda x: (x, x, x), "the reference returns 3 values; the results are sums, largest"),
        (lambda x: (), "the reference returns 0 values; the results are sums, largest"),
        (lambda x: {"sums": x}, "the reference returns sums; the results are sums, largest"),
        (lambda x: {"sums": x, "least": x}, "the reference returns sums, least; the results are sums, largest"),
        (lambda x: {}, "the reference returns nothing; the results are sums, largest"),
    ],
)
def test_results_that_are_missing_or_too_many_are_refused(reference: Callable[..., Any], said: str) -> None:
    with pytest.raises(BadCase) as caught:
        expected(case(reference), {"x": X})
    assert str(caught.value) == f"own-new-32-4x3-float32: {said}"


def test_each_result_has_a_rule_of_its_own_and_is_equal_to_the_bit_without_one() -> None:
    made = expected(case(both, tolerance={"sums": ww.relative(0.5)}), {"x": X})
    assert np.asarray(made["sums"].bound).tolist() == (np.abs(X.sum(axis=1)) / 2).tolist()
    assert made["largest"].bound == 0
    by_type = case(both, tolerance=lambda dtype: ww.relative(0.25) if dtype == "float32" else ww.exact)
    assert np.asarray(expected(by_type, {"x": X})["largest"].bound).tolist() == [1.5]


def test_some_rows_are_computed_alone_where_the_reference_can() -> None:
    rows, asked = np.array([3, 1]), []

    def in_part(x: Array, part: Any) -> Any:
        asked.append(part)
        return x[part].sum(axis=1)

    can = case(in_part, several=False, tolerance=ww.relative(1.0))
    made = expected(can, {"x": X}, rows)["sums"]
    assert made.reference.tolist() == X.sum(axis=1)[rows].tolist()
    assert np.asarray(made.bound).shape == (2,)
    assert all(part is rows for part in asked)
    assert takes(can.family.reference, "part")
    cannot = case(lambda x: x.sum(axis=1), several=False)
    assert expected(cannot, {"x": X}, rows)["sums"].reference.tolist() == X.sum(axis=1)[rows].tolist()
    assert not takes(cannot.family.reference, "part")


def test_the_bound_of_products_is_asked_for_by_magnitudes_of_inputs_or_of_products() -> None:
    def told(x: Array, magnitudes: bool = False) -> Array:
        assert (x < 0).any(), "the inputs are as they were drawn"
        return np.full(4, 100.0) if magnitudes else x.sum(axis=1)

    share = dot_share(3, np.dtype("float32"))
    plain = sums(lambda x: x.sum(axis=1), tolerance=ww.dot_error("n"))
    assert np.allclose(plain.bound, share * np.abs(X).sum(axis=1), rtol=1e-15)
    made = sums(told, tolerance=ww.dot_error("n"))
    assert np.allclose(made.bound, share * 100, rtol=1e-15)
    assert made.reference.tolist() == X.sum(axis=1).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8"])
def test_bounds_of_products_take_magnitudes_of_signed_types_and_of_scalars(dtype: str) -> None:
    values = np.array([[-128, 1, 127]] * 4).astype(numpy_type(dtype))
    fields: dict[str, Any] = {"scalars": {"a": ww.Scalar(-2.0, "float32")}, "tolerance": ww.dot_error("n")}
    made = sums(lambda x, a: a * x.astype(np.float64).sum(axis=1), values, dtype=dtype, **fields)
    assert np.allclose(made.bound, dot_share(3, np.dtype("float32")) * 512, rtol=1e-15)


def test_no_bound_is_computed_where_results_must_be_equal() -> None:
    def reference(x: Array, magnitudes: bool = False) -> Array:
        assert not magnitudes
        return np.asarray(x.sum(axis=1))

    assert sums(reference, exact=True, tolerance=ww.dot_error("n")).bound == 0.0


def test_a_plain_implementation_is_asked_like_the_reference() -> None:
    def plain(x: Array, n: int) -> Any:
        return (x.sum(axis=1) + n / 2).astype(np.float32)

    made = sums(lambda x: x.sum(axis=1), tolerance=ww.error_of(plain))
    assert np.allclose(made.bound, 3.0 + 2.0**-24 * np.abs(X.sum(axis=1, dtype=np.float64)), rtol=1e-12)


def test_sizes_types_and_scalars_are_asked_for_by_name_as_the_kernel_gets_them() -> None:
    def reference(x: Array, m: int, a: float, k: int, dtype: str, sizes: Mapping[str, int]) -> Array:
        assert (dtype, sizes) == ("float32", {"m": 4, "n": 3})
        return np.full(m, a * k)

    made = sums(reference, scalars={"a": ww.Scalar(0.1), "k": ww.Scalar(3, "int32")})
    assert made.reference.tolist() == [3 * float(np.float32(0.1))] * 4


def test_a_reference_may_change_what_it_is_given() -> None:
    def doubled(x: Array) -> Any:
        x *= 2
        return x.sum(axis=1)

    given = X.copy()
    assert sums(doubled, given).reference.tolist() == (2 * X).sum(1).tolist()
    assert given.tolist() == X.tolist()
