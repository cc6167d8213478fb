"""Units of tests that a process of xdist runs as a whole, and their order, in which none waits for others at the end.

Where times are taken, the cases of one shape are a unit, because they share inputs and reference. Where results are
tested, the tests of a variant in a file are one. A library of a vendor, which takes seconds to load, is loaded by one
process as long as the others have something else to do.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

import pytest

from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.calls import Driver, Requirement
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.catalogue.validation import sound
from warpwatch.catalogue.variants import Variant
from warpwatch.devices.info import DeviceInfo
from warpwatch.plugin.cases import parameter_in, parameter_of
from warpwatch.plugin.device import MODEL, PROJECT, open_device
from warpwatch.plugin.options import names_benchmark
from warpwatch.plugin.xdist.processes import is_first
from warpwatch.timing.inputs import sharing_key

# For the order of cases alone: what one core computes and moves in a second, at the reference and its comparison, and
# how long samples take on a GPU.
OPERATIONS_A_SECOND, BYTES_A_SECOND, SERIAL_ROUNDS, SAMPLES_SECONDS = 5e10, 1e9, 2, 0.1
UNITS_A_PART = 4  # with fewer units for each process, one would wait for the others at the end


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler of tests of results, several of which may run on one GPU."""
    if PROJECT not in config.stash or not is_first(config) or config.option.dist != "load":
        return None
    project = config.stash[PROJECT]
    if names_benchmark(config, project.root) or not _has_gpu(config):
        return None
    return scheduler_of_results(config, log, project.families)


def _has_gpu(config: pytest.Config) -> bool:
    """Tell whether kernels run on a GPU: the software device runs no library, and skips such tests."""
    if config.stash[MODEL]:
        return True
    device = open_device(config)
    return isinstance(device, DeviceInfo) and device.has_gpu_clock


def scheduler_of_results(config: pytest.Config, log: Any, families: tuple[Family, ...]) -> Any:
    """Return a scheduler for tests of results; None where no kernel calls a library."""
    libraries = libraries_of_variants(families)
    if not any(libraries.values()):
        return None
    scheduler = _scheduler(config, log)
    scheduler._split_scope = functools.partial(unit_of, variants=libraries)
    load_once(scheduler, lambda unit: libraries.get(unit.rpartition("::")[2], set()))
    return scheduler


def scheduler_of_times(
    config: pytest.Config, log: Any, project: Project, progress: Callable[[int, int], None] | None
) -> Any:
    """Return a scheduler for a benchmark, which reports progress; None where --dist asks for another one."""
    if config.option.dist != "load":
        return None
    scheduler = _scheduler(config, log)
    cases, units = {case.id: case for case in timed_cases(project.families)}, dict[str, str]()

    def unit_of_case(test: str) -> str:
        if not units:
            chosen = [case for name in scheduler.collection if (case := cases.get(parameter_in(name)))]
            units.update(units_of(chosen, scheduler.numnodes))
        return units.get(parameter_in(test), test)

    def libraries_of(unit: str) -> set[Requirement]:
        return set().union(*(_libraries(cases[name].variant) for name, of in units.items() if of == unit))

    scheduler._split_scope = unit_of_case
    load_once(scheduler, libraries_of)
    if progress:
        _report_progress(scheduler, progress)
    return scheduler


def _scheduler(config: pytest.Config, log: Any) -> Any:
    """Return a scheduler of xdist's that gives a unit to whichever process is free, in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # noqa: PLC0415  # xdist is there

    config.option.loadscopereorder = False
    return LoadScopeScheduling(config, log)


def _report_progress(scheduler: Any, progress: Callable[[int, int], None]) -> None:
    """Call ``progress`` with the number of tests that have ended, and of all."""
    complete, done = scheduler.mark_test_complete, 0

    def count(*args: Any, **kwargs: Any) -> None:
        nonlocal done
        complete(*args, **kwargs)
        done += 1
        progress(done, len(scheduler.collection or ()))

    scheduler.mark_test_complete = count


def load_once(scheduler: Any, libraries_of: Callable[[str], Set[Any]]) -> None:
    """Let a scheduler pass over units for which a process would load a library that another one has loaded.

    cuBLAS takes 2 s to load and cuDNN 1.3 (H200). Where only such units are left, the first of them is taken.
    """
    assign, loaded = scheduler._assign_work_unit, defaultdict[Any, set[Any]](set)
    cached = functools.cache(libraries_of)

    def assign_fitting(node: Any) -> None:
        elsewhere = set().union(*loaded.values()) - loaded[node]
        queue = scheduler.workqueue
        unit = next((name for name in queue if not cached(name) & elsewhere), next(iter(queue)))
        queue.move_to_end(unit, last=False)
        loaded[node] |= cached(unit)
        assign(node)

    scheduler._assign_work_unit = assign_fitting


def _libraries(variant: Variant) -> set[Requirement]:
    """Return what must be loaded for a variant; the driver is there already."""
    return {need for need in (variant.call.needs if variant.call else ()) if not isinstance(need, Driver)}


def libraries_of_variants(families: tuple[Family, ...]) -> Mapping[str, Set[Requirement]]:
    """Return what must be loaded for each variant, by the beginning of its builds' ids."""
    return {f"{family.name}-{variant.name}-": _libraries(variant) for family, variant in sound(families)}


def unit_of(test: str, variants: Mapping[str, object]) -> str:
    """Return the unit of a test of results: its file and its variant, or the test itself where it has none."""
    beginning = "-".join(parameter_in(test).split("-")[:2]) + "-"
    return f"{test.partition('::')[0]}::{beginning}" if beginning in variants else test


def units_of(cases: Collection[Case], parts: int) -> dict[str, str]:
    """Return, for each timed case by its id, the unit that it belongs to.

    Where shapes give ``parts`` processes too few units, each case is one.
    """
    units = {case.id: str(sharing_key(case)) for case in cases}
    enough = len(set(units.values())) >= UNITS_A_PART * parts
    return units if enough else {name: name for name in units}


def seconds_of(case: Case) -> float:
    """Return a rough estimate of how long a case takes."""
    if case.variant.on_host:
        return SERIAL_ROUNDS * float(call(case.family.serial_seconds, case.given))
    return SAMPLES_SECONDS + case.work.operations / OPERATIONS_A_SECOND + case.array_bytes / BYTES_A_SECOND


def longest_first(items: list[pytest.Item], parts: int) -> None:
    """Sort tests by unit so that long units come first, and no GPU is left with one when the others are done."""
    cases = {item: case for item in items if isinstance(case := parameter_of(item), Case)}
    units, seconds = units_of(cases.values(), parts), defaultdict[str, float](float)
    for case in cases.values():
        seconds[units[case.id]] += seconds_of(case)

    def place(item: pytest.Item) -> tuple[float, str]:
        unit = units[cases[item].id] if item in cases else ""
        return -seconds[unit], unit

    items.sort(key=place)
