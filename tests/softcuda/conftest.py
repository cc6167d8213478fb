"""Gives tests the software device, whatever else the machine has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.project import PROJECT
from warpwatch.devices.compiler import Target
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker, describe_device


@pytest.fixture(scope="module")
def software(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """Give a module's tests a process of the software device, whose kernels may run for LAUNCH_SECONDS of the module.

    Each launch has a context of its own there, so that no finding spoils another's.
    """
    seconds = getattr(request.module, "LAUNCH_SECONDS", Settings().launch_timeout)
    worker = Worker(PROJECT, Settings(kind="software", launch_timeout=seconds))
    yield worker
    worker.stop()


@pytest.fixture(params=["checked", "unchecked"])
def target(software: Worker, request: pytest.FixtureRequest) -> Target:
    """Give the software device's target with the checks, and without them."""
    checked: Target = software.call(describe_device).target
    assert "--checks" in checked.flags
    return checked if request.param == "checked" else replace(checked, flags=())
