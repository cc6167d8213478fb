"""Starts the worker process before the rest of the plugin is imported, so that it opens the device meanwhile."""

from __future__ import annotations

import os

import pytest

from warpwatch.catalogue.project import BadProject
from warpwatch.catalogue.setting import SETTING, TABLE, pyproject_of
from warpwatch.catalogue.table import HOW, Setting, choose, read_table
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker
from warpwatch.plugin.device import WORKER
from warpwatch.plugin.options import KERNELS, asks_only, value_of

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
    )
    config.stash[WORKER] = worker = Worker(setting, settings)
    if settings.kind != "none" and not asks_only(config):
        worker.start()


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
