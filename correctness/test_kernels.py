"""Compares every kernel with NumPy on the shapes of its family."""

from __future__ import annotations

import pytest

from warpwatch.testing import Check


@pytest.mark.cases("tested")
def test_exact(check: Check) -> None:
    """Check equality to the bit on whole numbers, whose sums are exact in any order."""
    check(exact=True)


@pytest.mark.cases("tested")
def test_random(check: Check) -> None:
    """Check the bound from theory on random numbers; transposes and integers must be equal to the bit."""
    check()
