"""Runs a case and compares it with NumPy; a failure describes the fault for the kernel's developer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.draws import has_few_cases
from warpwatch.catalogue.names import print_short
from warpwatch.devices import memory
from warpwatch.devices.check import WrongResult
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.worker import Kernel
from warpwatch.plugin.options import spelled, value_of

# Copies of operands and result: as drawn, as read back, in the memory of a device that uses the host's, of further
# inputs, and as the reference computes with them.
COPIES = 6
FAILURES = pytest.StashKey[list[str]]()  # of a test: messages of its checks that failed
LEFT_OUT = "further inputs left out"  # the property of JUnit's file that says why


def assert_right(
    kernel: Kernel,
    case: Case,
    again: str,
    *,
    exact: bool,
    placement: Placement = PLAIN,
    seed: int = 0,
    launches: int = 1,
    further: bool = False,
) -> str:
    """Fail the test unless the result is right and nothing else was written.

    ``exact``: inputs are whole numbers whose sums are exact in any order, so that results must be equal to the bit;
    where the family says that they are. Otherwise inputs are random, and the family's tolerance applies.
    ``placement``: the layout of arrays and blocks. ``again``: the command that runs this test alone, for the message.
    ``launches``: on these inputs, all of them compared. ``further``: other inputs are tried too (catalogue/draws.py).
    Returns why they were not, or an empty text.
    """
    memory.require(case, memory.peak_bytes(case, copies=COPIES))
    try:
        problems, left_out = kernel.try_case(
            case, again, placement, seed=seed, launches=launches, exact=exact, further=further
        )
    except DeviceError as error:
        raise DeviceError(with_command(str(error), again), error.lost) from None
    if problems:
        failure = pytest.fail.Exception("\n".join(problems), pytrace=False)
        failure.__context__ = WrongResult(str(failure))  # its kind, for the record of this run
        raise failure from None
    return left_out


@dataclass(frozen=True, kw_only=True)
class Check:
    """Runs a case and fails the test unless the result is right, as ``check()``.

    ``case``: of a test that is marked with cases; None for one that is marked with builds. ``again``: the command that
    runs this test alone. ``by_hand``: options of this run for ``warpwatch run``. ``launches``: of a case on one of the
    shapes that its family is tested on, unless its cost is above ``cheap``. ``of_cheapest``: of the cheapest case of a
    kernel. ``launched``: such cases, and the test that launched each so often: other tests of it need not.
    ``properties``: of the test, to which is added why no further inputs were tried. ``failures``: messages of the
    checks that failed, whatever the test makes of them.
    """

    kernel: Kernel
    case: Case | None
    again: str
    by_hand: str = ""
    launches: int = 1
    cheap: float = math.inf
    of_cheapest: int = 0
    launched: dict[str, str] = field(default_factory=dict)
    properties: list[tuple[str, object]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

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
        repeats = chosen == self.case and self._is_repeated(chosen)
        launches = self._launches(chosen) if repeats and self.launched.setdefault(chosen.id, again) == again else 1
        try:
            left_out = assert_right(
                self.kernel,
                chosen,
                again,
                exact=exact,
                placement=placement,
                seed=seed or 0,
                launches=launches,
                further=repeats,
            )
        except (Exception, pytest.fail.Exception) as error:
            self.failures.append(str(error))
            raise
        if left_out:
            self.properties.append((LEFT_OUT, left_out))

    def _launches(self, case: Case) -> int:
        """Return how often a case is launched: more often where that is the cheapest of its kernel, because it counts.

        What a kernel leaves behind for its next launches depends on its source more than on blocks and shapes.
        """
        family, variant = case.family, case.variant
        first = Build(family, variant, variant.listed[0], family.dtypes_of(variant)[0])
        cheapest = min(family.tests, key=lambda shape: Case(first, shape).launch_cost)
        return max(self.launches, self.of_cheapest) if case == Case(first, cheapest) else self.launches

    def _is_repeated(self, case: Case) -> bool:
        """Tell whether a case is launched several times: a tested one that is cheap, or the cheapest of its build.

        Where a kernel has few cases, its edges and other shapes count as tested ones.
        """
        tests = case.family.tests
        if case.shape not in tests or case.launch_cost <= self.cheap:
            return case.launch_cost <= self.cheap and (case.shape in tests or has_few_cases(case))
        return case.launch_cost == min(Case(case.build, shape).launch_cost for shape in tests)


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
