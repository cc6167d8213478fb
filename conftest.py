"""Command-line options and fixtures: here, and nowhere else, the catalogue becomes test cases."""

from __future__ import annotations

import fcntl
import functools
import os
import random
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from bench.judge import Judge
from bench.measure import Budget
from bench.plugin import BenchPlugin
from correctness.verify import command_of, with_command
from kernels import FAMILIES, vendor
from kernels.catalogue import BadCase, Build, Case, make_case
from kernels.check import WrongResult
from kernels.compiler import CompileError, Target, compile_all, compile_build
from kernels.device import DeviceInfo, NoDevice, Settings
from kernels.machine import DeviceError
from kernels.worker import Kernel, Worker, describe_device

pytest_plugins = ("pytester",)
BENCH = pytest.StashKey[BenchPlugin]()
WORKER = pytest.StashKey[Worker]()
DEVICE = pytest.StashKey["DeviceInfo | NoDevice"]()
BROKEN = pytest.StashKey[dict[str, CompileError]]()


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
        "--launch-timeout", type=float, default=10.0, metavar="SECONDS", help="Stop a kernel after so long (10)."
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
        choices=("unsure", "common"),
        default=[],
        help="Exit with 1 also where a case is unsure, or where everything became slower. Can be given twice.",
    )
    group.addoption("--large", action="store_true", help="Also test arrays of more than 2^31 elements.")
    group.addoption("--warm-cache", action="store_true", help="Time kernels with a warm L2 cache, not a cold one.")
    group.addoption(
        "--require-baseline", action="store_true", help="With --benchmark-compare: having no baseline is an error."
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cases(list): run once for each of these cases")
    config.addinivalue_line("markers", "builds(list): run once for each of these builds")
    config.addinivalue_line("markers", "alone: times something, so no other test of this run runs meanwhile")
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(10**6))
    ordinal = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    option = config.getoption
    settings = Settings(option("--device"), ordinal, option("--launch-timeout"), option("--schedule-seed"))
    config.stash[WORKER] = worker = Worker(settings)
    config.stash[BENCH] = BenchPlugin(config, worker, functools.partial(open_device, config))
    config.pluginmanager.register(config.stash[BENCH], "warpwatch-bench")


def open_device(config: pytest.Config) -> DeviceInfo | NoDevice:
    """The device of this run, or what is missing. Opened at the first question."""
    if DEVICE not in config.stash:
        wanted = config.getoption("--device")
        try:
            if wanted == "none":
                raise NoDevice("--device=none")
            config.stash[DEVICE] = config.stash[WORKER].call(describe_device)
        except (NoDevice, DeviceError, CompileError) as missing:
            if wanted in ("gpu", "software"):
                raise pytest.UsageError(f"--device={wanted}: {missing}") from None
            config.stash[DEVICE] = NoDevice(str(missing))
    return config.stash[DEVICE]


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = [f"hypothesis seed: {config.option.hypothesis_seed} (repeat with --hypothesis-seed)"]
    if config.option.collectonly:
        return lines
    device = open_device(config)
    if config.getoption("numprocesses", None):
        config.stash[WORKER].stop()  # xdist's own processes open it again
    if isinstance(device, NoDevice):
        return [f"device: none: {device}; tests that need one are skipped", *lines]
    about = f"device: {device.name}, compute capability {device.capability}, CUDA driver {device.driver}"
    return [about + (f" ({device.note})" if device.note else ""), *lines]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skips by their reason, a line each; pytest's own -rs has a line for every test function."""
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count} skipped: {reason}")


def pytest_unconfigure(config: pytest.Config) -> None:
    if WORKER in config.stash:
        config.stash[WORKER].stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for marker in metafunc.definition.iter_markers("cases"):
        cases: list[Case] = marker.args[0]
        names = ("family", "variant", "block", "shape", "dtype")
        values = [(*_names(case.build)[:3], case.shape_name, case.dtype) for case in cases]
        metafunc.parametrize(names, values, ids=[case.id for case in cases])
    for marker in metafunc.definition.iter_markers("builds"):
        chosen: list[Build] = marker.args[0]
        metafunc.parametrize(
            ("family", "variant", "block", "dtype"), [_names(b) for b in chosen], ids=[b.id for b in chosen]
        )


