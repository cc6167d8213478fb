"""Ends the processes of xdist soon where a run is refused while they start.

xdist only closes their connections then. A process that is about to begin its tests, or has begun them, ends five
seconds later (execnet, WorkerGateway._terminate_execution). Told to end, it does so once its tests are collected; where
that takes longer than COLLECTING_SECONDS, the five seconds still follow.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

NODES = pytest.StashKey[list[Any]]()  # xdist's controllers of its processes
COLLECTING_SECONDS = 1.5  # for all processes to collect their tests, before they see that they are to end


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.config.stash.setdefault(NODES, []).append(node)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
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
