"""Finds which cases this process measures after a test, so that its worker process can prepare for the next of them."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.compare.comparison import Comparison
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.info import DeviceInfo
from warpwatch.plugin.cases import is_timed, parameter_of
from warpwatch.plugin.compile_step import COMPILATION
from warpwatch.plugin.device import is_part, open_device

NEXT = pytest.StashKey["pytest.Item | None"]()  # the test after the one that runs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    item.config.stash[NEXT] = nextitem
    return (yield)


def later_cases(item: pytest.Item, comparison: Comparison) -> Iterator[Case]:
    """Yield the cases that will be measured after ``item``, in their order; a process of xdist's knows the next alone.

    Everything is compiled before anything is timed, so that it is known which machine code differs.
    """
    config, items, device = item.config, item.session.items, open_device(item.config)
    following = [config.stash[NEXT]] if is_part(config) else itertools.islice(items, items.index(item) + 1, None)
    for each in following:
        case = parameter_of(each) if each and is_timed(each) else None
        if not isinstance(case, Case) or not isinstance(device, DeviceInfo):
            continue
        if not case.variant.on_host and case.variant.capability > device.capability:
            continue
        target = None if case.variant.on_host else device.timing_target
        try:
            image = config.stash[COMPILATION].image(case.build, target)
        except CompileError:
            continue
        if comparison.measures(case, image):
            yield case
