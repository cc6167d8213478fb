"""Tests that a refused run tells xdist's processes to end, and waits for that, before it closes their connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from execnet.gateway_base import Channel as ExecnetChannel

from warpwatch.plugin.xdist import processes
from warpwatch.plugin.xdist.processes import COLLECTING_SECONDS


class Channel:
    """Plays the connection to a process that ends once it was told to, or does not."""

    TimeoutError, RemoteError = ExecnetChannel.TimeoutError, ExecnetChannel.RemoteError

    def __init__(self, said: list[str], failure: Exception | None) -> None:
        self.said, self.failure = said, failure

    def waitclose(self, seconds: float) -> None:
        self.said.append("wait")
        if self.failure:
            raise self.failure


def session_with(said: list[str], failure: Exception | None = None) -> Any:
    config = SimpleNamespace(stash=pytest.Stash())
    for _ in range(2):
        node = SimpleNamespace(config=config, channel=Channel(said, failure), shutdown=lambda: said.append("shut down"))
        processes.pytest_configure_node(node)
    return SimpleNamespace(config=config)


END = ["shut down", "shut down", "wait", "wait"]
LATE, FAILED = ExecnetChannel.TimeoutError("late"), ExecnetChannel.RemoteError("no such module")
OTHERS = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)


@pytest.mark.parametrize(
    ("failure", "status", "wanted"),
    [(each, pytest.ExitCode.USAGE_ERROR, END) for each in (None, LATE, FAILED, EOFError())]
    + [(None, status, []) for status in OTHERS],
)
def test_a_refused_run_ends_its_processes_and_others_are_left_to_xdist(
    failure: Exception | None, status: int, wanted: list[str]
) -> None:
    said: list[str] = []
    processes.pytest_sessionfinish(session_with(said, failure), status)
    assert said == wanted


def test_all_processes_together_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: now[0]))
    session, given = session_with([]), list[float]()

    def wait(seconds: float) -> None:
        given.append(seconds)
        now[0] += 1.2 * COLLECTING_SECONDS

    for node in session.config.stash[processes.NODES]:
        node.channel.waitclose = wait
    processes.pytest_sessionfinish(session, pytest.ExitCode.USAGE_ERROR)
    assert given == [pytest.approx(COLLECTING_SECONDS), 0]


def test_a_process_that_was_not_started_is_left_out() -> None:
    said: list[str] = []
    session = session_with(said)
    del session.config.stash[processes.NODES][0].channel
    processes.pytest_sessionfinish(session, pytest.ExitCode.USAGE_ERROR)
    assert said == ["shut down", "wait"]
