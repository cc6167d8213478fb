"""Sets up what a run needs in a repository that names its kernels: project, benchmark, report of faults."""

from __future__ import annotations

import functools
import signal
import threading
import warnings
from pathlib import Path

import pytest

from warpwatch.catalogue.project import BadProject, Project, load_setting
from warpwatch.catalogue.table import Setting
from warpwatch.catalogue.validation import computed_by, computed_fault, declared_fault
from warpwatch.devices.model import model_of_all
from warpwatch.plugin.bench_folder import collect_benchmark
from warpwatch.plugin.benchmark import BenchPlugin
from warpwatch.plugin.cases import BUILDS_HELP, CASES_HELP
from warpwatch.plugin.device import CACHE_NOTES, MODEL, PROJECT, WORKER, is_first, is_part, open_device
from warpwatch.plugin.options import value_of
from warpwatch.plugin.record import TESTS, Tests
from warpwatch.plugin.sarif import SarifPlugin
from warpwatch.plugin.worker_process import CHOSEN
from warpwatch.plugin.xdist.other_hosts import take_over_tests

BYTES = 2**16  # of a file of faults, for which there must be space
BENCH = pytest.StashKey[BenchPlugin]()
# Warnings of pytest-benchmark's: a kernel that is wrong, or that is the same machine code as before, gets no figure.
EXPECTED = ("Benchmark fixture was not used at all", "Not saving anything, no benchmarks have been run")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"cases(name, where=..., shapes=...): run once for each case; {CASES_HELP}")
    config.addinivalue_line("markers", f"builds(name, where=...): run once for each build; {BUILDS_HELP}")
    config.addinivalue_line("markers", "compiles_for(arch): only compile the build, for that architecture or 'newest'")
    config.addinivalue_line(
        "markers", "exclusive: no other test of this run runs at the same time, because this one measures times"
    )
    for text in EXPECTED:
        config.addinivalue_line("filterwarnings", f"ignore:{text}")  # while a test runs
        warnings.filterwarnings("ignore", text)  # and when the session ends
    take_over_tests(config)
    config.stash[CACHE_NOTES] = {}
    worker = config.stash[WORKER]
    config.stash[MODEL] = model_of_all() if is_first(config) and worker.settings.kind in ("auto", "gpu") else ""
    config.stash[PROJECT] = worker.project = project = _load(config.stash[CHOSEN])
    collect_benchmark(config, project.root)
    config.stash[BENCH] = BenchPlugin(config, project, worker, functools.partial(open_device, config))
    if worker.child:
        for family in project.families:
            declared_fault(family)  # which is cached: this time is free, because other processes are still starting
        computed_by[:] = [worker.fault_of_reference]
        config.add_cleanup(functools.partial(computed_by.__setitem__, 0, computed_fault))
    config.pluginmanager.register(config.stash[BENCH], "warpwatch-bench")
    config.pluginmanager.register(config.stash[BENCH].results, "warpwatch-results")
    config.stash[TESTS] = Tests(_file(config, "record"), config.stash[BENCH].results)
    if not is_part(config):
        config.pluginmanager.register(config.stash[TESTS], "warpwatch-tests")
    _register_sarif(config)
    # SIGTERM, from a scheduler or a CI service, interrupts the run like Ctrl-C, so that everything is cleaned up.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        config.add_cleanup(_end_on_sigterm)


def _load(setting: Setting) -> Project:
    try:
        return load_setting(setting)
    except BadProject as error:
        raise pytest.UsageError(str(error)) from None


def _file(config: pytest.Config, name: str) -> Path | None:
    """Return the file that an option names, for which there is space; xdist's processes leave it to the first one."""
    given = value_of(config, name)
    if not given or is_part(config):
        return None
    path: Path = config.invocation_params.dir / given
    config.stash[BENCH].results.require_space(path, BYTES, f"free some space, or give another --warpwatch-{name}=FILE")
    return path


def _register_sarif(config: pytest.Config) -> None:
    """Have the faults of this run written, if that is asked for."""
    if path := _file(config, "sarif"):
        results = config.stash[BENCH].results
        config.pluginmanager.register(
            SarifPlugin(path, config.rootpath, config.stash[PROJECT].families, results), "warpwatch-sarif"
        )


def _end_on_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
