"""Tests every kernel on lines, single elements, sizes next to its tile, and unaligned arrays."""

from __future__ import annotations

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.corners import edge_cases
from warpwatch.catalogue.declaration import Case
from warpwatch.catalogue.selection import builds, unaligned_cases
from warpwatch.devices.placement import Placement
from warpwatch.devices.worker import Kernel
from warpwatch.plugin.verify import assert_right, command


@pytest.mark.cases(edge_cases(FAMILIES))
def test_edge(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Check equality to the bit on shapes of ones, on lines, and on sizes one less and one more than the tile."""
    assert_right(kernel, case, command(request), exact=True)


@pytest.mark.cases(unaligned_cases(FAMILIES))
def test_unaligned(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Check equality to the bit with every array one element past the alignment of an allocation."""
    arrays = len(case.family.operands(case.shape)) + 1
    assert_right(kernel, case, command(request), exact=True, placement=Placement(offsets=(1,) * arrays))


@pytest.mark.cases([Case(build, (80, 70, 65)) for build in builds(FAMILIES) if build.variant.constant])
def test_filter_larger_than_constant_memory(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Check equality to the bit where constant memory holds only a part of the filter."""
    assert_right(kernel, case, command(request), exact=True)
