"""Start of a run: first the worker process, which opens the device while the rest of the plugin is imported.

What takes long to import is imported in ``_set_up``, after the worker process was started.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import warnings

import pytest

from warpwatch.catalogue.declaration import draw_by
from warpwatch.catalogue.project import BadProject, Project, load_setting
from warpwatch.catalogue.setting import Setting
from warpwatch.catalogue.validation import computed_by, computed_fault, declared_fault
from warpwatch.devices import gpus
from warpwatch.devices.opening import Settings, ready_to_import
from warpwatch.devices.transfer import Stage
from warpwatch.devices.worker import Worker
from warpwatch.plugin import judge
from warpwatch.plugin.cases import BUILDS_HELP, CASES_HELP
from warpwatch.plugin.device import CACHE_NOTES, MODEL, PROJECT, WORKER
from warpwatch.plugin.options import asks_only, setting_of, spelled, value_of
from warpwatch.plugin.pytest_benchmark_bridge import without_capture
from warpwatch.plugin.xdist.processes import is_controller

SECONDS = 10.0  # between two lines on what is waited for
# Warnings of pytest-benchmark's: a kernel that is wrong, or that is the same machine code as before, gets no figure.
EXPECTED = ("Benchmark fixture was not used at all", "Not saving anything, no benchmarks have been run")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Find the project, start the worker process that runs its kernels unless no device is needed, and set up."""
    setting, untrusted = setting_of(config), value_of(config, "untrusted")
    if untrusted:
        judge.refuse(config)
        judge.choose_tests(config)
    elif value_of(config, "draw-seed") is not None:
        raise pytest.UsageError(f"{spelled(config, 'draw-seed')} draws nothing by itself: give --untrusted too")
    settings = Settings(
        kind=value_of(config, "device"),
        ordinal=int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
        launch_timeout=value_of(config, "launch-timeout"),
        schedule_seed=value_of(config, "schedule-seed"),
        reference_timeout=value_of(config, "reference-timeout"),
        untrusted=untrusted,
        run_seed=judge.seed_of(value_of(config, "draw-seed")) if untrusted else None,
    )
    config.stash[WORKER] = worker = Worker(setting, settings)
    worker.waiting = Waiting(config)
    if settings.kind != "none" and not asks_only(config):
        worker.start()
    _set_up(config, setting, worker)


class Waiting:
    """Line on the stage of a declaration's Python that a run waits for: once, and on a terminal every ten seconds."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._stage: Stage | None = None
        self._said = 0.0

    def __call__(self, stage: Stage) -> None:
        """Take note that a stage is waited for."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        again = reporter is not None and reporter.isatty and stage.age - self._said > SECONDS
        if stage is self._stage and not again:
            return
        self._stage, self._said = stage, stage.age
        text = f"waiting for {stage.text}: {stage.age:.0f} s"
        with without_capture(self._config):
            if reporter is not None:
                reporter.ensure_newline()
                reporter.write_line(text)
            else:  # in a process of xdist
                print(text, file=sys.__stderr__, flush=True)


def _set_up(config: pytest.Config, setting: Setting, worker: Worker) -> None:
    """Load the kernels, and register what every run needs: marks, the benchmark's hooks, the report of faults."""
    from warpwatch.plugin.benchmark import BenchPlugin  # noqa: PLC0415
    from warpwatch.plugin.xdist.other_hosts import take_over_tests  # noqa: PLC0415

    _add_settings(config)
    take_over_tests(config)
    config.stash[CACHE_NOTES] = {}
    config.stash[MODEL] = (
        gpus.model_of_all() if is_controller(config) and worker.settings.kind in ("auto", "gpu") else ""
    )
    try:
        config.stash[PROJECT] = worker.project = project = _load(config, setting, worker.settings)
    except BadProject as error:
        raise pytest.UsageError(str(error)) from None
    bench = BenchPlugin(config, project, worker)
    if worker.child and not worker.settings.untrusted:
        for family in project.families:
            declared_fault(family)  # which is cached: this time is free, because other processes are still starting
        computed_by[:] = [worker.fault_of_reference]
        config.add_cleanup(functools.partial(computed_by.__setitem__, 0, computed_fault))
    if value_of(config, "sanitizer"):
        from warpwatch.plugin.sanitizers import Sanitizers  # noqa: PLC0415

        config.pluginmanager.register(Sanitizers(config, project, worker.settings), Sanitizers.NAME)
    config.pluginmanager.register(bench, "warpwatch-bench")
    config.pluginmanager.register(bench.results, "warpwatch-results")
    # SIGTERM, from a scheduler or a CI service, interrupts the run like Ctrl-C, so that everything is cleaned up.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        config.add_cleanup(_end_on_sigterm)


def _load(config: pytest.Config, setting: Setting, settings: Settings) -> Project:
    """Load the project; declarations that are not trusted as data. Raises BadProject."""
    if not settings.untrusted:
        with ready_to_import(settings):
            return load_setting(setting)
    from warpwatch.devices.foreign.described import load_described  # noqa: PLC0415

    draw_by(settings.run_seed)
    project = load_described(setting, settings.reference_timeout)
    config.add_cleanup(project.stop)
    return project


def _end_on_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _add_settings(config: pytest.Config) -> None:
    """Add the marks of tests, and ignore what pytest-benchmark warns of."""
    for text in (
        f"cases(name, where=..., shapes=...): run once for each case; {CASES_HELP}",
        f"builds(name, where=...): run once for each build; {BUILDS_HELP}",
        "compiles_for(arch): only compile the build, for that architecture or 'newest'",
        "exclusive: no other test of this run runs at the same time, because this one measures times",
    ):
        config.addinivalue_line("markers", text)
    for text in EXPECTED:
        config.addinivalue_line("filterwarnings", f"ignore:{text}")  # while a test runs
        warnings.filterwarnings("ignore", text)  # and when the session ends


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the worker process, also where the rest of the plugin could not be loaded."""
    if WORKER in config.stash:
        config.stash[WORKER].stop()
