"""Gives tests of the software device what compiles and runs kernels there, with and without checks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.softcuda.device import Device
from warpwatch.devices.worker import Worker


@pytest.fixture
def checked(software: Worker, tmp_path: Path) -> Device:
    """Give the software device with every access checked."""
    return Device(software, tmp_path)


@pytest.fixture(params=["checked", pytest.param("unchecked", marks=pytest.mark.slow)])
def either(checked: Device, request: pytest.FixtureRequest) -> Device:
    """Give the software device with the checks, and without them."""
    return replace(checked, checked=request.param == "checked")
