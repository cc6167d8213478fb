"""Run a case and hold it against NumPy; a failure says what a kernel's developer needs."""

from __future__ import annotations

import pytest

from warpwatch.catalogue.declaration import Case
from warpwatch.devices import memory
from warpwatch.devices.check import compare, explain
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.runner import exact_operands, expected, random_operands
from warpwatch.devices.worker import Kernel

# Of operands and result: as they are sent, as they arrive, and in the memory of a device that is the host's own.
COPIES = 4


def assert_right(
    kernel: Kernel, case: Case, again: str, *, exact: bool, placement: Placement = PLAIN, seed: int = 0
) -> None:
    """Fail unless the result is right and nothing else was written.

    ``exact``: whole numbers whose sums no order of summation rounds, so equality to the bit is due. Otherwise
    random numbers, and the bound that theory gives. ``placement``: how arrays and blocks are laid out. ``again``:
    the command that runs just this, for the message.
    """
    memory.require(case, memory.peak_bytes(case, copies=COPIES))
    operands = (exact_operands if exact else random_operands)(case, seed)
    try:
        outcome = kernel.run(case.shape, operands, placement)
    except DeviceError as error:
        raise DeviceError(with_command(str(error), again), error.lost) from None
    reference, bound = expected(case, operands)
    problems = [f"{case.id} {damage}\n  again     {again}" for damage in outcome.damage]
    mismatch = compare(outcome.result, reference, 0.0 if exact else bound)
    if mismatch:
        problems.insert(0, explain(case, mismatch, again, placement.offset(len(operands))))
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def with_command(message: str, again: str) -> str:
    """The message with the command that runs just this at its end, if it has none yet."""
    return message if "\n  again     " in message else f"{message}\n  again     {again}"


def command(request: pytest.FixtureRequest) -> str:
    """The command that runs the present test alone, with the options of this run that change what a kernel does."""
    return command_of(request.node)


def command_of(item: pytest.Item) -> str:
    """The same for a test: ``pytest "correctness/test_kernels.py::test_exact[...]" --schedule-seed 3``."""
    return f'pytest "{item.nodeid}"{chosen_options(item.config)}'


def chosen_options(config: pytest.Config) -> str:
    """The options of this run that change what a kernel does: `` --device software --schedule-seed 3``."""
    device, seed = config.getoption("--device"), config.getoption("--schedule-seed")
    return ("" if device == "auto" else f" --device {device}") + ("" if seed is None else f" --schedule-seed {seed}")
