"""Lets ``-n auto`` of xdist be as many processes as there are GPUs, where times are taken.

xdist asks before the rest of the plugin is loaded, and seldom: so what the answer needs is imported with the question.
"""

from __future__ import annotations

import os

import pytest

from warpwatch.plugin.options import value_of

SET_BY_USER = "PYTEST_XDIST_AUTO_NUM_WORKERS"


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of GPUs where bench/ is named, and 0 for one of them: then xdist starts no processes.

    None where xdist shall count cores, or take the number that its user has set for ``auto``.
    """
    if SET_BY_USER in os.environ or value_of(config, "device") not in ("auto", "gpu"):
        return None
    from warpwatch.devices.model import number_of_gpus  # noqa: PLC0415
    from warpwatch.plugin.bench_folder import names_benchmark  # noqa: PLC0415
    from warpwatch.plugin.worker_process import setting_of  # noqa: PLC0415

    gpus = number_of_gpus() if names_benchmark(config, setting_of(config).root) else 0
    return {0: None, 1: 0}.get(gpus, gpus)
