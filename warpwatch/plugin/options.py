"""Reads the command line and the settings, and sets up project, worker process and benchmark."""

from __future__ import annotations

import functools
import os
import signal
import threading

import pytest

from warpwatch.arguments import positive_seconds
from warpwatch.catalogue.project import SETTING, BadProject, load_project
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker
from warpwatch.plugin.benchmark import BenchPlugin
from warpwatch.plugin.device import CACHE_NOTES, PROJECT, WORKER, open_device

BENCH = pytest.StashKey[BenchPlugin]()
KERNELS = "--warpwatch-kernels"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(SETTING, "Package that declares the CUDA kernels of this repository, such as kernels.", default="")
    group = parser.getgroup("warpwatch", "CUDA kernels")
    group.addoption(KERNELS, metavar="PACKAGE", help=f"Package that declares the kernels, in place of {SETTING}.")
    group.addoption(
        "--device",
        choices=("auto", "gpu", "software", "none"),
        default="auto",
        help="Device that runs the kernels. auto (the default): a GPU where there is one, else the software device, "
        "which needs no GPU. gpu, software: that one, or an error. none: skip the tests that need a device.",
    )
    group.addoption(
        "--schedule-seed",
        type=int,
        metavar="N",
        help="Seed of the order in which the software device runs threads and blocks.",
    )
    group.addoption(
        "--launch-timeout",
        type=positive_seconds,
        default=10.0,
        metavar="SECONDS",
        help="Stop a kernel that runs longer, and fail its test (default: 10).",
    )
    _add_comparisons(group)
    group.addoption(
        "--large", action="store_true", help="Also test arrays of more than 2^31 elements, which need tens of GB."
    )
    group.addoption("--warm-cache", action="store_true", help="Time kernels with a warm L2 cache, not with a cold one.")


def _add_comparisons(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--against",
        metavar="REV",
        help="Time each kernel in turns with that of another git revision, and judge which is slower.",
    )
    group.addoption(
        "--self-check",
        action="store_true",
        help="A/A test, then injected slowdowns: false alarms and sensitivity on this GPU.",
    )
    group.addoption(
        "--fail-on",
        action="append",
        choices=("unsure", "incomparable", "common"),
        default=[],
        help="Exit with 1 also where a case is unsure (unsure), where one cannot be compared or none was compared "
        "(incomparable), or where all cases became slower together (common). Can be given several times.",
    )
    group.addoption(
        "--require-baseline",
        action="store_true",
        help="With --benchmark-compare: exit with an error where nothing is compared.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cases(list, problems): run once for each case, and fail for each problem")
    config.addinivalue_line("markers", "builds(list): run once for each of these builds")
    config.addinivalue_line("markers", "compiles_for(arch): only compile the build, for that architecture or 'newest'")
    config.addinivalue_line(
        "markers", "exclusive: no other test of this run runs at the same time, because this one measures times"
    )
    module = config.getoption(KERNELS) or config.getini(SETTING)
    if not module:
        return
    try:
        project = load_project(config.rootpath, module)
    except BadProject as error:
        raise pytest.UsageError(str(error)) from None
    ordinal = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    option = config.getoption
    settings = Settings(
        kind=option("--device"),
        ordinal=ordinal,
        launch_timeout=option("--launch-timeout"),
        schedule_seed=option("--schedule-seed"),
    )
    config.stash[CACHE_NOTES] = {}
    config.stash[PROJECT] = project
    config.stash[WORKER] = worker = Worker(project, settings)
    config.stash[BENCH] = BenchPlugin(config, project, worker, functools.partial(open_device, config))
    config.pluginmanager.register(config.stash[BENCH], "warpwatch-bench")
    config.pluginmanager.register(config.stash[BENCH].results, "warpwatch-results")
    # SIGTERM, from a scheduler or a CI service, interrupts the run like Ctrl-C, so that everything is cleaned up.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        config.add_cleanup(_end_on_sigterm)


def _end_on_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
