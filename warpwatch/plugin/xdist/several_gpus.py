"""Runs a benchmark in processes of xdist (-n, --tx): each has a GPU of its own, and the first one joins the results.

Each process measures the cases that xdist gives it and judges them by itself, with the noise floors and the process
effect of its own GPU; pairs stay on one GPU. What it found goes to the first process, which writes one saved run.
"""

from __future__ import annotations

import functools
import os
import pickle
import platform
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pytest

from warpwatch.catalogue.by_name import call
from warpwatch.catalogue.calls import Driver, Requirement
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.parts import Part
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.plugin.cases import parameter_of
from warpwatch.plugin.device import is_part
from warpwatch.timing.checks import sharing_key

SLUG = "warpwatch_slug"  # in what the first process hands to the others: the model of its GPU
SENT = "warpwatch_part"  # in what a process of xdist hands to the first one at its end
NOT_SHARED = (
    "times are taken under -n only where bench/ is named, so that each process has a GPU of its own: leave -n out"
)
# For the order of cases alone: what one core computes and moves in a second, at the reference and its comparison, and
# how long samples take on a GPU.
OPERATIONS_A_SECOND, BYTES_A_SECOND, SERIAL_ROUNDS, SAMPLES_SECONDS = 5e10, 1e9, 2, 0.1
UNITS_A_PART = 4  # with fewer units for each process, one would wait for the others at the end


def number_of_parts(config: pytest.Config) -> int:
    """Return the number of processes that measure."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) if is_part(config) else 1


def objection_to_parts(config: pytest.Config, device: DeviceInfo | NoDevice) -> str:
    """Refuse more processes than GPUs; empty where each gets its own. The software device's times prove nothing."""
    asked = int(config.getoption("numprocesses", None) or 0)
    if not isinstance(device, DeviceInfo) or not device.has_gpu_clock or asked <= device.count:
        return ""
    cure = f"give -n {device.count}" if device.count > 1 else "leave -n out"
    gpus = "there is one GPU" if device.count == 1 else f"there are {device.count} GPUs"
    return f"-n {asked}: {gpus} here, and processes that share a GPU would time each other: {cure}"


def objection_to_model(config: pytest.Config, gpu: Mapping[str, Any]) -> str:
    """Refuse, in a process of xdist, a GPU of another model than the first process has; empty where they are alike."""
    wanted, here = getattr(config, "workerinput", {}).get(SLUG, ""), gpu.get("slug", "")
    if wanted in ("", here):
        return ""
    return (
        f"{platform.node()} has {here or 'no GPU'} and the first process {wanted}: one run measures GPUs of one model; "
        "leave this host out, or run it by itself"
    )


def measure_here(config: pytest.Config) -> None:
    """Let pytest-benchmark measure, which under xdist it does not, and leave saving to the first process."""
    benchmark = config._benchmarksession  # type: ignore[attr-defined]
    benchmark.disabled = config.option.benchmark_disable and not config.option.benchmark_enable
    benchmark.xdist_benchmark_found = False  # or it says that it is disabled
    if is_part(config):
        benchmark.save = benchmark.autosave = benchmark.json = None


def announce(item: pytest.Item) -> None:
    """Tell xdist, in one of its processes, of which test the next reports are: not of the last one that ran."""
    for plugin in item.config.pluginmanager.get_plugins() if is_part(item.config) else ():
        if hasattr(plugin, "item_index"):
            plugin.item_index = item.session.items.index(item)


def seconds_of(case: Case) -> float:
    """Return a rough estimate of how long a case takes."""
    if case.variant.on_host:
        return SERIAL_ROUNDS * float(call(case.family.serial_seconds, case.given))
    return SAMPLES_SECONDS + case.work.operations / OPERATIONS_A_SECOND + case.array_bytes / BYTES_A_SECOND


def units_of(cases: Collection[Case], parts: int) -> dict[str, str]:
    """Return, for each case by its id, the unit that it belongs to: one process measures all cases of a unit.

    The cases of one shape are a unit, because they share inputs and reference, which each process makes for itself.
    Where that gives ``parts`` processes too few units, each case is one.
    """
    units = {case.id: str(sharing_key(case)) for case in cases}
    enough = len(set(units.values())) >= UNITS_A_PART * parts
    return units if enough else {name: name for name in units}


def longest_first(items: list[pytest.Item], parts: int) -> None:
    """Sort tests by unit so that long units come first, and no GPU is left with one when the others are done."""
    cases = {item: found for item in items if isinstance(found := parameter_of(item), Case)}
    units, seconds = units_of(cases.values(), parts), defaultdict[str, float](float)
    for case in cases.values():
        seconds[units[case.id]] += seconds_of(case)

    def place(item: pytest.Item) -> tuple[float, str]:
        unit = units[cases[item].id] if item in cases else ""
        return -seconds[unit], unit

    items.sort(key=place)


