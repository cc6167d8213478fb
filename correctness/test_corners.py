"""Tests every kernel on its corner cases, which warpwatch/catalogue/corners.py makes from its declaration."""

from __future__ import annotations

import pytest

from warpwatch.testing import Build, Case, Check, Placement, aligned, branch_changes, ends, ragged, several_blocks


@pytest.mark.builds("least")
def test_several_blocks_along_every_axis(check: Check, build: Build) -> None:
    """Check equality to the bit, with a second group of rasterised rows of blocks."""
    for case in several_blocks(build):
        check(case, exact=True)


@pytest.mark.builds("least", where=lambda build: build.variant.y is not None)
def test_rows_of_blocks_that_continue_in_z(check: Check, build: Build) -> None:
    """Check equality to the bit, with four rows of blocks in y and the others in z, as for an array with more rows."""
    for case in several_blocks(build):
        check(case, exact=True, placement=Placement(grid_y=4))


@pytest.mark.cases("tall")
def test_more_rows_of_blocks_than_a_grid_has(check: Check, case: Case) -> None:
    """Check equality to the bit beyond CUDA's own limit, with the launch that the case has by itself."""
    assert case.launch.grid[2] == 2
    check(case, exact=True)


@pytest.mark.builds("least")
def test_aligned_rows_with_a_ragged_edge(check: Check, build: Build) -> None:
    """Check equality to the bit on whole tiles, and with one axis longer by 16 bytes or by one element."""
    for case in ragged(build):
        check(case, exact=True)


@pytest.mark.builds("kernels")
def test_aligned_rows_of_one_array_that_is_not(check: Check, build: Build) -> None:
    """Check equality to the bit, with one array at a time moved by one element, 8 bytes and half a sector."""
    case = aligned(build)
    arrays = len(case.arrays)
    for offset in sorted({1, *(size // case.itemsize for size in (8, 16))} - {0}):
        for which in range(arrays):
            placement = Placement(offsets=tuple(offset * (i == which) for i in range(arrays)))
            check(case, exact=True, placement=placement)


@pytest.mark.builds("least")
def test_ends_of_every_length(check: Check, build: Build) -> None:
    """Check equality to the bit on sizes that end everywhere between one tile and the next."""
    for case in ends(build):
        check(case, exact=True)


@pytest.mark.builds("oblong")
def test_blocks_that_are_not_square(check: Check, build: Build) -> None:
    """Check equality to the bit, with a block longer along x, and with one longer along y."""
    for case in several_blocks(build):
        check(case, exact=True)


@pytest.mark.builds("least", where=branch_changes)
def test_sizes_at_which_a_kernel_takes_another_branch(check: Check, build: Build) -> None:
    """Check equality to the bit on both sides of such a size."""
    for case in branch_changes(build):
        check(case, exact=True)


@pytest.mark.builds("least", where=lambda build: build.variant.takes_padding)
def test_rows_further_apart_than_they_are_long(check: Check, build: Build) -> None:
    """Check equality to the bit with poison between the rows, which must be neither read nor written."""
    check(aligned(build), exact=True, placement=Placement(padding=3))
