"""Tests of arrays and launches as declarations write them."""

from __future__ import annotations

import pytest

import warpwatch as ww
from warpwatch.catalogue.arrays import CaseArray, DeclaredArray, Role
from warpwatch.catalogue.launches import Capability, read_capability, three


@pytest.mark.parametrize(
    ("array", "made"),
    [
        (ww.In(5), DeclaredArray(Role.IN, (5,))),
        (ww.In((5, 6), "int32", aligned=16), DeclaredArray(Role.IN, (5, 6), "int32", aligned=16)),
        (ww.In([5, 6], low=-1, high=2), DeclaredArray(Role.IN, (5, 6), low=-1, high=2)),
        (ww.In(None, "int32"), DeclaredArray(Role.IN, None, "int32")),
        (ww.Out(5, initial=-1), DeclaredArray(Role.OUT, (5,), initial=-1)),
        (ww.InOut((5,), high=3), DeclaredArray(Role.IN_OUT, (5,), high=3)),
        (ww.Scratch(5, "float32", aligned=32), DeclaredArray(Role.SCRATCH, (5,), "float32", aligned=32)),
    ],
)
def test_a_shape_is_a_number_or_several(array: DeclaredArray, made: DeclaredArray) -> None:
    assert array == made


@pytest.mark.parametrize(
    ("role", "is_input", "is_result", "moved"),
    [
        (Role.IN, True, False, 1),
        (Role.OUT, False, True, 1),
        (Role.IN_OUT, True, True, 2),
        (Role.SCRATCH, False, False, 0),
    ],
)
def test_a_role_says_what_is_uploaded_compared_and_moved(
    role: Role, is_input: bool, is_result: bool, moved: int
) -> None:
    array = CaseArray(name="x", role=role, shape=(3, 5), dtype="bfloat16")
    assert (array.is_input, array.is_result, array.moved_bytes) == (is_input, is_result, 30 * moved)
    assert (array.size, array.nbytes) == (15, 30)


def test_sizes_are_filled_up_with_ones() -> None:
    assert [three(5), three((5,)), three([5, 6]), three((5, 6, 7))] == [(5, 1, 1), (5, 1, 1), (5, 6, 1), (5, 6, 7)]
    with pytest.raises(ValueError, match="too many values"):
        three((1, 2, 3, 4))


def test_blocks_cover_the_elements_along_each_axis() -> None:
    assert ww.blocks(100, 64) == (2, 1, 1)
    assert ww.blocks(128, (64,)) == (2, 1, 1)
    assert ww.blocks((129, 7), (64, 8)) == (3, 1, 1)
    assert ww.blocks((9, 7, 5), (4, 2, 2)) == (3, 4, 3)
    assert ww.blocks((9, 7), 4) == (3, 7, 1)


@pytest.mark.parametrize(
    ("word", "capability"),
    [("sm_80", (8, 0)), ("sm_75", (7, 5)), ("sm_90a", (9, 0)), ("sm_103", (10, 3)), ("sm_121f", (12, 1))],
)
def test_an_architecture_is_a_compute_capability(word: str, capability: tuple[int, int]) -> None:
    assert read_capability(word) == Capability(*capability)


@pytest.mark.parametrize("word", ["sm_8", "sm80", "sm_9.0", "compute_80", "torch", ""])
def test_another_word_is_none(word: str) -> None:
    assert read_capability(word) is None
