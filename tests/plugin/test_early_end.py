"""Tests that a refused run tells xdist's processes to end, and waits for that, before it closes their connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from warpwatch.plugin import early_end


class Channel:
    """Plays the connection to a process that ends once it was told to, or never."""

    class TimeoutError(Exception):
        """Plays execnet's."""

    def __init__(self, said: list[str], *, ends: bool) -> None:
        self.said, self.ends = said, ends

    def waitclose(self, seconds: float) -> None:
        self.said.append("wait")
        if not self.ends:
            raise self.TimeoutError


def session_with(said: list[str], *, ends: bool) -> Any:
    config = SimpleNamespace(stash=pytest.Stash())
    for _ in range(2):
        node = SimpleNamespace(
            config=config, channel=Channel(said, ends=ends), shutdown=lambda: said.append("shut down")
        )
        early_end.pytest_configure_node(node)
    return SimpleNamespace(config=config)


@pytest.mark.parametrize("ends", [True, False])
def test_a_refused_run_ends_its_processes(ends: bool) -> None:
    said: list[str] = []
    early_end.pytest_sessionfinish(session_with(said, ends=ends), pytest.ExitCode.USAGE_ERROR)
    assert said == ["shut down", "shut down", "wait", "wait"]


@pytest.mark.parametrize("status", [pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED])
def test_other_runs_are_left_to_xdist(status: int) -> None:
    said: list[str] = []
    early_end.pytest_sessionfinish(session_with(said, ends=True), status)
    assert said == []
