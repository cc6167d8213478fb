"""Compares every kernel with NumPy on the shapes of its family."""

from __future__ import annotations

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.declaration import Case
from warpwatch.catalogue.selection import tested_cases
from warpwatch.catalogue.validation import problems
from warpwatch.devices.worker import Kernel
from warpwatch.plugin.verify import assert_right, command


@pytest.mark.cases(tested_cases(FAMILIES), problems(FAMILIES))
def test_exact(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Check equality to the bit on whole numbers, whose sums are exact in any order."""
    assert_right(kernel, case, command(request), exact=True)


@pytest.mark.cases(tested_cases(FAMILIES))
def test_random(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Check the bound from theory on random numbers; transposes and integers must be equal to the bit."""
    assert_right(kernel, case, command(request), exact=False)
