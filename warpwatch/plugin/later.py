"""Finds which cases this process measures after a test, so that its worker process can prepare for the next of them."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.compare.comparison import Comparison
from warpwatch.devices.compiler import CompileError
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
    """Yield the GPU cases that will be measured after ``item``, in their order.

    Everything is compiled before anything is timed, so that it is known which machine code differs.
    """
    config, device = item.config, open_device(item.config)
    for each in _tests_after(item):
        case = parameter_of(each) if is_timed(each) else None
        if not isinstance(case, Case) or case.variant.on_host or not isinstance(device, DeviceInfo):
            continue
        if case.variant.capability > device.capability:
            continue
        try:
            image = config.stash[COMPILATION].image(case.build, device.timing_target)
        except CompileError:
            continue
        if comparison.measures(case, image):
            yield case


def _tests_after(item: pytest.Item) -> Iterator[pytest.Item]:
    """Yield the tests after one.

    In a process of xdist only the next one is known. Those of the same shape that follow it are taken to run here too,
    as they do where there are enough shapes; where one of them does not, something is made in vain.
    """
    items = item.session.items
    if not is_part(item.config):
        return itertools.islice(items, items.index(item) + 1, None)
    first = item.config.stash[NEXT]
    if first is None:
        return iter(())
    following = itertools.islice(items, items.index(first), None)
    return itertools.takewhile(lambda each: _shape_of(each) == _shape_of(first), following)


def _shape_of(item: pytest.Item) -> object:
    case = parameter_of(item)
    return (case.family.name, case.dtype, case.shape) if isinstance(case, Case) else item