def _names(build: Build) -> tuple[str, str, str, str]:
    return build.family.name, build.variant.name, build.block_name, build.dtype


def _build(family: str, variant: str, block: str, dtype: str) -> Build:
    found = next(f for f in FAMILIES if f.name == family)
    sizes = () if found.variant(variant).has_no_block else tuple(map(int, block.split("x")))
    return Build(found, found.variant(variant), sizes, dtype)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile what will run, on all cores, before anything runs."""
    config = session.config
    config.stash[BROKEN] = {}
    if config.option.collectonly:
        return
    device = open_device(config) if session.items else NoDevice("nothing to run")
    items: list[Any] = [item for item in session.items if "kernel" in getattr(item, "fixturenames", ())]
    keys = ("family", "variant", "block", "dtype")
    wanted = {(*(item.callspec.params[key] for key in keys), "gate" in item.fixturenames) for item in items}
    todo: list[tuple[Build, Target | None]] = []
    for *names, timed in sorted(wanted):
        build = _build(*names)
        if build.variant.library:
            continue
        if build.variant.on_host:
            todo.append((build, None))
        elif isinstance(device, DeviceInfo):
            todo.append((build, device.timing_target if timed else device.target))
    reporter = config.pluginmanager.get_plugin("terminalreporter")

    def progress(done: int, total: int) -> None:
        if reporter and reporter.isatty:
            reporter.rewrite(f"compiling kernels: {done} of {total} ", erase=done == total)

    # Workers of xdist share the cache; each begins elsewhere, so that they share the work too.
    if todo:
        start = config.stash[WORKER].settings.ordinal * 7 % len(todo)
        config.stash[BROKEN] = compile_all(todo[start:] + todo[:start], progress)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """What these errors say is for the kernel's developer, who has no use for this suite's traceback."""
    try:
        return (yield)
    except DeviceError as error:
        raise pytest.fail.Exception(with_command(str(error), command_of(item)), pytrace=False) from None
    except (BadCase, CompileError, WrongResult) as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(autouse=True)
def _room(request: pytest.FixtureRequest) -> Generator[None]:
    """Under xdist, tests share the machine, but for those that are marked to be alone on it."""
    run = getattr(request.config, "workerinput", {}).get("testrunuid")
    if not run:
        yield
        return
    with (
        open(Path(tempfile.gettempdir(), f"warpwatch-{run}-door"), "w") as door,
        open(f"{door.name}.room", "w") as room,
    ):
        fcntl.flock(door, fcntl.LOCK_EX)  # whoever waits here for an empty room keeps others from filling it again
        fcntl.flock(room, fcntl.LOCK_EX if request.node.get_closest_marker("alone") else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> DeviceInfo:
    """The device; a test that asks for it is skipped where there is none."""
    found = open_device(pytestconfig)
    if isinstance(found, NoDevice):
        pytest.skip(f"needs a device: {found}")
    return found


@pytest.fixture
def build(family: str, variant: str, block: str, dtype: str) -> Build:
    """The build that a test's parameters name."""
    return _build(family, variant, block, dtype)


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
    """The compiled kernel of a case or a build, ready to run."""
    target = None
    if not build.variant.on_host:
        found: DeviceInfo = request.getfixturevalue("device")
        target = found.timing_target if "gate" in request.fixturenames else found.target
        if found.capability < build.variant.needs:
            has = f"{found.name} has {found.capability}"
            pytest.skip(f"needs a GPU of compute capability {build.variant.needs} or newer; {has}")
    config = request.config
    if missing := build.variant.library and config.stash[WORKER].call(vendor.missing, build.variant.library):
        pytest.skip(missing)
    if build.id in config.stash[BROKEN]:
        pytest.fail(str(config.stash[BROKEN][build.id]), pytrace=False)
    return Kernel(config.stash[WORKER], build, compile_build(build, target))


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
