"""The short names of the fixtures that tests ask for.

A repository whose own fixture has one of these names keeps it: nothing of the plugin depends on a short name.
"""

from __future__ import annotations

from typing import Any

import pytest

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.project import Project
from warpwatch.devices.compile.background import Compilation
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Kernel
from warpwatch.plugin.measure import Measure
from warpwatch.plugin.verify import Check


@pytest.fixture
def check(warpwatch_check: Check) -> Check:
    """``check()`` runs the case of a test and fails the test unless the result is right."""
    return warpwatch_check


@pytest.fixture
def measure(warpwatch_measure: Measure) -> Measure:
    """``measure()`` checks and times the case of a test, and adds it to the comparison of this run."""
    return warpwatch_measure


@pytest.fixture
def case(warpwatch_case: Case) -> Case:
    """The case of a test that is marked with ``cases``."""
    return warpwatch_case


@pytest.fixture
def build(warpwatch_build: Build) -> Build:
    """The build of a test that is marked with ``cases`` or ``builds``."""
    return warpwatch_build


@pytest.fixture
def kernel(warpwatch_kernel: Kernel) -> Kernel:
    """The compiled kernel of a case or a build."""
    return warpwatch_kernel


@pytest.fixture
def source_module(warpwatch_source_module: Any) -> Any:
    """The build of a test as PyCUDA's SourceModule, in pytest's own process."""
    return warpwatch_source_module


@pytest.fixture(scope="session")
def device(warpwatch_device: DeviceInfo) -> DeviceInfo:
    """The device; a test that asks for it is skipped where there is none."""
    return warpwatch_device


@pytest.fixture(scope="session")
def project(warpwatch_project: Project) -> Project:
    """The kernels of this repository."""
    return warpwatch_project


@pytest.fixture(scope="session")
def compilation(warpwatch_compilation: Compilation) -> Compilation:
    """The compilation of the builds of this run."""
    return warpwatch_compilation
