"""Tests of references and bounds, against plain loops and against arithmetic of too little precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.expected import expected as expected_part
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.catalogue.selection import tested_cases
from warpwatch.catalogue.tolerance import Rule, dot_share, product
from warpwatch.catalogue.validation import problems
from warpwatch.devices.references import expected

LOOPS = [case for case in tested_cases(FAMILIES) if case.variant.name == "naive" and max(case.shape) < 200]


def by_loops(case: Case, inputs: Mapping[str, Array]) -> Array:
    """Compute the definition in Python integers or float64, one element after another."""
    wide = object if case.dtype == "int32" else np.float64
    a, *rest = (array.astype(wide) for array in inputs.values())
    if case.family.name == "copy":
        return np.array([a[i] for i in range(len(a))])
    if case.family.name == "transpose":
        return np.array([[a[j, i] for j in range(a.shape[0])] for i in range(a.shape[1])])
    if case.family.name in ("conv2d", "separable"):
        f, (rows, columns, k) = rest[0] if len(rest) == 1 else np.outer(*rest), case.shape
        cells = [
            [sum(f[p, q] * a[i + p, j + q] for p in range(k) for q in range(k)) for j in range(columns - k + 1)]
            for i in range(rows - k + 1)
        ]
        return np.array(cells)
    return np.array(a.dot(rest[0]))


@pytest.mark.parametrize("case", [case for case in LOOPS if np.prod(case.shape) < 40_000], ids=lambda case: case.id)
def test_a_reference_is_the_definition(case: Case) -> None:
    inputs = exact_inputs(case, 1)
    ((_, right),) = expected(case, inputs).items()
    assert np.array_equal(right.reference, by_loops(case, inputs).astype(np.float64))


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
    given: dict[str, Any] = {"tests": ((1,), (33,)), "x": ww.In, "shape": None} | more
    return ww.Family(
        "own",
        sizes=("n",),
        dtypes=("float32",),
        arrays=lambda n: {"x": given["x"](n), "y": ww.Out(given["shape"] or n)},
        reference=reference,
        tolerance=tolerance,
        tests=given["tests"],
        variants=(ww.kernel("new", configurations=(32,), x=0, y=None),),
    )


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
    assert (problem.field, said in problem.what) == ("tolerance", True), problem


@pytest.mark.parametrize("name", SANE)
def test_a_tolerance_is_not_accused_of_results_that_are_small_or_alike(name: str) -> None:
    assert [problem for problem in problems([SANE[name]]) if problem.field != "source"] == []


def test_errors_of_equal_terms_are_not_taken_for_independent() -> None:
    x, n = np.full(2**16, np.float32(0.1)), 2**16
    error = abs(float(x.cumsum(dtype=np.float32)[-1]) - float(x.sum(dtype=np.float64))) / float(x.sum())
    assert error > dot_share(n, np.dtype(np.float32))
    assert error < dot_share(n, np.dtype(np.float32), independent=False)
