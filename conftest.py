"""Command-line options and fixtures."""

from __future__ import annotations

import functools
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Generator

import pytest

from kernels import FAMILIES
from warpwatch.catalogue.declaration import BadCase, Build, Case, make_case
from warpwatch.catalogue.validation import problems
from warpwatch.compare.comparison import Judge
from warpwatch.devices import vendor
from warpwatch.devices.check import WrongResult
from warpwatch.devices.compiler import CompileError, cache_notes
from warpwatch.devices.gpu import DeviceInfo, Settings
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Kernel, Worker
from warpwatch.plugin import PARTS
from warpwatch.plugin.benchmark import BenchPlugin
from warpwatch.plugin.cases import NO_BLOCK, named_build
from warpwatch.plugin.compile_step import COMPILATION
from warpwatch.plugin.device import CACHE_NOTES, WORKER, open_device
from warpwatch.plugin.options import positive_seconds
from warpwatch.plugin.verify import command_of, with_command
from warpwatch.timing.parent_samples import Budget

pytest_plugins = ("pytester", *PARTS)
BENCH = pytest.StashKey[BenchPlugin]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpwatch", "CUDA kernels")
    group.addoption(
        "--device",
        choices=("auto", "gpu", "software", "none"),
        default="auto",
        help="auto: a GPU where there is one, else the software device; none: skip what needs a device.",
    )
    group.addoption(
        "--schedule-seed", type=int, metavar="N", help="Order of threads and blocks, on the software device."
    )
    group.addoption(
        "--launch-timeout",
        type=positive_seconds,
        default=10.0,
        metavar="SECONDS",
        help="Stop a kernel after so long (10).",
    )
    group.addoption(
        "--against", metavar="REV", help="Time kernels side by side with those of another git revision, and judge."
    )
    group.addoption(
        "--self-check",
        action="store_true",
        help="Time every kernel against itself, then against itself made to wait: what can this gate see here?",
    )
    group.addoption(
        "--fail-on",
        action="append",
        choices=("unsure", "incomparable", "common"),
        default=[],
        help="Exit with 1 also where a case is unsure, where one cannot be compared or none was, or where everything "
        "became slower. Can be given several times.",
    )
    group.addoption("--large", action="store_true", help="Also test arrays of more than 2^31 elements.")
    group.addoption("--warm-cache", action="store_true", help="Time kernels with a warm L2 cache, not a cold one.")
    group.addoption(
        "--require-baseline", action="store_true", help="With --benchmark-compare: comparing nothing is an error."
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cases(list, problems): run once for each case, and fail for each problem")
    config.addinivalue_line("markers", "builds(list): run once for each of these builds")
    config.addinivalue_line("markers", "compiles_for(arch): only compiles its build, for that architecture or 'newest'")
    config.addinivalue_line("markers", "alone: times something, so no other test of this run runs meanwhile")
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(10**6))
    ordinal = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    option = config.getoption
    settings = Settings(option("--device"), ordinal, option("--launch-timeout"), option("--schedule-seed"))
    config.stash[CACHE_NOTES] = {}
    config.stash[WORKER] = worker = Worker(settings)
    config.stash[BENCH] = BenchPlugin(config, worker, functools.partial(open_device, config))
    config.pluginmanager.register(config.stash[BENCH], "warpwatch-bench")
    config.pluginmanager.register(config.stash[BENCH].results, "warpwatch-results")
    # Told to end, by a scheduler or a CI service, is interrupted: by way of what cleans up.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        config.add_cleanup(_end_on_sigterm)


def _end_on_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skips by their reason, a line each; pytest's own -rs has a line for every test function.

    Also what has no cases because its declaration is wrong: a selection by shape would not miss it.
    """
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count} skipped: {reason}")
    for problem in problems(FAMILIES):
        terminalreporter.line(f"left out, because declared wrong: {problem}")
    for sentence in dict.fromkeys((*terminalreporter.config.stash[CACHE_NOTES], *cache_notes())):
        terminalreporter.line(f"cache: {sentence}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that only compile come last: whoever edits a kernel learns first whether it is right."""
    items.sort(key=lambda item: item.get_closest_marker("compiles_for") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What these errors say is for the kernel's developer, who has no use for this suite's traceback."""
    try:
        return (yield)
    except DeviceError as error:
        raise pytest.fail.Exception(with_command(str(error), command_of(item)), pytrace=False) from None
    except (BadCase, CompileError, WrongResult) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def build(family: str, variant: str, block: str, dtype: str) -> Build:
    """The build that a test's parameters name. A declaration with a mistake fails here."""
    if block == NO_BLOCK:
        said = [
            str(problem) for problem in problems(FAMILIES) if (problem.family, problem.variant) == (family, variant)
        ]
        pytest.fail("\n".join(said), pytrace=False)
    return named_build(family, variant, block, dtype)


@pytest.fixture
def case(build: Build, shape: str, request: pytest.FixtureRequest) -> Case:
    """The case that a test's parameters name. A benchmark skips those that are too large for a slow device."""
    case = make_case(build.family, build.variant, build.block, tuple(map(int, shape.split("x"))), build.dtype)
    if "gate" in request.fixturenames and not build.variant.on_host:
        device: DeviceInfo = request.getfixturevalue("device")
        if case.weight > device.largest_work:
            pytest.skip(f"too large for {device.name}, which would take seconds for a launch: time it on a GPU")
    return case


@pytest.fixture
def kernel(build: Build, request: pytest.FixtureRequest) -> Kernel:
    """The compiled kernel of a case or a build, ready to run; what a benchmark times is another build of it."""
    target = timing = None
    if not build.variant.on_host:
        found: DeviceInfo = request.getfixturevalue("device")
        target, timing = found.target, found.timing_target
        if found.capability < build.variant.needs:
            has = f"{found.name} has {found.capability}"
            pytest.skip(f"needs a GPU of compute capability {build.variant.needs} or newer; {has}")
    config = request.config
    if missing := build.variant.library and config.stash[WORKER].call(vendor.missing, build.variant.library):
        pytest.skip(missing)
    try:
        checked = config.stash[COMPILATION].image(build, target)
        timed = config.stash[COMPILATION].image(build, timing) if "gate" in request.fixturenames else checked
    except CompileError as error:
        pytest.fail(str(error), pytrace=False)
    return Kernel(config.stash[WORKER], build, timed, checked)


@pytest.fixture(scope="session")
def gate(pytestconfig: pytest.Config) -> Judge:
    """The judge of this run."""
    return pytestconfig.stash[BENCH].gate


@pytest.fixture(scope="session")
def cold(pytestconfig: pytest.Config) -> bool:
    """Whether L2 is scrubbed before each launch that is timed."""
    return pytestconfig.stash[BENCH].cold


@pytest.fixture(scope="session")
def budget(pytestconfig: pytest.Config) -> Budget:
    """What a case may cost, from pytest-benchmark's own options."""
    option = pytestconfig.getoption
    return Budget(float(option("benchmark_max_time")), option("benchmark_min_rounds"), option("benchmark_warmup"))
