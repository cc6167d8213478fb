"""Number of processes that ``-n auto`` of xdist starts: one for each GPU, where times are taken.

xdist asks before the rest of the plugin is loaded, and seldom: so what the answer needs is imported with the question.
"""

from __future__ import annotations

import os

import pytest

from warpwatch.plugin.options import names_benchmark, value_of

SET_BY_USER = "PYTEST_XDIST_AUTO_NUM_WORKERS"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of GPUs where bench/ is named, and 0 where one alone can be used: then xdist starts no process.

    One alone is used where models may differ, and by a self-check. None where xdist shall count cores, or take the
    number that its user has set for ``auto``; and where the driver does not work, which the run says by itself.
    """
    if os.environ.get(SET_BY_USER) or value_of(config, "device") not in ("auto", "gpu"):
        return None
    from warpwatch.devices.gpus import model_of_all, number_of_gpus  # noqa: PLC0415
    from warpwatch.devices.machine import DeviceError  # noqa: PLC0415
    from warpwatch.plugin.start import setting_of  # noqa: PLC0415

    if not names_benchmark(config, setting_of(config).root):
        return None
    try:
        gpus = number_of_gpus()
    except DeviceError:
        return None
    if gpus == 0:
        return None
    return gpus if gpus > 1 and model_of_all() and not value_of(config, "self-check") else 0
