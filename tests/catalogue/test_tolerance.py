"""Tests of references, bounds and rules, against plain loops and against arithmetic of too little precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from tests.catalogue.changed import own_family
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.elements import numpy_type, unit_roundoff
from warpwatch.catalogue.expected import expected as expected_part
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.named_arguments import BadFunction
from warpwatch.catalogue.selection import tested_cases
from warpwatch.catalogue.tolerance import Result, Rule, dot_share, product
from warpwatch.catalogue.validation import problems
from warpwatch.devices.references import expected

LOOPS = [case for case in tested_cases(FAMILIES) if case.variant.name == "naive" and max(case.shape) < 200]


def by_products(image: Array, *factors: Array) -> list[list[Any]]:
    """Compute a convolution with a filter, or with the product of a column and a row."""
    filter_ = factors[0] if len(factors) == 1 else np.outer(*factors)
    k, (rows, columns) = len(filter_), image.shape
    return [
        [sum(filter_[p, q] * image[i + p, j + q] for p in range(k) for q in range(k)) for j in range(columns - k + 1)]
        for i in range(rows - k + 1)
    ]


def by_exponentials(x: Array) -> list[list[float]]:
    powers = [[math.exp(value - max(row)) for value in row] for row in x]
    return [[power / math.fsum(row) for power in row] for row in powers]


def by_moments(x: Array, gamma: Array, beta: Array) -> list[Array]:
    def normalised(row: Array) -> Array:
        mean = math.fsum(row) / len(row)
        variance = math.fsum((value - mean) ** 2 for value in row) / len(row)
        return np.array([(value - mean) / math.sqrt(variance + float(np.float32(1e-5))) for value in row])

    return [normalised(row) * gamma + beta for row in x]


def by_weights(case: Case, q: Array, k: Array, v: Array) -> list[Array]:
    """Compute attention of each row: the mean of the values that it attends to, by the powers of their scores."""
    n, d = case.shape[1:]
    rows = []
    for row in range(len(q)):
        first = row // n * n
        seen = range(first, row + 1 if case.family.name == "attention_causal" else first + n)
        scores = [math.fsum(q[row] * k[key]) / math.sqrt(d) for key in seen]
        weights = [math.exp(score - max(scores)) for score in scores]
        rows.append(sum(weight * v[key] for weight, key in zip(weights, seen, strict=True)) / math.fsum(weights))
    return rows


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "copy": list,
    "transpose": lambda a: [[a[j, i] for j in range(a.shape[0])] for i in range(a.shape[1])],
    "conv2d": by_products,
    "separable": by_products,
    "reduce": lambda x: [sum(x)],
    "scan": lambda x: [sum(x[: i + 1]) for i in range(len(x))],
    "softmax": by_exponentials,
    "layernorm": by_moments,
}


def by_loops(case: Case, inputs: Mapping[str, Array]) -> Array:
    """Compute the definition in Python integers or float64, one element after another."""
    wide = object if case.dtype == "int32" else np.float64
    a, *rest = (array.astype(wide) for array in inputs.values())
    if case.family.name.startswith("attention"):
        return np.array(by_weights(case, a, *rest))
    return np.array(DEFINITIONS.get(case.family.name, np.dot)(a, *rest))


@pytest.mark.parametrize("case", [case for case in LOOPS if np.prod(case.shape) < 40_000], ids=lambda case: case.id)
def test_a_reference_is_the_definition(case: Case) -> None:
    inputs = exact_inputs(case, 1)
    right = expected(case, inputs)[case.results[0].name]
    defined = by_loops(case, inputs).astype(np.float64)
    cancels = 1e-12 if case.family.name.startswith("attention") else 0  # terms of both signs, of magnitude one
    assert np.allclose(right.reference, defined, rtol=0 if case.family.exact else 1e-12, atol=cancels)


@pytest.mark.parametrize(
    "case_id",
    ["matmul-naive-8x8-40x70x30-int32", "conv2d-naive-8x8-20x21x3-int32", "separable-naive-32x8-20x21x3-int32"],
)
def test_int32_wraps_modulo_two_to_the_32(case_id: str) -> None:
    case = find_case(FAMILIES, case_id)
    inputs = random_inputs(case, 2)
    exact = by_loops(case, inputs)
    assert max(map(abs, exact.flat)) > 2**40, "these numbers must overflow, or nothing is shown"
    wrapped = (exact % 2**32).astype(np.uint32).view(np.int32)
    ((_, right),) = expected(case, inputs).items()
    assert np.array_equal(right.reference, wrapped)


def test_sums_too_long_for_the_halves_are_refused() -> None:
    long = np.ones((1, 2**20 + 1), np.int32)
    with pytest.raises(ValueError, match="do not fit in float64"):
        product(long, long.T)


@pytest.mark.parametrize("case", [c for c in LOOPS if c.build.block_xy[0] in (8, 64)], ids=lambda case: case.id)
def test_rows_of_a_reference_are_the_rows_of_the_whole(case: Case) -> None:
    inputs, rows = random_inputs(case, 3), np.array([0, 2, 1])
    ((name, whole),) = expected(case, inputs).items()
    some = expected_part(case, inputs, rows)[name]
    assert np.allclose(some.reference, whole.reference[rows], rtol=1e-12)
    bounds = np.broadcast_to(whole.bound, whole.reference.shape)
    assert np.allclose(some.bound, bounds[rows], rtol=1e-12)
    assert (bounds > 0).all() or not case.work.operations or case.dtype == "int32"


def chain(a: Array, b: Array) -> Array:
    """Compute dot products of the rows, one addition after another in the operands' type: the worst usual order."""
    total = np.zeros(len(a), a.dtype)
    for i in range(a.shape[1]):
        total += a[:, i] * b[:, i]
    return total


