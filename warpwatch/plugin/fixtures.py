"""Fixtures for tests of kernels: the case, its build, the compiled kernel, and the options of a benchmark."""

from __future__ import annotations

import pytest

from warpwatch.catalogue.declaration import Build, Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.validation import Problem
from warpwatch.compare.comparison import Comparison
from warpwatch.devices.compiler import CompileError
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Kernel, library_missing
from warpwatch.plugin.cases import parameter_of
from warpwatch.plugin.compile_step import COMPILATION
from warpwatch.plugin.device import PROJECT, WORKER
from warpwatch.plugin.options import BENCH
from warpwatch.timing.parent_samples import Budget


@pytest.fixture(scope="session")
def project(pytestconfig: pytest.Config) -> Project:
    """The kernels of this repository."""
    return pytestconfig.stash[PROJECT]


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    """The case of a test that is marked with ``cases``. A benchmark skips those that are too large for a slow device.

    A declaration with a mistake fails here.
    """
    case = parameter_of(request.node)
    if isinstance(case, Problem):
        pytest.fail(str(case), pytrace=False)
    assert isinstance(case, Case)
    if "comparison" in request.fixturenames and not case.variant.on_host:
        device: DeviceInfo = request.getfixturevalue("device")
        if case.launch_cost > device.largest_launch_cost:
            pytest.skip(f"too large for {device.name}, which would take seconds for a launch: time it on a GPU")
    return case


@pytest.fixture
def build(request: pytest.FixtureRequest) -> Build:
    """The build of a test that is marked with ``cases`` or ``builds``."""
    parameter = parameter_of(request.node)
    return parameter if isinstance(parameter, Build) else request.getfixturevalue("case").build


@pytest.fixture
def kernel(build: Build, request: pytest.FixtureRequest) -> Kernel:
    """The compiled kernel of a case or a build; for a benchmark also the build without checks that is timed."""
    target = timing = None
    if not build.variant.on_host:
        found: DeviceInfo = request.getfixturevalue("device")
        target, timing = found.target, found.timing_target
        if found.capability < build.variant.needs:
            has = f"{found.name} has {found.capability}"
            pytest.skip(f"needs a GPU of compute capability {build.variant.needs} or newer; {has}")
    stash = request.config.stash
    if missing := build.variant.library and stash[WORKER].call(library_missing, build):
        pytest.skip(missing)
    try:
        checked = stash[COMPILATION].image(build, target)
        timed = stash[COMPILATION].image(build, timing) if "comparison" in request.fixturenames else checked
    except CompileError as error:
        pytest.fail(str(error), pytrace=False)
    return Kernel(stash[WORKER], build, timed, checked)


@pytest.fixture(scope="session")
def comparison(pytestconfig: pytest.Config) -> Comparison:
    """The comparison that this run makes: with a baseline, with another revision, with itself, or none."""
    return pytestconfig.stash[BENCH].comparison


@pytest.fixture(scope="session")
def cold(pytestconfig: pytest.Config) -> bool:
    """True where L2 is scrubbed before each launch that is timed."""
    return pytestconfig.stash[BENCH].cold


@pytest.fixture(scope="session")
def budget(pytestconfig: pytest.Config) -> Budget:
    """The time that a case may take, from pytest-benchmark's own options."""
    option = pytestconfig.getoption
    return Budget(float(option("benchmark_max_time")), option("benchmark_min_rounds"), option("benchmark_warmup"))
