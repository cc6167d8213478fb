"""Sets up what a run needs in a repository that names its kernels: project, worker process, benchmark."""

from __future__ import annotations

import functools
import os
import signal
import threading
import warnings

import pytest

from warpwatch.catalogue.project import BadProject, load_project
from warpwatch.catalogue.setting import SETTING
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker
from warpwatch.plugin.benchmark import BenchPlugin
from warpwatch.plugin.device import CACHE_NOTES, PROJECT, WORKER, open_device
from warpwatch.plugin.options import KERNELS

BENCH = pytest.StashKey[BenchPlugin]()
# Warnings of pytest-benchmark's: a kernel that is wrong, or that is the same machine code as before, gets no figure.
EXPECTED = ("Benchmark fixture was not used at all", "Not saving anything, no benchmarks have been run")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cases(list, problems): run once for each case, and fail for each problem")
    config.addinivalue_line("markers", "builds(list): run once for each of these builds")
    config.addinivalue_line("markers", "compiles_for(arch): only compile the build, for that architecture or 'newest'")
    config.addinivalue_line(
        "markers", "exclusive: no other test of this run runs at the same time, because this one measures times"
    )
    for text in EXPECTED:
        config.addinivalue_line("filterwarnings", f"ignore:{text}")  # while a test runs
        warnings.filterwarnings("ignore", text)  # and when the session ends
    try:
        project = load_project(config.rootpath, config.getoption(KERNELS) or config.getini(SETTING))
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