@pytest.mark.once
@pytest.mark.parametrize("length", [1, 2, 33, 1000])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_a_chain_of_float32_additions_stays_within_the_bound_and_uses_some_of_it(length: int, low: float) -> None:
    rng = np.random.default_rng(length)
    a, b = (rng.uniform(low, 1, (4000, length)).astype(np.float32) for _ in "ab")
    magnitude = np.einsum("ij,ij->i", np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
    error = np.abs(chain(a, b) - np.einsum("ij,ij->i", a.astype(np.float64), b.astype(np.float64)))
    share = (error / (magnitude * dot_share(length, np.dtype("float32")))).max()
    # Numbers of one sign pile up rounding errors; of both, they cancel, and longer sums use ever less.
    assert 0.05 / np.sqrt(length if low else 1) < share <= 1


def test_half_precision_operands_do_not_pass_for_float32() -> None:
    """The bound must detect operands of 11 bits, as a tensor core in TF32 has them, at short lengths."""
    case = find_case(FAMILIES, "matmul-naive-8x8-64x64x64-float32")
    inputs = random_inputs(case, 5)
    a, b = (array.astype(np.float16).astype(np.float64) for array in inputs.values())
    right = expected(case, inputs)["C"]
    assert (np.abs(a @ b - right.reference) > right.bound).mean() > 0.5


def family(tolerance: Rule, reference: Callable[..., Any], **more: Any) -> ww.Family:
    given: dict[str, Any] = {"tests": ((1,), (33,)), "shape": None} | more
    fields = {"dtypes": ("float32",), "reference": reference, "tolerance": tolerance, "tests": given["tests"]}
    return own_family(lambda n: {"x": ww.In(n), "y": ww.Out(given["shape"] or n)}, **fields)


def twice(x: Array) -> Any:
    return 2 * x.astype(np.float64)


TOO_WIDE = {
    "relative(1e+09) accepts zeros for y": family(ww.relative(1e9), twice),
    "relative(1, absolute=1e+30) accepts zeros": family(ww.relative(1.0, absolute=1e30), twice),
    "relative(1e-06, absolute=2) accepts zeros": family(ww.relative(1e-6, absolute=2), twice),
    "relative(0.6) accepts its input x": family(ww.relative(0.6), twice),
    "relative(0.2) accepts its elements in another order": family(
        ww.relative(0.2), lambda x: 10 + x.astype(np.float64), tests=((5,), (33,))
    ),
    "ulp(1e+08) accepts zeros": family(ww.ulp(1e8), twice),
    "error_of(..., times=1e+09) accepts zeros": family(ww.error_of(lambda x: x * np.float32(2.1), 1e9), twice),
    "gives values that are not errors": family(ww.relative(float("inf")), twice),
}
SANE = {
    "small results": family(ww.relative(1e-6, absolute=1e-6), lambda x: 1e-8 * x.astype(np.float64)),
    "one element": family(ww.relative(0.1), lambda x: 5 + x.sum(keepdims=True, dtype=np.float64), shape=1),
    "alike": family(ww.relative(1e-3), lambda x: np.full(len(x), 7.0)),
    "copied": family(ww.relative(1e-3), lambda x: x.astype(np.float64)),
    "zeros": family(ww.relative(1e-3, absolute=1e-6), lambda x: np.zeros(len(x))),
    "for whole numbers alone": family(
        ww.relative(1e-5), lambda x: np.arange(9.0)[np.abs(x.astype(int))] / (x % 1 == 0).all()
    ),
    "infinite at 0": family(ww.relative(1e-6), lambda x: 1 / x.astype(np.float64), tests=((33,), (100,))),
    "raises past 1": family(ww.relative(1e-5), lambda x: np.array([math.acos(v) for v in x]), tests=((33,), (100,))),
    "not defined past 1": family(
        ww.relative(1e-5), lambda x: np.sqrt(1 - x.astype(np.float64) ** 2), tests=((33,), (100,))
    ),
    "usual": family(ww.relative(1e-5, absolute=1e-6), twice),
}


@pytest.mark.parametrize("said", TOO_WIDE)
def test_a_tolerance_that_accepts_wrong_results_is_a_mistake(said: str) -> None:
    (problem,) = problems([TOO_WIDE[said]])
    assert (problem.field, said in problem.fault) == ("tolerance", True), problem


@pytest.mark.parametrize("name", SANE)
def test_a_tolerance_is_not_accused_of_results_that_are_small_or_alike(name: str) -> None:
    assert [problem for problem in problems([SANE[name]]) if problem.field != "source"] == []


def test_errors_of_equal_terms_are_not_taken_for_independent() -> None:
    x, n = np.full(2**16, np.float32(0.1)), 2**16
    error = abs(float(x.cumsum(dtype=np.float32)[-1]) - float(x.sum(dtype=np.float64))) / float(x.sum())
    assert error > dot_share(n, np.dtype(np.float32))
    assert error < dot_share(n, np.dtype(np.float32), independent=False)


# Rules, on results whose errors are known

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


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_ulp_allows_distances_to_the_next_number(name: str) -> None:
    kind = numpy_type(name)
    values = np.array([1.0, 1.25, 1.75, 2.0, 0.5, -3.0])
    bits = values.astype(kind).view(f"u{kind.itemsize}")
    beyond = (bits + 1).view(kind).astype(np.float64)  # further from zero
    assert np.array_equal(bound(ww.ulp(1.5), name, values), 1.5 * np.abs(beyond - values))
    least = bound(ww.ulp(1), name, np.array([0.0]))
    assert 0 < least[0] < unit_roundoff(kind), "the smallest normal number's unit"


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