def measured_here(config: pytest.Config, gpu: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return what pytest-benchmark would save of this process's cases, with the GPU of each, and what it would show."""
    found = []
    for bench in config._benchmarksession.benchmarks:  # type: ignore[attr-defined]
        if not bench.has_error:
            bench.extra_info["gpu_uuid"] = gpu.get("uuid", "")
            found.append((bench.as_dict(include_data=True), bench.as_dict(include_data=False, flat=True)))
    return found


@dataclass(frozen=True, kw_only=True)
class MeasuredElsewhere:
    """A case of another process, in the place of pytest-benchmark's own record of one."""

    saved: dict[str, Any]
    shown: dict[str, Any]
    has_error: bool = False

    @property
    def extra_info(self) -> dict[str, Any]:
        """The facts that were recorded beside its samples."""
        facts: dict[str, Any] = self.saved["extra_info"]
        return facts

    @property
    def fullname(self) -> str:
        """The test's name with its file."""
        return str(self.saved["fullname"])

    def as_dict(self, include_data: bool = True, flat: bool = False, **_: object) -> dict[str, Any]:
        """Return what is saved of the case, or where ``flat`` what is shown."""
        if flat:
            return dict(self.shown)
        stats = {name: value for name, value in self.saved["stats"].items() if include_data or name != "data"}
        return self.saved | {"stats": stats}


def show_all(config: pytest.Config, parts: Sequence[Part], order: Sequence[str]) -> None:
    """Give pytest-benchmark the cases of all parts, in the order of the list of cases."""
    place = {name: number for number, name in enumerate(order)}
    every = [MeasuredElsewhere(saved=saved, shown=shown) for part in parts for saved, shown in part.benchmarks]
    every.sort(key=lambda each: place.get(each.saved["param"], len(place)))
    config._benchmarksession.benchmarks = every  # type: ignore[attr-defined]


def send(config: pytest.Config, part: Part) -> None:
    """Hand a part to the first process when this one ends."""
    config.workeroutput[SENT] = pickle.dumps(part)  # type: ignore[attr-defined]


def received(node: Any) -> Part | None:
    """Return the part of a process that has ended; None where it died before."""
    sent = getattr(node, "workeroutput", {}).get(SENT)
    part = pickle.loads(sent) if sent else None
    return part if isinstance(part, Part) else None


def scheduler(config: pytest.Config, log: Any, project: Project, progress: Callable[[int, int], None] | None) -> Any:
    """Return a scheduler of xdist's that gives a unit to whichever process is free, and reports progress.

    None where --dist asks for another one.
    """
    if config.option.dist != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # noqa: PLC0415  # xdist is there

    made = LoadScopeScheduling(config, log)
    config.option.loadscopereorder = False  # the order is that of ``longest_first``
    cases, units = {case.id: case for case in timed_cases(project.families)}, dict[str, str]()

    def unit_of(test: str) -> str:
        if not units:
            chosen = [case for each in made.collection if (case := cases.get(parameter_in(each)))]
            units.update(units_of(chosen, made.numnodes))
        return units.get(parameter_in(test), test)

    def libraries_of(unit: str) -> set[Requirement]:
        """Return what must be loaded for a unit's cases; the driver is there already."""
        calls = (cases[name].variant.call for name, of in units.items() if of == unit)
        return {each for call in calls if call for each in call.needs if not isinstance(each, Driver)}

    made._split_scope = unit_of
    load_once(made, libraries_of)
    if progress is None:
        return made
    complete, done = made.mark_test_complete, 0

    def count(*args: Any, **kwargs: Any) -> None:
        nonlocal done
        complete(*args, **kwargs)
        done += 1
        progress(done, len(made.collection or ()))

    made.mark_test_complete = count
    return made


def load_once(made: Any, libraries_of: Callable[[str], Set[Any]]) -> None:
    """Let a scheduler pass over units for which a process would load a library that another one has loaded.

    cuBLAS takes 2 s to load and cuDNN 1.3 (H200). Where only such units are left, the first of them is taken.
    """
    assign, loaded = made._assign_work_unit, defaultdict[Any, set[Any]](set)
    cached = functools.cache(libraries_of)

    def assign_fitting(node: Any) -> None:
        elsewhere = set().union(*loaded.values()) - loaded[node]
        unit = next((name for name in made.workqueue if not cached(name) & elsewhere), next(iter(made.workqueue)))
        made.workqueue.move_to_end(unit, last=False)
        loaded[node] |= cached(unit)
        assign(node)

    made._assign_work_unit = assign_fitting


def parameter_in(test: str) -> str:
    """Return what stands in the brackets of a test's name: the id of its case or build."""
    return test.rpartition("[")[2].removesuffix("]")
