"""Starts the worker process before the rest of the plugin is imported, so that it opens the device meanwhile."""

from __future__ import annotations

import contextlib
import os
import sys

import pytest

from warpwatch.catalogue.project import BadProject
from warpwatch.catalogue.setting import HOW, SETTING, TABLE, Setting, choose, pyproject_of, read_table
from warpwatch.devices.gpu import Settings
from warpwatch.devices.transfer import Stage
from warpwatch.devices.worker import Worker
from warpwatch.plugin.device import WORKER
from warpwatch.plugin.options import KERNELS, asks_only, value_of

SECONDS = 10.0  # between two lines on what is waited for
CHOSEN = pytest.StashKey[Setting]()  # which project is tested


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Find the project, and start the worker process that runs its kernels, unless this run needs no device."""
    config.stash[CHOSEN] = setting = setting_of(config)
    settings = Settings(
        kind=value_of(config, "device"),
        ordinal=int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
        launch_timeout=value_of(config, "launch-timeout"),
        schedule_seed=value_of(config, "schedule-seed"),
        reference_timeout=value_of(config, "reference-timeout"),
    )
    config.stash[WORKER] = worker = Worker(setting, settings)
    worker.waiting = Waiting(config)
    if settings.kind != "none" and not asks_only(config):
        worker.start()


class Waiting:
    """Says what of a declaration's Python a run waits for: once, and on a terminal every ten seconds."""

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
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            if reporter is not None:
                reporter.ensure_newline()
                reporter.write_line(text)
            else:  # in a process of xdist
                print(text, file=sys.__stderr__, flush=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the worker process, also where the rest of the plugin could not be loaded."""
    if WORKER in config.stash:
        config.stash[WORKER].stop()


def setting_of(config: pytest.Config) -> Setting:
    """Find the project that option, settings or table name. Raises UsageError."""
    try:
        table = read_table(pyproject_of(config.rootpath))
        setting = choose(config.rootpath, config.getoption(KERNELS) or "", config.getini(SETTING), table)
    except BadProject as error:
        raise pytest.UsageError(str(error)) from None
    if setting is None:
        raise pytest.UsageError(f"{TABLE} names no kernels: {HOW}")
    return setting
