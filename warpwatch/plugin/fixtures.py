"""Fixtures for tests of kernels: the case, its build, the compiled kernel, and what checks and measures it.

Their names begin with ``warpwatch_``, so that no fixture of a repository replaces one that others here depend on.
warpwatch/plugin/short_fixtures.py has the short names that tests ask for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.validation import Problem
from warpwatch.compare.comparison import Comparison
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.gpu import Device, NoDevice, open_device
from warpwatch.devices.info import SOFTWARE_LAUNCHES, DeviceInfo, software_runs
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Kernel, call_missing
from warpwatch.plugin.cases import is_timed, parameter_of
from warpwatch.plugin.compile_step import COMPILATION
from warpwatch.plugin.device import PROJECT, WORKER, is_part
from warpwatch.plugin.energy_option import asked_observers
from warpwatch.plugin.later import later_cases
from warpwatch.plugin.measure import Measure
from warpwatch.plugin.options import spelled, value_of
from warpwatch.plugin.start import BENCH
from warpwatch.plugin.verify import FAILURES, Check, command_of, options_by_hand
from warpwatch.plugin.xdist.several_gpus import NOT_SHARED
from warpwatch.timing.measurement import Budget


@pytest.fixture(scope="session")
def warpwatch_project(pytestconfig: pytest.Config) -> Project:
    """The kernels of this repository."""
    return pytestconfig.stash[PROJECT]


@pytest.fixture
def warpwatch_parameter(request: pytest.FixtureRequest) -> Case | Build:
    """The case or build of a test that is marked with ``cases`` or ``builds``.

    A declaration with a mistake fails here. A benchmark skips cases that are too large for a slow device.
    """
    found = parameter_of(request.node)
    if isinstance(found, Problem):
        pytest.fail(str(found), pytrace=False)
    if found is None:
        pytest.fail('needs cases or builds: mark the test with @pytest.mark.cases("tested")', pytrace=False)
    if isinstance(found, Case) and is_timed(request.node) and not found.variant.on_host:
        device: DeviceInfo = request.getfixturevalue("warpwatch_device")
        if found.launch_cost > device.largest_launch_cost:
            pytest.skip(f"too large for {device.name}, which would take seconds for a launch: time it on a GPU")
    return found


@pytest.fixture
def warpwatch_case(warpwatch_parameter: Case | Build) -> Case:
    """The case of a test that is marked with ``cases``."""
    if not isinstance(warpwatch_parameter, Case):
        pytest.fail("a test that is marked with builds has no case: mark it with cases", pytrace=False)
    return warpwatch_parameter


@pytest.fixture
def warpwatch_build(warpwatch_parameter: Case | Build) -> Build:
    """The build of a test that is marked with ``cases`` or ``builds``."""
    return warpwatch_parameter.build if isinstance(warpwatch_parameter, Case) else warpwatch_parameter


@pytest.fixture
def warpwatch_kernel(warpwatch_build: Build, request: pytest.FixtureRequest) -> Kernel:
    """The compiled kernel of a case or a build; for a benchmark also the build without checks that is timed."""
    build, target, timing = warpwatch_build, None, None
    if not build.variant.on_host:
        found = _capable_device(build, request)
        target, timing = found.target, found.timing_target
    stash = request.config.stash
    if not build.variant.on_host and (missing := stash[WORKER].call(call_missing, build)):
        pytest.skip(missing)
    try:
        checked = stash[COMPILATION].image(build, target)
        timed = stash[COMPILATION].image(build, timing) if is_timed(request.node) else checked
    except CompileError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    return Kernel(stash[WORKER], build, timed, checked)


def _capable_device(build: Build, request: pytest.FixtureRequest) -> DeviceInfo:
    """The device of this run; a test of a build that it is too old for is skipped."""
    found: DeviceInfo = request.getfixturevalue("warpwatch_device")
    if found.capability < build.variant.capability:
        needed = f"needs a GPU of compute capability {build.variant.capability} or newer"
        softly = (
            f", or with {spelled(request.config, 'device')}=software" if software_runs(build.variant, found) else ""
        )
        pytest.skip(f"{needed}; {found.name} has {found.capability}: run it on such a GPU{softly}")
    return found


@pytest.fixture
def warpwatch_check(
    warpwatch_kernel: Kernel, warpwatch_parameter: Case | Build, request: pytest.FixtureRequest
) -> Check:
    """A function that runs a case and fails the test unless the result is right."""
    launches, cheap = launches_of(request)
    return Check(
        kernel=warpwatch_kernel,
        case=warpwatch_parameter if isinstance(warpwatch_parameter, Case) else None,
        again=command_of(request.node),
        by_hand=options_by_hand(request.config),
        launches=launches,
        cheap=cheap,
        of_cheapest=0 if value_of(request.config, "launches") else DeviceInfo.launches,
        launched=request.config.stash.setdefault(LAUNCHED, {}),
        properties=request.node.user_properties,
        failures=request.node.stash.setdefault(FAILURES, []),
    )


LAUNCHED = pytest.StashKey[dict[str, str]]()  # cases that were launched several times, and the test that did it


def launches_of(request: pytest.FixtureRequest) -> tuple[int, float]:
    """Return how often a case is launched on the same inputs, and up to which cost: all of them, where it is chosen."""
    if chosen := value_of(request.config, "launches"):
        return chosen, math.inf
    if request.getfixturevalue("warpwatch_build").variant.on_host:
        return SOFTWARE_LAUNCHES, math.inf
    device: DeviceInfo = request.getfixturevalue("warpwatch_device")
    return device.launches, device.cheap_launch_cost


@pytest.fixture
def warpwatch_measure(
    benchmark: BenchmarkFixture,
    warpwatch_kernel: Kernel,
    warpwatch_case: Case,
    warpwatch_comparison: Comparison,
    request: pytest.FixtureRequest,
) -> Measure:
    """A function that checks and times the case of a test, and adds it to the comparison of this run."""
    config, option = request.config, request.config.getoption
    seconds, rounds = float(option("benchmark_max_time")), option("benchmark_min_rounds")
    budget = Budget(
        seconds,
        rounds,
        option("benchmark_warmup"),
        observers=asked_observers(config),
        serial_rounds=value_of(config, "serial-rounds"),
    )
    return Measure(
        benchmark=benchmark,
        kernel=warpwatch_kernel,
        case=warpwatch_case,
        cold=config.stash[BENCH].cold,
        budget=budget,
        comparison=warpwatch_comparison,
        later=later_cases(request.node, warpwatch_comparison),
    )


@pytest.fixture(scope="session")
def warpwatch_comparison(pytestconfig: pytest.Config) -> Comparison:
    """The comparison that this run makes: with a baseline, with another revision, with itself, or none.

    A process of xdist's makes one where bench/ is named on the command line.
    """
    if is_part(pytestconfig) and not pytestconfig.stash[BENCH].measures_part:
        pytest.fail(NOT_SHARED, pytrace=False)
    return pytestconfig.stash[BENCH].comparison


@pytest.fixture(scope="session")
def _warpwatch_device_of_pytest(
    warpwatch_device: DeviceInfo, pytestconfig: pytest.Config
) -> Generator[tuple[Device, dict[str, str]]]:
    """The device of this run, opened in pytest's own process until the session ends, and its environment variables."""
    before = dict(os.environ)
    try:
        opened = open_device(pytestconfig.stash[WORKER].settings)
    except (NoDevice, DeviceError, CompileError) as error:
        said = f"{warpwatch_device.name} cannot be opened in pytest's own process: {error}"
        raise pytest.fail.Exception(said, pytrace=False) from None
    own = {name: value for name, value in os.environ.items() if before.get(name) != value}
    for name in own:  # set for a test that uses the device, and for no other: those may start programs of their own
        del os.environ[name]
    os.environ.update(before)
    yield opened, own
    opened.close()


@pytest.fixture
def warpwatch_source_module(warpwatch_build: Build, request: pytest.FixtureRequest) -> Generator[Any]:
    """The build of a test as PyCUDA's SourceModule, with ``get_function`` and ``get_global``, in pytest's own process.

    What the test launches runs there too, with nothing between it and PyCUDA: a kernel that breaks its context breaks
    the tests after it, and one that never ends stops the run. The fixture ``kernel`` has neither of these risks.
    """
    build = warpwatch_build
    if build.variant.on_host or build.variant.call:
        pytest.fail(f"{build.id} is no CUDA source, so there is no SourceModule of it", pytrace=False)
    found = _capable_device(build, request)
    opened, variables = request.getfixturevalue("_warpwatch_device_of_pytest")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            module = opened.source_module(request.config.stash[COMPILATION].image(build, found.target).path)
        except (CompileError, DeviceError) as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        yield module
