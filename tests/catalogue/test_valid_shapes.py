"""Tests that cases of all kinds keep to the shapes that a declaration calls valid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwatch as ww
from tests.catalogue.changed import own_family
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.corners import aligned, branch_changes, edge_cases, ends, least_builds, ragged, several_blocks
from warpwatch.catalogue.corners import unaligned_cases as unaligned
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.same_for import smaller_shapes
from warpwatch.catalogue.selection import builds, tested_cases, timed_cases
from warpwatch.catalogue.valid_shapes import nearest
from warpwatch.catalogue.validation import problems
from warpwatch.plugin.cases import cases_of
from warpwatch.plugin.fixtures import Check


def by_32(n: int) -> bool:
    return n % 32 == 0


def made(**changes: Any) -> Family:
    """Make a family of one kernel that fills an array, on multiples of 32 alone."""
    kernel = ww.kernel("new", configurations=(32,), x=0, y=None, source=lambda: b"machine code", **changes)
    return own_family(
        lambda n: {"x": ww.Out(n, "float32")},
        reference=lambda n: np.full(n, 8.0),
        variants=(kernel,),
        tests=((96,), (64,)),
        benchmarks=((320,),),
        **({} if changes.get("valid") else {"valid": by_32}),
    )


SHAPES: list[tuple[Callable[..., bool], tuple[int, ...], tuple[int, ...] | None]] = [
    (lambda n: n % 32 == 0, (64,), (64,)),
    (lambda n: n % 32 == 0, (50,), (64,)),
    (lambda n: n % 32 == 0, (33,), (32,)),
    (lambda n: n % 32 == 0, (48,), (64,)),  # of two, the larger one
    (lambda n: n % 32 == 0, (1,), (32,)),
    (lambda n: n & (n - 1) == 0, (1000,), (1024,)),
    (lambda m, n: m % 16 == 0 and n % 8 == 0, (17, 33), (16, 32)),
    (lambda m, n: m == n, (1, 69), (69, 69)),
    (lambda m, n: n % m == 0, (7, 20), (7, 21)),
    (lambda m, n: m % 10 == 0 and n % 7 == 0, (31, 50), (30, 49)),  # near the sizes of a known shape
    (lambda n: n < 0, (5,), None),
]


@pytest.mark.parametrize(("valid", "shape", "near"), SHAPES)
def test_the_nearest_valid_shape(valid: Callable[..., bool], shape: tuple[int, ...], near: object) -> None:
    assert nearest(shape, lambda other: valid(*other), [(10, 7)] if valid(*(10, 7)[: len(shape)]) else []) == near


def test_sizes_that_a_function_does_not_ask_for_are_not_tried() -> None:
    asked: list[int] = []

    def is_64(n: int) -> bool:
        asked.append(n)
        return n == 64

    family = own_family(
        lambda m, n: {"x": ww.Out((m, n), "float32")},
        reference=lambda m, n: np.full((m, n), 8.0),
        variants=(ww.kernel("new", configurations=(32,), x=0, source=lambda: b"machine code"),),
        sizes=("m", "n"),
        tests=((96, 64),),
        benchmarks=(),
        valid=is_64,
    )
    assert family.near((7, 50)) == (7, 64)
    assert len(asked) < 50


def test_every_corner_case_is_valid_and_there_are_some() -> None:
    (build,) = least_builds([made()])
    edges = [case.shape for case in edge_cases([made()])]
    assert edges == [(32,), (64,)]
    cases = [*several_blocks(build), aligned(build), *ragged(build), *ends(build), *branch_changes(build)]
    assert {case.shape for case in cases} == {(32,), (64,)}
    assert {case.shape[0] % 32 for case in (*cases, *unaligned([made()]))} == {0}


@pytest.mark.parametrize(("shape", "near"), [(50, 64), (33, 32)])
def test_a_declared_shape_that_is_invalid_is_a_mistake(shape: int, near: int) -> None:
    family = own_family(lambda n: {"x": ww.Out(n, "float32")}, valid=by_32, tests=((64,), (shape,)))
    (problem,) = problems([family])
    assert str(problem).startswith(f"family own: tests has ({shape},): n = {shape} is not valid; ")
    assert str(problem).endswith(f"the nearest valid size is {near}")


def test_what_valid_returns_is_a_truth_value() -> None:
    family = own_family(lambda n: {"x": ww.Out(n, "float32")}, valid=lambda n: n % 32, tests=((64,),))
    assert str(problems([family])[0]) == (
        "family own: valid returns 1: give True or False, as `lambda n: n % 32 == 0` does"
    )


def test_a_case_that_is_named_must_be_valid() -> None:
    with pytest.raises(BadCase, match="own-new-32-50-float32: n = 50 is not valid; the nearest valid size is 64"):
        find_case([made()], "own-new-32-50-float32")
    with pytest.raises(ValueError, match="the nearest valid size is 64"):
        cases_of((made(),), shapes=[(50,)])


def test_a_variants_own_shapes_are_left_out_for_it_alone() -> None:
    family = replace(made(valid=lambda n: n % 96 == 0), benchmarks=((320,), (960,)))
    assert [case.shape for case in tested_cases([family])] == [(96,)]
    assert [case.shape for case in timed_cases([family])] == [(960,)]
    assert "takes none of the tested shapes" in str(problems([made(valid=lambda n: n > 1000)])[0])
    assert "takes none of the timed shapes" in str(problems([made(valid=lambda n: n % 96 == 0)])[0])


def test_rows_are_compared_with_fewer_valid_ones() -> None:
    assert list(smaller_shapes(made(), (96,), "n")) == [(32,), (64,)]


@settings(max_examples=5, database=None)
@given(n=st.integers(1, 500))
def test_a_shape_that_hypothesis_draws_is_moved_to_a_valid_one(n: int) -> None:
    checked: list[Case] = []

    class Kernel:
        def evaluate(self, case: Case, again: str, **options: Any) -> Any:
            checked.append(case)
            raise BadCase("enough")

    (build,) = builds([made()])
    kernel: Any = Kernel()
    with pytest.raises(BadCase, match="enough"):
        Check(kernel=kernel, case=None, again="")(Case(build, (n,)))
    assert abs(checked[0].shape[0] - n) <= max(16, 32 - n)
    assert by_32(*checked[0].shape)


def test_any_other_invalid_shape_is_refused() -> None:
    (build,) = builds([made()])
    kernel: Any = None
    with pytest.raises(BadCase, match="the nearest valid size is 64"):
        Check(kernel=kernel, case=None, again="")(Case(build, (50,)))


@pytest.mark.parametrize("size", [33, 0, 2**30 + 32, 9_999_999_999])
def test_shapes_in_place_of_declared_ones_are_timed_only_where_a_kernel_takes_them(size: int) -> None:
    of_variant, of_family = made(valid=by_32), made()
    for family in (of_variant, of_family):
        assert [case.shape for case in timed_cases([family], [(64,), (size,)])] == [(64,)]


@pytest.mark.parametrize("valid", [lambda n: n // 0 == 1, lambda q: True, 5])
def test_an_error_in_a_variants_own_function_is_a_fault_of_it_alone(valid: Any) -> None:
    family = made(valid=valid)
    (problem,) = problems(
        [replace(family, variants=(replace(family.variants[0], name="sound", valid=None), *family.variants))]
    )
    assert (problem.variant, problem.field) == ("new", "valid")
