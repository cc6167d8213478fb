"""Ends the processes of xdist at once where a run is refused while they start.

xdist only closes their connections then. A process that has begun to start its tests ends five seconds later, also one
that has not yet begun (execnet, WorkerGateway._terminate_execution).
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

NODES = pytest.StashKey[list[Any]]()  # xdist's controllers of its processes
COLLECTING_SECONDS = 4.0  # for a process to collect its tests, before it sees that it is to end


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.config.stash.setdefault(NODES, []).append(node)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus != pytest.ExitCode.USAGE_ERROR:
        return
    nodes = session.config.stash.get(NODES, [])
    for node in nodes:
        node.shutdown()
    for node in nodes:
        # One that does not end in time, or that has failed, is left to xdist.
        with contextlib.suppress(node.channel.TimeoutError, node.channel.RemoteError, EOFError):
            node.channel.waitclose(COLLECTING_SECONDS)
