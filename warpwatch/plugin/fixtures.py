"""Fixtures for tests of kernels: the case, its build, the compiled kernel, and the options of a benchmark."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from warpwatch.catalogue.declaration import Build, Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.validation import Problem
from warpwatch.compare.comparison import Comparison
from warpwatch.devices.compiler import CompileError
from warpwatch.devices.gpu import Device, NoDevice, open_device
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Kernel, call_missing
from warpwatch.plugin.benchmark import NOT_SHARED
from warpwatch.plugin.cases import parameter_of
from warpwatch.plugin.compile_step import COMPILATION
from warpwatch.plugin.device import PROJECT, WORKER
from warpwatch.plugin.start import BENCH
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
        found = _capable_device(build, request)
        target, timing = found.target, found.timing_target
    stash = request.config.stash
    if missing := build.variant.call and stash[WORKER].call(call_missing, build):
        pytest.skip(missing)
    try:
        checked = stash[COMPILATION].image(build, target)
        timed = stash[COMPILATION].image(build, timing) if "comparison" in request.fixturenames else checked
    except CompileError as error:
        pytest.fail(str(error), pytrace=False)
    return Kernel(stash[WORKER], build, timed, checked)


def _capable_device(build: Build, request: pytest.FixtureRequest) -> DeviceInfo:
    """The device of this run; a test of a build that it is too old for is skipped."""
    found: DeviceInfo = request.getfixturevalue("device")
    if found.capability < build.variant.capability:
        has = f"{found.name} has {found.capability}"
        pytest.skip(f"needs a GPU of compute capability {build.variant.capability} or newer; {has}")
    return found


@pytest.fixture(scope="session")
def _device_of_pytest(device: DeviceInfo, pytestconfig: pytest.Config) -> Generator[tuple[Device, dict[str, str]]]:
    """The device of this run, opened in pytest's own process until the session ends, and its environment variables."""
    before = dict(os.environ)
    try:
        opened = open_device(pytestconfig.stash[WORKER].settings)
    except (NoDevice, DeviceError, CompileError) as error:
        pytest.fail(f"{device.name} cannot be opened in pytest's own process: {error}", pytrace=False)
    own = {name: value for name, value in os.environ.items() if before.get(name) != value}
    for name in own:  # set for a test that uses the device, and for no other: those may start programs of their own
        del os.environ[name]
    os.environ.update(before)
    yield opened, own
    opened.close()


@pytest.fixture
def source_module(build: Build, request: pytest.FixtureRequest) -> Generator[Any]:
    """The build of a test as PyCUDA's SourceModule, with ``get_function`` and ``get_global``, in pytest's own process.

    What the test launches runs there too, with nothing between it and PyCUDA: a kernel that breaks its context breaks
    the tests after it, and one that never ends stops the run. The fixture ``kernel`` has neither of these risks.
    """
    if build.variant.on_host or build.variant.call:
        pytest.fail(f"{build.id} is no CUDA source, so there is no SourceModule of it", pytrace=False)
    found = _capable_device(build, request)
    opened, variables = request.getfixturevalue("_device_of_pytest")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            module = opened.source_module(request.config.stash[COMPILATION].image(build, found.target).path)
        except (CompileError, DeviceError) as error:
            pytest.fail(str(error), pytrace=False)
        yield module


@pytest.fixture(scope="session")
def comparison(pytestconfig: pytest.Config) -> Comparison:
    """The comparison that this run makes: with a baseline, with another revision, with itself, or none.

    A process of xdist's makes none.
    """
    if hasattr(pytestconfig, "workerinput"):
        pytest.fail(NOT_SHARED, pytrace=False)
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
