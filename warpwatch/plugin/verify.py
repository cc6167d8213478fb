"""Runs a case and compares it with NumPy; a failure describes the fault for the kernel's developer."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.names import print_short
from warpwatch.devices import memory
from warpwatch.devices.check import compare, explain
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.worker import Kernel
from warpwatch.plugin.options import spelled, value_of

# Copies of operands and result: as sent, as received, in the memory of a device that uses the host's, and as received
# for the reference.
COPIES = 5


def assert_right(
    kernel: Kernel, case: Case, again: str, *, exact: bool, placement: Placement = PLAIN, seed: int = 0
) -> None:
    """Fail the test unless the result is right and nothing else was written.

    ``exact``: inputs are whole numbers whose sums are exact in any order, so that results must be equal to the bit;
    where the family says that they are. Otherwise inputs are random, and the family's tolerance applies.
    ``placement``: the layout of arrays and blocks. ``again``: the command that runs this test alone, for the message.
    """
    memory.require(case, memory.peak_bytes(case, copies=COPIES))
    exact = exact and case.family.exact
    try:
        inputs = kernel.inputs(case, seed, exact=exact)
        outcome = kernel.run(case.shape, inputs, placement)
        rights = kernel.expected(case, inputs, exact=exact)
    except DeviceError as error:
        raise DeviceError(with_command(str(error), again), error.lost) from None
    problems = []
    for name, right in rights.items():
        got = outcome.results[name]
        # Whole numbers are exact until the result is rounded to its type.
        reference = right.reference.astype(got.dtype) if exact else right.reference
        mismatch = compare(got, reference, right.bound)
        if mismatch:
            problems.append(explain(case, name, mismatch, again, _offset(case, name, placement), outcome.notes))
    problems += [f"{case.id} {damage}\n  again     {again}" for damage in outcome.damage]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def _offset(case: Case, name: str, placement: Placement) -> int:
    """Return how many elements a result starts past the alignment of an allocation."""
    return next((placement.offset(i, array) for i, array in enumerate(case.arrays) if array.name == name), 0)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Runs a case and fails the test unless the result is right, as ``check()``.

    ``case``: of a test that is marked with cases; None for one that is marked with builds. ``again``: the command that
    runs this test alone. ``by_hand``: options of this run for ``warpwatch run``.
    """

    kernel: Kernel
    case: Case | None
    again: str
    by_hand: str = ""

    def __repr__(self) -> str:
        return f"Check({self.case.id if self.case else self.kernel.build.id})"

    _repr_pretty_ = print_short

    def __call__(
        self, case: Case | None = None, *, exact: bool = False, placement: Placement = PLAIN, seed: int | None = None
    ) -> None:
        """Check the test's own case, or another of its build, by ``assert_right``.

        ``seed``: of the random operands. Where it is given, the message names the command that runs that one case.
        """
        chosen = case or self.case
        if chosen is None:
            pytest.fail("check() needs a case where the test is marked with builds: check(case)", pytrace=False)
        again = self.again if seed is None else f"python -m warpwatch run {chosen.id} --seed {seed}{self.by_hand}"
        assert_right(self.kernel, chosen, again, exact=exact, placement=placement, seed=seed or 0)


def with_command(message: str, again: str) -> str:
    """Return the message with the command that repeats it at its end, if it has none yet."""
    return message if "\n  again     " in message else f"{message}\n  again     {again}"


def command_of(item: pytest.Item) -> str:
    """Return the command that runs a test: ``pytest "correctness/test_kernels.py::test_exact[...]"`` with options."""
    options = _chosen(item.config, spelled(item.config, "device"), spelled(item.config, "schedule-seed"))
    return f'pytest "{item.nodeid}"{options}'


def options_by_hand(config: pytest.Config) -> str:
    """Return the options of this run that change what a kernel does, for the command ``warpwatch run``."""
    return _chosen(config, "--device", "--schedule-seed")


def _chosen(config: pytest.Config, device_option: str, seed_option: str) -> str:
    """Return those options, if they were given: `` --device software --schedule-seed 3``."""
    device, seed = value_of(config, "device"), value_of(config, "schedule-seed")
    return ("" if device == "auto" else f" {device_option} {device}") + (
        "" if seed is None else f" {seed_option} {seed}"
    )
