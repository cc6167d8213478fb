"""Tests of corner cases: every kernel has its own, also one that is added without any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from kernels import FAMILIES
from warpwatch.catalogue.cases import Build, Case, find_case
from warpwatch.catalogue.corners import (
    BEYOND,
    aligned,
    beyond_32_bits,
    branch_changes,
    edge_cases,
    ends,
    kernel_builds,
    least_builds,
    oblong_builds,
    ragged,
    several_blocks,
    tall_cases,
    tile,
)
from warpwatch.catalogue.declaration import LARGEST_GRID_Y, Family
from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.selection import builds
from warpwatch.devices.placement import Placement

BLOCKS = ((16, 16), (48, 16))


def made_up(**more: Any) -> Family:
    """Make a family of one new variant, whose result is narrower than its input, with a fallback above a K of 20."""
    fields: dict[str, Any] = {
        "configurations": BLOCKS,
        "dtypes": ("float64", "float32"),
        "source": lambda: b"machine code",
    }
    variant = ww.kernel("new", fallback=lambda K: "slow" if K > 20 else "", **fields, **more)
    return Family(
        name="made",
        sizes=("rows", "columns", "K"),
        arrays=lambda rows, columns, K: {
            "A": ww.In((rows, columns)),
            "w": ww.In(K),
            "B": ww.Out((rows, columns - K + 1)),
        },
        reference=lambda A, w, part: A[part, w.size - 1 :],
        work=lambda rows, columns, K, itemsize: ww.Work(0, 2 * (rows * columns + K) * itemsize),
        tests=((17, 33, 5), (64, 64, 1)),
        variants=(variant,),
    )


(NEW,) = least_builds([made_up()])  # the build of a new variant that corner cases are made for


def results(cases: list[Case]) -> set[tuple[int, ...]]:
    return {case.results[0].shape for case in cases}


def test_every_variant_whose_grid_follows_from_tiles_has_one_build_with_corner_cases() -> None:
    wanted = {b.variant for b in builds(FAMILIES) if b.variant.follows_tiles and not b.family.prints}
    assert {build.variant for build in least_builds(FAMILIES)} == wanted


def test_rows_that_a_block_computes_whole_have_every_length() -> None:
    for build in least_builds(FAMILIES):
        if build.family.name == "softmax":
            assert {n for _, n in (case.shape for case in ends(build))} >= set(range(1, 17))
            assert all(large.shape[1] > 1 for large, _ in beyond_32_bits(build))
            assert beyond_32_bits(build)


def test_the_build_is_the_smallest_tile_in_the_narrowest_type() -> None:
    assert (NEW.block, NEW.dtype) == ((16, 16), "float32")


def test_a_new_variant_gets_ones_lines_and_sizes_beside_its_tile() -> None:
    shapes = {case.shape for case in edge_cases([made_up()]) if case.build.block == (16, 16)}
    assert (1, 1, 1) in shapes
    assert any(rows > 16 and columns == 1 for rows, columns, _ in shapes)
    assert any(rows == 1 and columns > 16 for rows, columns, _ in shapes)
    assert {15, 17} <= {rows for rows, _, _ in shapes}


def test_a_new_variant_gets_a_second_block_along_every_axis_and_a_second_group() -> None:
    (case,) = several_blocks(NEW)
    assert results([case]) == {(9 * 16 + 1, 2 * 16 + 1)}
    assert case.launch.grid == (3, 10, 1)


def test_a_new_variant_gets_aligned_rows_with_every_ragged_edge() -> None:
    assert results([aligned(NEW)]) == {(32, 32)}
    assert results(ragged(NEW)) == {(32, 32), (36, 32), (33, 32), (32, 36), (32, 33), (36, 36)}


def test_a_kernel_whose_grid_follows_from_no_tile_gets_aligned_rows_of_its_own_shapes() -> None:
    (build,) = kernel_builds([made_up(grid=1)])
    assert (least_builds([made_up(grid=1)]), build.id) == ([], NEW.id)
    assert aligned(build).shape == (64, 64, 1)


def test_a_new_variant_gets_ends_of_every_length_modulo_two_sectors() -> None:
    for axis in (0, 1):
        lengths = {shape[axis] for shape in results(ends(NEW))}
        assert {length % 16 for length in lengths if length > 16} == set(range(16))
        assert {1, 17, 31, 32} <= lengths | {1}
    assert all(not case.family.problem_of(case.shape) and min(case.shape) > 0 for case in ends(NEW))


def test_a_new_variant_gets_both_sides_of_a_size_with_another_branch() -> None:
    assert [case.shape[2] for case in branch_changes(NEW)] == [20, 21]


def test_a_new_variant_gets_blocks_that_are_not_square_unless_it_has_no_others() -> None:
    assert [build.block for build in oblong_builds([made_up()])] == [(4, 2), (2, 4)]
    assert oblong_builds([made_up(fixed_blocks=True)]) == []
    assert oblong_builds([made_up(threads=lambda: (64, 1))]) == []


def test_a_new_family_gets_more_rows_of_blocks_than_a_grid_has() -> None:
    (case,) = tall_cases([made_up()])
    assert case.launch == Launch((1, (LARGEST_GRID_Y + 1) // 2, 2), (1, 1, 1))


@pytest.mark.parametrize("build", least_builds(FAMILIES), ids=lambda build: build.id)
def test_the_last_block_of_a_large_case_is_that_of_its_small_one(build: Build) -> None:
    for large, small in beyond_32_bits(build):
        assert find_case(FAMILIES, large.id) == large
        assert large.array_bytes > BEYOND * large.itemsize
        grid = large.launch.grid
        sizes = {large.variant.x: (grid[0], tile(build)[0])}
        if large.variant.y is not None:
            sizes[large.variant.y] = (grid[1] * grid[2], tile(build)[1])
        for axis, (blocks, elements) in sizes.items():
            size, least = (case.results[0].shape[axis] for case in (large, small))
            assert -(-size // elements) == blocks
            assert size % elements == least % elements


def test_fewer_rows_of_blocks_continue_in_z_and_cover_as_many() -> None:
    launch = Launch((3, 10, 1), (8, 8, 1), 5)
    assert Placement(grid_y=4).launch(launch) == Launch((3, 4, 3), (8, 8, 1), 5)
    assert Placement().launch(launch) == launch


def test_an_array_without_rows_has_no_padding() -> None:
    assert Placement(padding=2).spread(np.arange(3.0)).shape == (3,)
