"""Run a case and hold it against NumPy; a failure says what a kernel's developer needs."""

from __future__ import annotations

import pytest

from kernels.catalogue import Case
from kernels.check import compare, explain
from kernels.runner import exact_operands, expected, random_operands
from kernels.worker import Kernel


def assert_right(kernel: Kernel, case: Case, again: str, *, exact: bool, offset: int = 0, seed: int = 0) -> None:
    """Fail unless the result is right and nothing else was written.

    ``exact``: whole numbers whose sums no order of summation rounds, so equality to the bit is due. Otherwise
    random numbers, and the bound that theory gives. ``offset``: elements that each array starts past the
    alignment of an allocation. ``again``: the command that runs just this, for the message.
    """
    operands = (exact_operands if exact else random_operands)(case, seed)
    outcome = kernel.run(case.shape, operands, offset)
    reference, bound = expected(case, operands)
    problems = [f"{case.id} {damage}\n  again     {again}" for damage in outcome.damage]
    mismatch = compare(outcome.result, reference, 0.0 if exact else bound)
    if mismatch:
        problems.insert(0, explain(case, mismatch, again, offset))
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def command(request: pytest.FixtureRequest) -> str:
    """The command that runs the present test alone."""
    return f'pytest "{request.node.nodeid}"'
