"""Processes of a run by pytest-xdist: how many and which one this is, what they hand on, and how they end early.

The first process, xdist's controller, hands the tests to the others. These run them, and hand back what else they have
at their end.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import pytest

from warpwatch.plugin.options import names_benchmark, setting_of, value_of

NODES = pytest.StashKey[list[Any]]()  # xdist's controllers of its processes
COLLECTING_SECONDS = 1.5  # for all processes to collect their tests, before they see that they are to end
SET_BY_USER = "PYTEST_XDIST_AUTO_NUM_WORKERS"
# Tests of kernels are bound by the host, and a driver opens and closes GPUs for one process at a time: 5,153 tests take
# 95 s in one process; on two H200s and 32 cores 36 to 47 in four, 33 in eight and 42 in sixteen, on four and 64 cores
# 31 in eight and 35 in sixteen.
TESTING, TESTING_A_GPU = 8, 4  # processes, and those of one GPU, at most
SLUG = "warpwatch_slug"  # handed to the others: the model of the first process's GPU


def is_controller(config: pytest.Config) -> bool:
    """Tell whether this process hands its tests to processes of xdist."""
    return config.getoption("dist", "no") != "no" and not is_part(config)


def is_part(config: pytest.Config) -> bool:
    """Tell whether this is a process of xdist."""
    return hasattr(config, "workerinput")


def number_of_parts(config: pytest.Config) -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) if is_part(config) else 1


def hand(node: Any, key: str, value: object) -> None:
    """Hand a value to a process of xdist, before it starts."""
    node.workerinput[key] = value


def handed(config: pytest.Config, key: str) -> Any:
    """Return what the first process has handed to this one under a key, or None."""
    return getattr(config, "workerinput", {}).get(key)


def hand_back(config: pytest.Config, key: str, value: object) -> None:
    """Hand a value to the first process, which gets it when this one has ended."""
    config.workeroutput[key] = value  # type: ignore[attr-defined]


def handed_back(node: Any, key: str) -> Any:
    """Return what a process that has ended handed back under a key; None where it died before."""
    return getattr(node, "workeroutput", {}).get(key)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Return the number of GPUs where bench/ is named, and 0 where one alone can be used: then xdist starts no process.

    One alone is used where models may differ, and by a self-check. Where nothing is timed, TESTING processes
    share the GPUs. None where xdist shall count cores, or take the number that its user has set for ``auto``; and where
    the driver does not work, which the run says by itself. xdist asks before the rest of the plugin is loaded, and
    seldom: so what the answer needs is imported with the question.
    """
    if os.environ.get(SET_BY_USER) or value_of(config, "device") not in ("auto", "gpu"):
        return None
    from warpwatch.devices.gpus import model_of_all, number_of_gpus  # noqa: PLC0415
    from warpwatch.devices.machine import DeviceError  # noqa: PLC0415

    gpus = 0
    with contextlib.suppress(DeviceError):
        gpus = number_of_gpus()
    if not gpus:
        return None
    if not names_benchmark(config, setting_of(config).root):
        return min(max(gpus, min(TESTING_A_GPU * gpus, TESTING)), len(os.sched_getaffinity(0)))
    alone = gpus == 1 or value_of(config, "self-check") or not model_of_all()
    return 0 if alone else gpus


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.config.stash.setdefault(NODES, []).append(node)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End the processes soon where a run is refused while they start.

    xdist only closes their connections then. A process that is about to begin its tests, or has begun them, ends five
    seconds later (execnet, WorkerGateway._terminate_execution). Told to end, it does so once its tests are collected;
    where that takes longer than COLLECTING_SECONDS, the five seconds still follow.
    """
    if exitstatus != pytest.ExitCode.USAGE_ERROR:
        return
    nodes = [node for node in session.config.stash.get(NODES, []) if hasattr(node, "channel")]  # that were started
    for node in nodes:
        node.shutdown()
    latest = time.monotonic() + COLLECTING_SECONDS
    for node in nodes:
        # One that does not end in time, or that has failed, is left to xdist.
        with contextlib.suppress(node.channel.TimeoutError, node.channel.RemoteError, EOFError):
            node.channel.waitclose(max(0.0, latest - time.monotonic()))
