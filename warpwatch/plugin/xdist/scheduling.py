"""Units of tests that a process of xdist runs as a whole, and their order, in which none waits for others at the end.

Where times are taken, the cases of one shape are a unit, because they share inputs and reference. Where results are
tested, the tests of a variant in a file are one. A library of a vendor, which takes seconds to load, is loaded by one
process as long as the others have something else to do.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from warpwatch.catalogue.calls import Driver, Requirement
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.named_arguments import call
from warpwatch.catalogue.selection import timed_cases
from warpwatch.catalogue.validation import sound
from warpwatch.catalogue.variants import Variant
from warpwatch.plugin.cases import parameter_in, parameter_of
from warpwatch.timing.inputs import sharing_key

# For the order of cases alone: what one core computes and moves in a second, at the reference and its comparison, and
# how long samples take on a GPU.
OPERATIONS_A_SECOND, BYTES_A_SECOND, SERIAL_ROUNDS, SAMPLES_SECONDS = 5e10, 1e9, 2, 0.1
UNITS_A_PART = 4  # with fewer units for each process, one would wait for the others at the end


class Units(LoadScopeScheduling):  # type: ignore[misc]  # which xdist does not declare
    """Scheduler that gives a unit to whichever process is free, in the order of the tests.

    It passes over units for which a process would load a library that another one has loaded: cuBLAS takes 2 s to load,
    cuDNN 1.3 and PyTorch 4 (H200). Where only such units are left, the first of them is taken. The tests of a variant
    in a file are a unit, and each other test is one. Units that need a library come first, so that no process is left
    with the tests of one when the others are done.
    """

    libraries_first = True

    def __init__(self, config: pytest.Config, log: Any, families: Iterable[Family]) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self.libraries = {f"{family.name}-{variant.name}-": _libraries(variant) for family, variant in sound(families)}
        self._loaded = defaultdict[Any, set[Requirement]](set)

    def _split_scope(self, nodeid: str) -> str:
        variant = _variant(nodeid)
        return f"{nodeid.partition('::')[0]}::{variant}" if variant in self.libraries else nodeid

    def _needs(self, unit: str) -> set[Requirement]:
        return set().union(*(self.libraries.get(_variant(test), set()) for test in self.workqueue[unit]))

    def _assign_work_unit(self, node: Any) -> None:
        if self.libraries_first and not self._loaded:  # this is the first unit of all
            for name in reversed([name for name in self.workqueue if self._needs(name)]):
                self.workqueue.move_to_end(name, last=False)
        elsewhere = set().union(*self._loaded.values()) - self._loaded[node]
        unit = next((name for name in self.workqueue if not self._needs(name) & elsewhere), next(iter(self.workqueue)))
        self.workqueue.move_to_end(unit, last=False)
        self._loaded[node] |= self._needs(unit)
        super()._assign_work_unit(node)


class TimedUnits(Units):
    """Scheduler of a benchmark, where the cases of a shape are a unit if there are enough shapes: long ones come first.

    ``progress``: is told the number of tests that have ended, and of all.
    """

    libraries_first = False

    def __init__(
        self, config: pytest.Config, log: Any, families: Iterable[Family], progress: Callable[[int, int], None] | None
    ) -> None:
        super().__init__(config, log, families)
        self._cases, self._progress, self._done = {case.id: case for case in timed_cases(families)}, progress, 0

    @functools.cached_property
    def _units(self) -> dict[str, str]:
        chosen = [case for name in self.collection if (case := self._cases.get(parameter_in(name)))]
        return units_of(chosen, self.numnodes)

    def _split_scope(self, nodeid: str) -> str:
        return self._units.get(parameter_in(nodeid), nodeid)

    def mark_test_complete(self, *args: Any, **kwargs: Any) -> None:
        super().mark_test_complete(*args, **kwargs)
        self._done += 1
        if self._progress:
            self._progress(self._done, len(self.collection or ()))


def _variant(test: str) -> str:
    """Return the beginning of the id of a test's case or build, which names family and variant."""
    return "-".join(parameter_in(test).split("-")[:2]) + "-"


def _libraries(variant: Variant) -> set[Requirement]:
    """Return what must be loaded for a variant; the driver is there already."""
    return {need for need in (variant.call.needs if variant.call else ()) if not isinstance(need, Driver)}


def units_of(cases: Collection[Case], parts: int) -> dict[str, str]:
    """Return, for each timed case by its id, the unit that it belongs to.

    Where shapes give ``parts`` processes too few units, each case is one.
    """
    units = {case.id: str(sharing_key(case)) for case in cases}
    enough = len(set(units.values())) >= UNITS_A_PART * parts
    return units if enough else {name: name for name in units}


def _seconds(case: Case) -> float:
    """Return a rough estimate of how long a case takes."""
    if case.variant.on_host:
        return SERIAL_ROUNDS * float(call(case.family.serial_seconds, case.given))
    return SAMPLES_SECONDS + case.work.operations / OPERATIONS_A_SECOND + case.array_bytes / BYTES_A_SECOND


def longest_first(items: list[pytest.Item], parts: int) -> None:
    """Sort tests by unit so that long units come first, and no GPU is left with one when the others are done."""
    cases = {item: case for item in items if isinstance(case := parameter_of(item), Case)}
    units, seconds = units_of(cases.values(), parts), defaultdict[str, float](float)
    for case in cases.values():
        seconds[units[case.id]] += _seconds(case)

    def place(item: pytest.Item) -> tuple[float, str]:
        unit = units[cases[item].id] if item in cases else ""
        return -seconds[unit], unit

    items.sort(key=place)
