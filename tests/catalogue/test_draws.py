"""Tests of further inputs: what they hold, when they are left out, and that right kernels are not accused by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from kernels.matmul import MATMUL
from tests.catalogue.changed import own_case, own_family
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.draws import SAMPLES, Draw, further_draws, widened
from warpwatch.catalogue.elements import greatest, numpy_type, smallest_normal
from warpwatch.catalogue.expected import expected
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.selection import builds
from warpwatch.devices.mismatch import compare

N = 1000
LARGE, NEGATIVE, ALIKE, ZEROS = "large numbers", "negative numbers alone", "nearly equal", "zeros and subnormal"


def case(reference: Callable[..., Any], *, dtype: str = "float32", out: str = "", shape: Any = N, **more: Any) -> Case:
    """Make a case of one input x and one result y, of another type where ``out`` says so, and of a ``shape``."""
    arrays = {"x": more.pop("x", ww.In(N, dtype)), "y": ww.Out(shape, out or dtype)}
    return own_case(own_family(lambda: arrays, reference=reference, tests=((N,),), **more), out or dtype)


def named(made: Case, words: str) -> Draw | None:
    return next((draw for draw in further_draws(made, 0) if words in draw.words), None)


def accused(made: Case, kernel: Callable[[Array], Array]) -> list[str]:
    """Return the draws on which a kernel, written in NumPy, is called wrong."""
    found, inputs = [], random_inputs(made, 0)
    first = Draw(inputs=inputs, right=expected(made, inputs))
    for draw in further_draws(made, 0):
        got = kernel(draw.inputs["x"]).astype(numpy_type(made.dtype))
        judged = draw.right["y"]
        if compare(got, judged.reference, judged.bound, special=draw.special):
            near = None if draw.special else widened(made, draw, first, {"y": got}, samples=max(SAMPLES)).get("y")
            if near is None and not draw.special:
                continue
            judged = near or judged
            if compare(got, judged.reference, judged.bound, special=draw.special):
                found.append(draw.words)
    return found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "complex64"])
def test_inputs_of_every_kind_are_what_they_are_called(dtype: str) -> None:
    made = case(lambda x: x, dtype=dtype)

    def parts(words: str) -> Array:
        draw = named(made, words)
        assert draw
        x = draw.inputs["x"]
        return (x.view(np.float32) if dtype == "complex64" else x).astype(np.float64)

    small = float(smallest_normal(numpy_type(dtype)))
    assert np.max(np.abs(parts(LARGE))) > min(8e6, greatest(numpy_type(dtype)) / 8)
    assert np.min(parts(LARGE)) < 0 < np.max(parts(LARGE))
    assert (parts(NEGATIVE) <= 0).all()
    assert np.ptp(parts(ALIKE)) <= 0.26
    assert (parts(ZEROS) == 0).any()
    assert ((np.abs(parts(ZEROS)) < small) & (parts(ZEROS) != 0)).any()


def test_builds_take_different_kinds_on_each_shape() -> None:
    for shape in MATMUL.tests:
        tested = [Case(build, shape) for build in builds([MATMUL]) if build.variant.name == "vectorised"]
        words = {draw.words for each in tested for draw in further_draws(each, 0)}
        assert len(words) >= len(tested) - 1 == 3  # in the place of infinities, which none declares, is the next kind


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_integers_come_near_their_limits_and_zero(dtype: str) -> None:
    draw = named(case(lambda x: x, dtype=dtype), "integers at their limits")
    assert draw
    limits, x = np.iinfo(dtype), draw.inputs["x"]
    assert {limits.min, limits.max, 0, 1} <= set(x.tolist())
    if dtype in ("int32", "int64"):
        assert np.unique(x).size >= N - 3  # an index of the greatest has no ties that it would not have otherwise


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, None), (-3, 2), (0.5, 1.5), (10, 11), (-2, -1), (-5, 0)])
def test_further_inputs_keep_to_the_declared_range(low: float, high: float | None) -> None:
    draws = further_draws(case(lambda x: x, x=ww.In(N, "float32", low=low, high=high)), 0)
    assert draws
    for draw in draws:
        x = draw.inputs["x"]
        assert (x >= low).all(), draw.words
        assert high is None or (x < high).all() or (high == 0 and (x <= 0).all()), draw.words
        assert (NEGATIVE in draw.words) <= (low < 0)


def test_integers_keep_to_the_declared_range() -> None:
    (draw,) = further_draws(case(lambda x: x, dtype="int32", x=ww.In(N, "int32", low=-1, high=9)), 0)
    assert (draw.inputs["x"].min(), draw.inputs["x"].max()) == (-1, 8)


def test_a_family_with_inputs_of_its_own_gets_no_others() -> None:
    assert not further_draws(case(lambda x: x, draw=lambda rng: {"x": rng.random(N, np.float32)}), 0)


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: 1 / x,
        lambda x: np.log(np.abs(x)),
        lambda x: np.array([1 / float(value) for value in x]),
        lambda x: x / np.where(x == 0, np.nan, 1),
        lambda x: x if (x != 0).all() else x[:3],
    ],
)
def test_inputs_on_which_a_reference_fails_are_left_out(reference: Callable[..., Any]) -> None:
    made = case(lambda x: reference(x).astype(np.float32))
    assert named(made, NEGATIVE)
    assert not named(made, ZEROS)


def test_large_numbers_are_as_large_as_the_reference_allows() -> None:
    made = case(lambda x: np.exp(x.astype(np.float64)), tolerance=ww.relative(1e-6))
    draw = named(made, LARGE)
    assert draw
    assert 10 < np.max(np.abs(draw.inputs["x"])) < 89
    assert not named(case(lambda x: 2 * np.arccos(x)), LARGE)


def wide(x: Array) -> Array:
    return x.astype(np.float64)


def softmax(x: Array) -> Any:
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def in_order(x: Array) -> Array:
    """Return the sum of float32 numbers, one after the other."""
    return x.cumsum(dtype=np.float32)[-1:]


def turned(x: Array, angle: float) -> Any:
    """Return neighbours of an array turned by an angle, whose terms may cancel."""
    pairs = x.astype(np.float64).reshape(-1, 2)
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack([pairs[:, 0] * cosine - pairs[:, 1] * sine, pairs.sum(1)], 1).reshape(-1)


def products(x: Array) -> Any:
    return np.sqrt((x[::2] ** 2).sum(keepdims=True) * (x[1::2] ** 2).sum(keepdims=True))


def deviations(x: Array) -> Any:
    """Return by how many standard deviations each number of a row is off."""
    rows = x - x.cumsum(1, dtype=x.dtype)[:, -1:] / x.dtype.type(x.shape[1])
    return rows / np.sqrt((rows**2).mean(1, keepdims=True))


RIGHT: dict[str, tuple[Case, Callable[[Array], Array]]] = {
    "softmax": (case(lambda x: softmax(wide(x)), tolerance=ww.ulp(8)), softmax),
    "sum": (case(lambda x: wide(x).sum(keepdims=True), tolerance=ww.dot_error("n"), shape=1), in_order),
    "relative sum": (case(lambda x: wide(x).sum(keepdims=True), tolerance=ww.relative(1e-5), shape=1), in_order),
    "variance": (
        case(lambda x: x.var(dtype=np.float64, keepdims=True), tolerance=ww.relative(1e-5), shape=1),
        lambda x: np.maximum(np.float32(0), (x * x).mean(keepdims=True) - x.mean(keepdims=True) ** 2),
    ),
    "derivative of relu": (case(lambda x: x > 0, out="bool"), lambda x: x >= 0),
    "last of equals": (
        case(lambda x: np.array([x.argmax()], np.int32), out="int32", shape=1),
        lambda x: np.array([x.size - 1 - x[::-1].argmax()]),
    ),
    "flushes": (case(lambda x: 2 * x), lambda x: 2 * np.where(np.abs(x) < 1.2e-38, np.float32(0), x)),
    "sine": (
        case(lambda x: np.sin(wide(x)), tolerance=ww.relative(1e-6, absolute=1e-6)),
        lambda x: np.sin(wide(x) * (1 + 1e-7)),
    ),
    "errors of an angle": (
        case(lambda x: turned(x, 1000.0), tolerance=ww.relative(1e-3, absolute=1e-3)),
        lambda x: turned(x, 1000.0 * (1 + 5e-8)),
    ),
    "product of sums of squares": (case(lambda x: products(wide(x)), tolerance=ww.relative(1e-4), shape=1), products),
    "deviations": (
        case(
            lambda x: deviations(wide(x)),
            tolerance=ww.relative(1e-4, absolute=1e-4),
            x=ww.In((33, 16), "float32"),
            shape=(33, 16),
        ),
        deviations,
    ),
    "floor": (case(lambda x: np.floor(3 * wide(x))), lambda x: np.floor(np.float32(3) * x)),
    "integers that wrap": (case(lambda x: np.abs(x) + x[::-1], dtype="int32"), lambda x: np.abs(x) + x[::-1]),
    "special": (case(lambda x: x * 2, x=ww.In(N, "float32", special=True)), lambda x: x + x),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_is_not_accused(name: str) -> None:
    made, kernel = RIGHT[name]
    assert further_draws(made, 0)
    assert accused(made, kernel) == []


def bits_of(x: Array) -> Any:
    """Return the greatest of numbers that are ordered by their bits, as a wrong atomicMax does."""
    return x.view(np.int32).max(keepdims=True).view(np.float32)


def half_norm(x: Array) -> Any:
    with np.errstate(over="ignore"):
        return x / np.sqrt((x * x).mean(dtype=np.float16))


WRONG: dict[str, tuple[Case, Callable[[Array], Array], str]] = {
    "order of bits": (case(lambda x: x.max(keepdims=True), shape=1), bits_of, NEGATIVE),
    "0 as the least": (
        case(lambda x: x.max(keepdims=True), shape=1),
        lambda x: np.maximum(x.max(keepdims=True), 0),
        NEGATIVE,
    ),
    "half overflows": (
        case(lambda x: x / np.sqrt((wide(x) ** 2).mean()), dtype="float16", tolerance=ww.relative(1e-2)),
        half_norm,
        LARGE,
    ),
    "exponents overflow": (
        case(lambda x: softmax(wide(x)), tolerance=ww.relative(1e-5)),
        lambda x: np.exp(np.minimum(x, 80)) / np.exp(np.minimum(x, 80)).sum(),
        LARGE,
    ),
    "a copy by way of a narrower type": (case(lambda x: x), lambda x: x.astype(np.float16), ALIKE),
    "floor by way of an integer": (case(lambda x: np.floor(2 * x)), lambda x: np.trunc(2 * x), NEGATIVE),
    "the least integer": (
        case(lambda x: (x == x.min()).astype(np.int32), dtype="int32"),
        lambda x: (x == np.maximum(x.min(), -(2**31) + 1)).astype(np.int32),
        "integers",
    ),
    "NaN is dropped": (
        case(lambda x: np.maximum(x, np.float32(0.5)), x=ww.In(N, "float32", special=True)),
        lambda x: np.fmax(x, np.float32(0.5)),
        "NaN",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_is_wrong_on_other_inputs_alone_is_found(name: str) -> None:
    made, kernel, words = WRONG[name]
    found = accused(made, kernel)
    assert any(words in draw for draw in found), found


def test_cases_take_turns_where_a_kernel_has_many() -> None:
    family = own_family(
        lambda n: {"x": ww.In(n, "float32"), "y": ww.Out(n, "float32")},
        reference=lambda x: 2 * x,
        tests=((100,),),
        variants=(ww.kernel("new", configurations=tuple(range(32, 544, 32)), x=0, y=None),),
    )
    (variant,) = family.variants
    draws = [further_draws(Case(Build(family, variant, each, "float32"), (100,)), 0) for each in variant.listed]
    assert {len(each) for each in draws} == {1}
    assert len({each[0].words for each in draws}) == 4
