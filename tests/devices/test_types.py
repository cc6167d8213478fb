"""Tests of every element type on the host: poison, guard bands, unwritten elements, digests, comparisons."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from tests.devices.test_mismatch import mismatch_of
from warpwatch.catalogue.arrays import Array, CaseArray, Role
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.declaration import draw_by
from warpwatch.catalogue.elements import C_TYPES, NONE, is_float, numpy_type, wide, word_of
from warpwatch.devices.digest import digest
from warpwatch.devices.host import Host
from warpwatch.devices.machine import GUARD_BYTES, GuardedArray, poison_of
from warpwatch.devices.mismatch import compare, explain
from warpwatch.devices.placement import Placement, poisoned

TYPES = [name for name in C_TYPES if name != NONE]
ROUNDED = [name for name in TYPES if is_float(numpy_type(name))]
SHAPE = (7, 5)  # 35 elements, which fill no whole words of 4 bytes in the small types
MASK = ww.Family(
    "mask",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "float32"), "y": ww.Out(n, "bool")},
    reference=lambda x: x > 0,
    tests=((3,),),
    variants=(ww.kernel("plain", configurations=(64,), x=0, y=None),),
)
CASE = find_case(FAMILIES, "matmul-tiled-16x16-40x33x50-float32")


def values(dtype: str) -> Array:
    """Return an array whose neighbours differ; for each type the same small numbers, of bool true and false."""
    return (np.arange(35).reshape(SHAPE) % 8).astype(numpy_type(dtype))


def bytes_of(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)


@pytest.mark.parametrize("operand", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_poison_is_no_number_where_the_type_has_such(dtype: str, operand: bool) -> None:
    filled = poisoned(SHAPE, numpy_type(dtype), operand)
    assert (filled.shape, filled.dtype) == (SHAPE, numpy_type(dtype))
    # Of the bytes of 0x7F7F7F7F and 0x7E7E7E7E, one is a NaN in both types of 8 bits, the other in e5m2 alone.
    if dtype in ROUNDED and not (dtype == "float8_e4m3fn" and operand):
        assert np.isnan(filled.astype(wide(filled.dtype))).all()
    word = np.array([poison_of(filled.dtype.itemsize, operand)], np.uint32)
    assert np.array_equal(filled.reshape(-1).view(np.uint8)[:4], word.view(np.uint8)[: filled.nbytes])


@pytest.mark.parametrize("seed", [None, 1, 2, 2**64 - 1])
def test_poison_is_not_a_number_and_tells_inputs_and_results_apart(seed: int | None) -> None:
    try:
        draw_by(seed)
        for size, dtypes in {1: ("float8_e5m2",), 2: ("float16", "bfloat16"), 4: ("float32",), 8: ("float64",)}.items():
            words = [poison_of(size, operand, second) for operand in (False, True) for second in (False, True)]
            assert len(set(words)) == 4
            for word in words:
                element = np.array([word, word], np.uint32).view(np.uint8)[:size]
                assert all(np.isnan(element.view(numpy_type(dtype)).astype(float)).all() for dtype in dtypes)
        assert np.isnan(np.array([poison_of(1)], np.uint32).view(numpy_type("float8_e4m3fn")).astype(float)).all()
    finally:
        draw_by(None)


def test_poison_of_a_run_is_its_own() -> None:
    def drawn(seed: int) -> tuple[int, ...]:
        draw_by(seed)
        return tuple(poison_of(size, operand) for size in (2, 4) for operand in (False, True))

    try:
        assert len({drawn(seed) for seed in range(100)}) > 95
        assert drawn(3) == drawn(3)
    finally:
        draw_by(None)


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("dtype", TYPES)
def test_an_array_is_read_as_it_was_written_and_is_poison_before(dtype: str, offset: int) -> None:
    array = GuardedArray(Host(), "x", SHAPE, dtype, offset)
    itemsize = numpy_type(dtype).itemsize
    assert (array.address - offset * itemsize) % 16 == 0
    start = offset * itemsize % 4  # the whole allocation is filled with words
    word = np.roll(np.array([poison_of(itemsize)], np.uint32).view(np.uint8), -start)
    assert np.array_equal(bytes_of(array.read()).reshape(-1), np.resize(word, 35 * itemsize))
    array.write(values(dtype))
    assert np.array_equal(bytes_of(array.read()), bytes_of(values(dtype)))
    assert np.array_equal(bytes_of(array.read_rows(2, 4)), bytes_of(values(dtype)[2:4]))
    assert array.overrun() is None
    array.poison()
    assert np.array_equal(bytes_of(array.read()).reshape(-1), np.resize(poison_bytes(itemsize), 35 * itemsize))


def poison_bytes(itemsize: int) -> Array:
    return np.array([poison_of(itemsize)], np.uint32).view(np.uint8)


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("element", "said"),
    [
        (-1, "wrote 1 element(s) before x, the nearest 1 before its start"),
        (-3, "wrote 1 element(s) before x, the nearest 3 before its start"),
        (35, "wrote 1 element(s) after x, the nearest 1 after its end"),
        (38, "wrote 1 element(s) after x, the nearest 4 after its end"),
        (34, None),
        (0, None),
    ],
)
def test_a_single_element_outside_is_seen(dtype: str, offset: int, element: int, said: str | None) -> None:
    array = GuardedArray(Host(), "x", SHAPE, dtype, offset)
    itemsize = array.dtype.itemsize
    ctypes.memset(array.address + element * itemsize, 1, itemsize)
    assert array.overrun() == said


@pytest.mark.parametrize("dtype", TYPES)
def test_the_last_byte_of_a_guard_band_is_looked_at(dtype: str) -> None:
    array = GuardedArray(Host(), "x", SHAPE, dtype, 1)
    ctypes.memset(array.address + array.nbytes + GUARD_BYTES - 1, 1, 1)
    assert str(array.overrun()).startswith("wrote 1 element(s) after x, the nearest ")


@pytest.mark.parametrize("dtype", TYPES)
def test_an_element_that_nobody_wrote_is_counted(dtype: str) -> None:
    array = GuardedArray(Host(), "x", SHAPE, dtype)
    right = values(dtype)
    array.write(right)
    itemsize = array.dtype.itemsize
    for element in (8, 20):  # poison as the array held it before
        start = element * itemsize % 4
        poison = np.resize(np.roll(poison_bytes(itemsize), -start), itemsize).tobytes()
        ctypes.memmove(array.address + element * itemsize, poison, itemsize)
    mismatch = mismatch_of(array.read(), right.astype(wide(right.dtype)) if dtype in ROUNDED else right, 0.0)
    assert (mismatch.wrong, mismatch.unwritten, mismatch.first) == (2, 2, (1, 3))
    text = explain(CASE, "x", mismatch, "again")
    assert "2 of them still hold the poison: no thread wrote them" in text


@pytest.mark.parametrize("dtype", TYPES)
def test_an_element_that_one_pattern_of_poison_makes_right_is_wrong_by_the_other(dtype: str) -> None:
    array = GuardedArray(Host(), "x", SHAPE, dtype)
    array.clear(second=False)
    first = array.read()
    array.clear(second=True)
    assert not (bytes_of(first) == bytes_of(array.read())).all(axis=-1).any()
    assert array.overrun() is None
    if dtype in ROUNDED:
        assert np.isnan(first.astype(wide(first.dtype))).all()
        assert np.isnan(array.read().astype(wide(first.dtype))).all()
    ctypes.memset(array.address + array.nbytes, 0x7F, array.dtype.itemsize)  # which the first may hide in a guard band
    assert array.overrun() == "wrote 1 element(s) after x, the nearest 1 after its end"


def test_a_byte_of_bool_that_is_neither_true_nor_false_is_named() -> None:
    got = np.array([0, 1, 127], np.uint8).view(bool)
    mismatch = mismatch_of(got, np.array([False, True, True]), 0.0)
    assert (mismatch.wrong, mismatch.first) == (1, (2,))
    case = find_case((MASK,), "mask-plain-64-3-bool")
    assert "y[2] holds 127, which is neither true nor false, expected True" in explain(case, "y", mismatch, "again")


@pytest.mark.parametrize("dtype", TYPES)
def test_a_digest_depends_on_every_byte_and_its_place(dtype: str) -> None:
    array = GuardedArray(Host(), "x", SHAPE, dtype)
    array.write(values(dtype))
    first = digest(array)
    assert digest(array) == first
    seen = {first}
    for byte in range(array.nbytes):
        before = ctypes.string_at(array.address + byte, 1)
        ctypes.memset(array.address + byte, before[0] ^ 0x40, 1)
        seen.add(digest(array))
        ctypes.memmove(array.address + byte, before, 1)
    assert len(seen) == array.nbytes + 1
    assert digest(array) == first
    array.write(np.roll(values(dtype), 1))
    assert digest(array) != first


@pytest.mark.parametrize("size", [1, 2, 3])
def test_an_array_of_less_than_a_word_has_a_digest(size: int) -> None:
    array = GuardedArray(Host(), "x", (size,), "uint8")
    array.write(np.arange(size, dtype=np.uint8))
    first = digest(array)
    array.write(np.arange(1, size + 1, dtype=np.uint8))
    assert digest(array) != first


@pytest.mark.parametrize("dtype", TYPES)
def test_equal_results_are_right_and_one_wrong_element_is_found(dtype: str) -> None:
    right = values(dtype)
    reference: Any = right.astype(wide(right.dtype)) if dtype in ROUNDED else right
    assert compare(right, reference, 0.0) is None
    got = right.copy()
    got[4, 4] = got[4, 3]  # 7 in place of 0, true in place of false
    mismatch = mismatch_of(got, reference, 0.0)
    assert (mismatch.wrong, mismatch.total, mismatch.worst, mismatch.first) == (1, 35, (4, 4), (4, 4))
    assert mismatch.error == (1 if dtype == "bool" else 7)
    assert "is wrong in 1 of 35 elements" in explain(CASE, "x", mismatch, "again")


@pytest.mark.parametrize("dtype", ROUNDED)
def test_rounded_results_are_right_within_their_bound_and_nan_never(dtype: str) -> None:
    right = values(dtype).astype(wide(numpy_type(dtype)))
    got = values(dtype)
    assert compare(got, right + 0.5, 0.5) is None
    mismatch = mismatch_of(got, right + 0.5, 0.4999)
    assert mismatch.wrong == 35
    assert compare(got, right + 0.5, np.full(SHAPE, 0.5)) is None
    got[3, 3] = np.nan
    mismatch = mismatch_of(got, right, 1e30)
    assert (mismatch.wrong, mismatch.worst) == (1, (3, 3))


@pytest.mark.parametrize("part", [1.0, 1j])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_both_parts_of_complex_numbers_are_compared(dtype: str, part: complex) -> None:
    right = values(dtype).astype(np.complex128) * (1 + 2j)
    got = right.astype(dtype)
    got[6, 4] += 3 * part
    mismatch = mismatch_of(got, right, 2.5)
    assert (mismatch.worst, mismatch.error) == ((6, 4), 3.0)
    assert compare(got, right, 3.5) is None


@pytest.mark.parametrize("dtype", [name for name in TYPES if "int" in name])
def test_whole_numbers_are_compared_without_overflow(dtype: str) -> None:
    limits = np.iinfo(dtype)
    got, right = np.array([[limits.min]], dtype), np.array([[limits.max]], dtype)
    for one, other in ((got, right), (right, got)):
        mismatch = mismatch_of(one, other, 0.0)
        assert mismatch.error == float(limits.max) - float(limits.min)


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_apart_are_spread_and_gathered_and_what_lies_between_is_watched(dtype: str) -> None:
    placement = Placement(padding=3)
    spread = placement.spread(values(dtype))
    assert spread.shape == (7, 8)
    between = np.ascontiguousarray(spread[:, 5:])
    assert np.array_equal(bytes_of(between), bytes_of(poisoned((7, 3), spread.dtype, operand=True)))
    padded = poisoned((7, 8), spread.dtype)
    padded[:, :5] = values(dtype)
    result, said = placement.gather("y", padded, SHAPE, poison_of(spread.dtype.itemsize))
    assert np.array_equal(bytes_of(result), bytes_of(values(dtype)))
    assert said is None
    padded[2, 6] = 0
    assert (
        placement.gather("y", padded, SHAPE, poison_of(spread.dtype.itemsize))[1]
        == "wrote 1 element(s) between the rows of y"
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_an_array_with_a_demand_keeps_its_alignment(dtype: str) -> None:
    itemsize = numpy_type(dtype).itemsize
    array = CaseArray(name="x", role=Role.IN, shape=SHAPE, dtype=dtype, aligned=32)
    for given in range(5):
        offset = Placement(offsets=(given,)).offset(0, array)
        assert offset >= given
        assert offset * itemsize % 32 == 0
    plain = CaseArray(name="x", role=Role.IN, shape=SHAPE, dtype=dtype)
    assert [Placement(offsets=(given,)).offset(0, plain) for given in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("offset", [0, 1])
def test_the_host_fills_arrays_of_every_size_and_place(dtype: str, offset: int) -> None:
    array = GuardedArray(Host(), "x", SHAPE, dtype, offset)
    word = word_of(0, dtype)
    assert word is not None
    array.machine.fill(array.address, array.nbytes, word)
    assert not bytes_of(array.read()).any()
    assert array.overrun() is None
