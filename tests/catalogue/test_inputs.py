"""Tests how inputs are drawn: of every type, within ranges, by a family's own function."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from tests.catalogue.changed import own_case, own_family
from warpwatch.catalogue.arrays import DeclaredArray
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import TIMED_SEED
from warpwatch.catalogue.elements import C_TYPES, EXTENSIONS, NONE, numpy_type
from warpwatch.catalogue.inputs import DRAWN, exact_inputs, random_inputs
from warpwatch.catalogue.names import BadCase

TYPES = [name for name in C_TYPES if name != NONE]
REAL = [name for name in TYPES if numpy_type(name).kind == "f" or name in EXTENSIONS]
COUNT = 20_000


def case(*, draw: Any = None, **arrays: DeclaredArray) -> Case:
    made = {**arrays, "out": ww.Out(1, "int32")}
    return own_case(own_family(lambda: made, draw=draw, tests=((COUNT,),)), "int32")


@pytest.mark.parametrize("dtype", TYPES)
def test_inputs_of_every_type_fill_their_range_and_repeat_with_their_seed(dtype: str) -> None:
    own = case(x=ww.In(COUNT, dtype))
    x = random_inputs(own, 1)["x"]
    assert (x.shape, x.dtype) == ((COUNT,), numpy_type(dtype))
    assert np.array_equal(x, random_inputs(own, 1)["x"])
    assert not np.array_equal(x, random_inputs(own, 2)["x"])
    own.check_inputs({"x": x})
    if dtype in REAL:
        values = x.astype(np.float64)
        assert -1 <= np.min(values) < -0.9
        assert 0.9 < np.max(values) <= 1
    elif x.dtype.kind == "c":
        assert min(x.real.min(), x.imag.min()) < -0.9
        assert max(x.real.max(), x.imag.max()) > 0.9
    elif x.dtype.kind == "b":
        assert 0.4 < x.mean() < 0.6
    else:
        limits = np.iinfo(x.dtype)
        span = float(limits.max) - float(limits.min)
        assert float(np.min(x)) < limits.min + 0.01 * span
        assert float(np.max(x)) > limits.max - 0.01 * span


@pytest.mark.parametrize("dtype", TYPES)
def test_exact_inputs_are_whole_numbers_up_to_eight(dtype: str) -> None:
    x = exact_inputs(case(x=ww.In(COUNT, dtype)), 1)["x"]
    assert x.dtype == numpy_type(dtype)
    values = np.unique(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
    least = 0 if x.dtype.kind in "ub" else -8
    assert np.array_equal(values, np.arange(least, 2 if dtype == "bool" else 9))


@pytest.mark.parametrize("dtype", [*REAL, "int8", "int32", "uint64"])
def test_a_range_is_kept_with_its_lower_end_and_without_its_upper(dtype: str) -> None:
    whole = numpy_type(dtype).kind in "iu"
    own = case(x=ww.InOut(COUNT, dtype, low=2, high=6 if whole else 4))
    x = random_inputs(own, 1)["x"].astype(np.float64)
    if whole:
        assert np.unique(x).tolist() == [2, 3, 4, 5]
    else:
        assert 2 <= np.min(x) < 2.2
        assert 3.8 <= np.max(x) <= 4
    exact = exact_inputs(own, 1)["x"].astype(np.float64)
    assert np.unique(exact).tolist() == ([2, 3, 4, 5] if whole else [2, 3])


def test_one_end_of_a_range_may_be_left_out() -> None:
    low, high, real = ww.In(COUNT, "int16", low=30_000), ww.In(COUNT, "uint8", high=3), ww.In(COUNT, "float64", low=0)
    own = case(low=low, high=high, real=real)
    drawn = random_inputs(own, 1)
    assert (drawn["low"].min(), drawn["low"].max()) == (30_000, 2**15 - 1)
    assert np.unique(drawn["high"]).tolist() == [0, 1, 2]
    assert 0 <= drawn["real"].min() < 0.01
    assert 0.99 < drawn["real"].max() < 1


def test_a_family_draws_what_it_wants_and_the_rest_is_drawn_as_ever() -> None:
    asked = []

    def draw(rng: np.random.Generator, exact: bool, n: int) -> dict[str, Any]:
        asked.append(exact)
        return {"order": rng.permutation(n)}

    own = case(draw=draw, x=ww.In(9, "float32"), order=ww.In(COUNT, "int32"))
    drawn = random_inputs(own, 1)
    assert list(drawn) == ["x", "order"]
    assert drawn["order"].dtype == np.int32
    assert sorted(drawn["order"].tolist()) == list(range(COUNT))
    assert np.array_equal(drawn["order"], random_inputs(own, 1)["order"])
    assert not np.array_equal(drawn["order"], random_inputs(own, 2)["order"])
    exact_inputs(own, 1)
    assert asked == [False, False, False, True]


def test_what_is_drawn_must_be_an_input() -> None:
    for drawn in ({"order": 1}, {"out": np.zeros(1)}, 7):
        with pytest.raises(BadCase, match=r"own-new-32-20000-int32: draw returns .*; the inputs are x"):
            random_inputs(case(draw=lambda drawn=drawn: drawn, x=ww.In(9, "float32")), 1)


def test_an_array_whose_size_depends_on_the_data_has_the_shape_that_was_drawn() -> None:
    def draw(rng: np.random.Generator, n: int) -> dict[str, Any]:
        columns = np.flatnonzero(rng.random(n) < 0.25)
        return {"columns": columns, "values": np.ones(columns.size)}

    own = case(draw=draw, columns=ww.In(None, "int32"), values=ww.In(None, "float32"))
    drawn = random_inputs(own, 1)
    assert drawn["columns"].shape == drawn["values"].shape
    assert 0.2 * COUNT < drawn["columns"].size < 0.3 * COUNT
    own.check_inputs(drawn)
    (columns, values) = own.inputs
    assert 0 < columns.size == values.size


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.zeros(9, np.float64), "x must be (9,) of float32, not (9,) of float64"),
        (np.zeros(8, np.float32), "x must be (9,) of float32, not (8,) of float32"),
    ],
)
def test_inputs_of_another_shape_or_type_are_refused(x: np.ndarray, said: str) -> None:
    draws: tuple[Any, ...] = (None, dict)
    for draw in draws:
        with pytest.raises(BadCase) as caught:
            case(draw=draw, x=ww.In(9, "float32")).check_inputs({"x": x})
        assert str(caught.value) == f"own-new-32-20000-int32: {said}"
    with pytest.raises(BadCase, match=r"takes 1 inputs \(x\), not 0"):
        case(x=ww.In(9, "float32")).check_inputs({})


def test_the_inputs_of_benchmarks_are_those_of_their_version() -> None:
    """Saved runs of a version had these inputs. Where this fails on purpose, raise DRAWN."""
    x = {f"a{i}": ww.In(9, name) for i, name in enumerate(("float32", "float64", "int32", "bfloat16", "bool"))}
    made = random_inputs(
        case(**x, low=ww.In(9, "float32", low=0, high=3), some=ww.In(9, "int32", low=0, high=3)), TIMED_SEED
    )
    assert (DRAWN, zlib.crc32(b"".join(array.tobytes() for array in made.values()))) == (1, 2600821725)
