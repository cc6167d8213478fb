"""Tests of the comparison of results, and of its messages."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import FAMILIES
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.machine import poison_of
from warpwatch.devices.mismatch import PIECE, PIECES_A_THREAD, Mismatch, compare, explain
from warpwatch.devices.references import LINE

CASE = find_case(FAMILIES, "matmul-tiled-16x16-40x33x50-float32")


def right() -> np.ndarray:
    return np.arange(2000, dtype=np.float32).reshape(40, 50)


def mismatch_of(got: Array, right: Array, bound: Array | float, rows: Array | None = None) -> Mismatch:
    mismatch = compare(got, right, bound, rows)
    assert mismatch
    return mismatch


@pytest.mark.parametrize(
    "shape", [(3, PIECE), (PIECE + 7,), (1, 2 * PIECE), (700, 100), (PIECES_A_THREAD * PIECE + 7,)]
)
def test_no_piece_of_a_large_array_is_left_out(shape: tuple[int, ...]) -> None:
    """The last element is wrong, and each element has a bound of its own."""
    reference = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    bound = reference / 100
    got = (reference * 1.009).astype(np.float32)
    assert compare(got, reference, bound) is None
    last = tuple(size - 1 for size in shape)
    got[last] *= 1.009
    mismatch = mismatch_of(got, reference, bound)
    assert (mismatch.wrong, mismatch.worst) == (1, last)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_never_passes(value: float) -> None:
    got = right()
    got[7, 9] = value
    mismatch = mismatch_of(got, right().astype(np.float64), 1e30)
    assert mismatch.worst == mismatch.first == (7, 9)


def test_the_worst_is_the_one_furthest_beyond_its_own_bound() -> None:
    got, bound = right(), np.full((40, 50), 1.0)
    bound[1, 1] = 1000.0
    got[1, 1] += 900  # within its bound
    got[2, 2] += 5
    got[3, 3] += 7
    mismatch = mismatch_of(got, right().astype(np.float64), bound)
    assert (mismatch.wrong, mismatch.worst, mismatch.first) == (2, (3, 3), (2, 2))


def test_a_message_names_place_owner_and_command() -> None:
    got = right()
    got[16:32, 48:] = 0
    got.view(np.uint32)[16, 48] = poison_of(4)
    mismatch = mismatch_of(got, right().astype(np.float64), 0.0)
    text = explain(CASE, "C", mismatch, "python -m warpwatch run ...")
    assert "is wrong in 32 of 2,000 elements" in text
    assert "1 of them still hold the poison" in text
    assert "rows      16 to 31, all of them" in text
    assert "columns   48, 49" in text
    assert "[16, 48], written by thread (0, 0) of block (3, 1) (x, y; blocks of 16x16, grid (4, 3, 1))" in text
    assert "again     python -m warpwatch run ..." in text


def test_more_than_two_axes_are_numbered() -> None:
    wanted = np.zeros((2, 3, 2, 5))
    got = wanted.astype(np.float32)
    got[1, :, 0, 4] = 1
    text = explain(CASE, "C", mismatch_of(got, wanted, 0.0), "again")
    assert [line[2:11].strip() for line in text.splitlines()[2:6]] == ["axis 0", "axis 1", "axis 2", "axis 3"]
    assert "axis 1    0, 1, 2" in text
    assert "columns" not in text


def test_rows_that_were_sampled_keep_their_own_numbers() -> None:
    rows = np.array([3, 17, 39])
    got = right()[rows]
    got[1, 4] += 1
    mismatch = mismatch_of(got, right()[rows].astype(np.float64), 0.0, rows)
    assert mismatch.worst == mismatch.first == (17, 4)
    assert mismatch.spans == ((1, 17, 17), (1, 4, 4))


def test_lines_of_text_are_compared_too() -> None:
    case = find_case(FAMILIES, "hello-hello-5x5-1-none")
    mismatch = mismatch_of(np.array(["a", "c"]), np.array(["a", "b"]), 0.0)
    assert "line[1] = c, expected b, off by" in explain(case, LINE, mismatch, "")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_poison_is_not_the_nan_that_is_expected(dtype: str) -> None:
    nan = np.array([1, np.nan], dtype)
    assert compare(nan, nan.astype(np.float64), 0.0, special=True) is None
    word = poison_of(nan.itemsize)
    unwritten = np.resize(np.array([word, word], np.uint32).view(dtype), 2)
    unwritten[0] = 1
    mismatch = compare(unwritten, nan.astype(np.float64), 0.0, special=True)
    assert mismatch
    assert (mismatch.wrong, mismatch.unwritten) == (1, 1)
