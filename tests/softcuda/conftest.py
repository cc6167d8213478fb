"""Gives tests of the software device its target, with and without checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warpwatch.devices.compile.compiler import Target
from warpwatch.devices.worker import Worker, describe_device


@pytest.fixture(params=["checked", "unchecked"])
def target(software: Worker, request: pytest.FixtureRequest) -> Target:
    """Give the software device's target with the checks, and without them."""
    checked: Target = software.call(describe_device).target
    assert "--checks" in checked.flags
    return checked if request.param == "checked" else replace(checked, flags=())
