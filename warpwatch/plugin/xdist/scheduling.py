"""Keeps the tests that call a vendor's library in one process of xdist, as long as others have something else to do.

Each process takes seconds to load a library. This is for tests of results, of which several processes may run on one
GPU; several_gpus.py does the same where times are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import pytest

from warpwatch.catalogue.calls import Driver, Requirement
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.validation import sound
from warpwatch.devices.info import DeviceInfo
from warpwatch.plugin.device import MODEL, PROJECT, is_first, open_device
from warpwatch.plugin.options import names_benchmark
from warpwatch.plugin.xdist.several_gpus import load_once, parameter_in


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if PROJECT not in config.stash or not is_first(config) or config.option.dist != "load":
        return None
    project = config.stash[PROJECT]
    if names_benchmark(config, project.root) or not _has_gpu(config):
        return None
    return scheduler(config, log, project.families)


def _has_gpu(config: pytest.Config) -> bool:
    """Tell whether kernels run on a GPU: the software device runs no library, and skips such tests."""
    if config.stash[MODEL]:
        return True
    device = open_device(config)
    return isinstance(device, DeviceInfo) and device.has_gpu_clock


def scheduler(config: pytest.Config, log: Any, families: tuple[Family, ...]) -> Any:
    """Return a scheduler of xdist's that gives whole units to processes; None where no kernel calls a library.

    The tests of a variant in a file are a unit. A unit that needs a library goes to the process that has loaded it,
    unless nothing else is left to do.
    """
    libraries = libraries_of_variants(families)
    if not any(libraries.values()):
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # noqa: PLC0415  # xdist is there

    made = LoadScopeScheduling(config, log)
    config.option.loadscopereorder = False  # the order of the tests says what comes first
    made._split_scope = lambda test: unit_of(test, libraries)
    load_once(made, lambda unit: libraries.get(unit.rpartition("::")[2], set()))
    return made


def libraries_of_variants(families: tuple[Family, ...]) -> Mapping[str, Set[Requirement]]:
    """Return what must be loaded for each variant, by the beginning of its builds' ids; the driver is there already."""
    return {
        f"{family.name}-{variant.name}-": {
            each for each in (variant.call.needs if variant.call else ()) if not isinstance(each, Driver)
        }
        for family, variant in sound(families)
    }


def unit_of(test: str, variants: Mapping[str, object]) -> str:
    """Return the unit of a test: its file and its variant, or the test itself where it has none."""
    beginning = "-".join(parameter_in(test).split("-")[:2]) + "-"
    return f"{test.partition('::')[0]}::{beginning}" if beginning in variants else test
