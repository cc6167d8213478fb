"""Every kernel where kernels go wrong: lines, single elements, one off a block, unaligned arrays."""

from __future__ import annotations

import pytest

from correctness.verify import assert_right, command
from kernels import FAMILIES
from kernels.catalogue import Case
from kernels.selection import edge_cases, unaligned_cases
from kernels.worker import Kernel


@pytest.mark.cases(edge_cases(FAMILIES))
def test_edge(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Bit for bit, on ones, on lines, and on sizes one less and one more than the block."""
    assert_right(kernel, case, command(request), exact=True)


@pytest.mark.cases(unaligned_cases(FAMILIES))
def test_unaligned(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Bit for bit, with every array one element past the alignment of an allocation."""
    assert_right(kernel, case, command(request), exact=True, offset=1)
