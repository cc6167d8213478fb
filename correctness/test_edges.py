"""Tests every kernel on lines, single elements, sizes next to its tile, and unaligned arrays."""

from __future__ import annotations

import pytest

from warpwatch.testing import Case, Check, Placement


@pytest.mark.cases("edges")
def test_edge(check: Check) -> None:
    """Check equality to the bit on shapes of ones, on lines, and on sizes one less and one more than the tile."""
    check(exact=True)


@pytest.mark.cases("unaligned")
def test_unaligned(check: Check, case: Case) -> None:
    """Check equality to the bit with every array one element past the alignment of an allocation."""
    check(exact=True, placement=Placement(offsets=(1,) * len(case.arrays)))


@pytest.mark.cases(shapes=[(80, 70, 65)], where=lambda case: case.variant.symbols)
def test_filter_larger_than_constant_memory(check: Check) -> None:
    """Check equality to the bit where constant memory holds only a part of the filter."""
    check(exact=True)


@pytest.mark.cases(
    shapes=[(259, 520, 7), (20, 516, 7)],
    where=lambda case: case.family.name in {"conv2d", "separable"} and case.variant.name in {"columns", "paired"},
)
def test_largest_unrolled_filter_on_aligned_rows(check: Check, case: Case) -> None:
    """Check equality to the bit on rows that are aligned to 16 bytes, and with an image or a result that is not."""
    result = len(case.arrays) - 1
    for offsets in ((), (1,), (0,) * result + (1,)):
        check(exact=True, placement=Placement(offsets=offsets))
    check(exact=True, placement=Placement(grid_y=1))


@pytest.mark.slow
@pytest.mark.cases(shapes=[(4_400_001,)], where=lambda case: case.build.id == "reduce-vectorised-512-float32")
def test_share_of_several_rounds(check: Check) -> None:
    """Check a sum of which each of all resident blocks has more than it loads at a time, to the bit."""
    check(exact=True)


@pytest.mark.slow
@pytest.mark.cases(
    shapes=[(17_400_001, 256)],
    where=lambda case: case.family.name == "histogram" and case.variant.name in {"columns", "pipelined"},
)
def test_share_of_several_rounds_of_bytes(check: Check) -> None:
    """Check a histogram of which each of all resident blocks has more than it loads at a time."""
    check(exact=True)
