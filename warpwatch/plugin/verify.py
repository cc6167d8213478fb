"""Runs a case and compares it with NumPy; a failure describes the fault for the kernel's developer."""

from __future__ import annotations

import pytest

from warpwatch.catalogue.declaration import Case
from warpwatch.catalogue.inputs import exact_inputs, random_inputs
from warpwatch.devices import memory
from warpwatch.devices.check import compare, explain
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.runner import expected
from warpwatch.devices.worker import Kernel

# Copies of operands and result: as sent, as received, and in the memory of a device that uses the host's.
COPIES = 4


def assert_right(
    kernel: Kernel, case: Case, again: str, *, exact: bool, placement: Placement = PLAIN, seed: int = 0
) -> None:
    """Fail the test unless the result is right and nothing else was written.

    ``exact``: operands are whole numbers whose sums are exact in any order, so the result must be equal to the bit.
    Otherwise they are random, and the bound from theory applies. ``placement``: the layout of arrays and blocks.
    ``again``: the command that runs this test alone, for the message.
    """
    memory.require(case, memory.peak_bytes(case, copies=COPIES))
    inputs = (exact_inputs if exact else random_inputs)(case, seed)
    try:
        outcome = kernel.run(case.shape, inputs, placement)
    except DeviceError as error:
        raise DeviceError(with_command(str(error), again), error.lost) from None
    problems = []
    for name, right in expected(case, inputs).items():
        got = outcome.results[name]
        # Whole numbers are exact until the result is rounded to its type.
        mismatch = (
            compare(got, right.reference.astype(got.dtype), 0.0)
            if exact
            else compare(got, right.reference, right.bound)
        )
        if mismatch:
            problems.append(explain(case, name, mismatch, again, _offset(case, name, placement)))
    problems += [f"{case.id} {damage}\n  again     {again}" for damage in outcome.damage]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def _offset(case: Case, name: str, placement: Placement) -> int:
    """Return how many elements a result starts past the alignment of an allocation."""
    return next((placement.offset(i, array) for i, array in enumerate(case.arrays) if array.name == name), 0)


def with_command(message: str, again: str) -> str:
    """Return the message with the command that repeats it at its end, if it has none yet."""
    return message if "\n  again     " in message else f"{message}\n  again     {again}"


def command(request: pytest.FixtureRequest) -> str:
    """Return the command that runs the present test alone, with the options that change what a kernel does."""
    return command_of(request.node)


def command_of(item: pytest.Item) -> str:
    """Return the command that runs a test: ``pytest "correctness/test_kernels.py::test_exact[...]"`` with options."""
    return f'pytest "{item.nodeid}"{chosen_options(item.config)}'


def chosen_options(config: pytest.Config) -> str:
    """Return the options of this run that change what a kernel does: `` --device software --schedule-seed 3``."""
    device, seed = config.getoption("--device"), config.getoption("--schedule-seed")
    return ("" if device == "auto" else f" --device {device}") + ("" if seed is None else f" --schedule-seed {seed}")
