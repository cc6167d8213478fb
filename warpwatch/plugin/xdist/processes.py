"""Processes of a run by pytest-xdist: which one this is, what they hand to each other, and how they end early.

The first process hands the tests to the others. These run them, and hand back what else they have at their end.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

import pytest

NODES = pytest.StashKey[list[Any]]()  # xdist's controllers of its processes
COLLECTING_SECONDS = 1.5  # for all processes to collect their tests, before they see that they are to end


def is_first(config: pytest.Config) -> bool:
    """Tell whether this process hands its tests to processes of xdist."""
    return config.getoption("dist", "no") != "no" and not is_part(config)


def is_part(config: pytest.Config) -> bool:
    """Tell whether this is a process of xdist."""
    return hasattr(config, "workerinput")


def number_of_parts(config: pytest.Config) -> int:
    """Return the number of processes that run tests."""
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


def name_of(node: Any) -> str:
    """Return the name of a process, such as gw0."""
    return str(node.gateway.id)


def announce(item: pytest.Item) -> None:
    """Tell xdist, in one of its processes, of which test the next reports are: not of the last one that ran."""
    for plugin in item.config.pluginmanager.get_plugins() if is_part(item.config) else ():
        if hasattr(plugin, "item_index"):
            plugin.item_index = item.session.items.index(item)


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
