"""Every kernel against NumPy on the shapes of its family."""

from __future__ import annotations

import pytest

from correctness.verify import assert_right, command
from kernels import FAMILIES
from kernels.catalogue import Case
from kernels.declared import problems
from kernels.selection import tested_cases
from kernels.worker import Kernel


@pytest.mark.cases(tested_cases(FAMILIES), problems(FAMILIES))
def test_exact(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Bit for bit NumPy's, on whole numbers that every order of summation adds exactly."""
    assert_right(kernel, case, command(request), exact=True)


@pytest.mark.cases(tested_cases(FAMILIES))
def test_random(kernel: Kernel, case: Case, request: pytest.FixtureRequest) -> None:
    """Within the bound that theory gives, on random numbers; transposes and integers bit for bit."""
    assert_right(kernel, case, command(request), exact=False)
