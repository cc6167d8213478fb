"""Every kernel where kernels go wrong: lines, single elements, one off a block, unaligned arrays."""

from __future__ import annotations

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.declaration import Case
from warpwatch.catalogue.selection import builds, edge_cases, unaligned_cases
from warpwatch.devices.placement import Placement
from warpwatch.devices.worker import Kernel
from warpwatch.plugin.verify import assert_right, command


@pytest.mark.cases(edge_cases(FAMILIES))
def test_edge(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Bit for bit, on ones, on lines, and on sizes one less and one more than the block."""
    assert_right(kernel, case, command(request), exact=True)


@pytest.mark.cases(unaligned_cases(FAMILIES))
def test_unaligned(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Bit for bit, with every array one element past the alignment of an allocation."""
    arrays = len(case.family.operands(case.shape)) + 1
    assert_right(kernel, case, command(request), exact=True, placement=Placement(offsets=(1,) * arrays))


@pytest.mark.cases([Case(build, (80, 70, 65)) for build in builds(FAMILIES) if build.variant.constant])
def test_filter_larger_than_constant_memory_has_room_for(
    kernel: Kernel, case: Case, request: pytest.FixtureRequest
) -> None:
    """Bit for bit, though only a part of the filter is there."""
    assert_right(kernel, case, command(request), exact=True)
