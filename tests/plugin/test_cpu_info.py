"""The processor's description is asked for early, and comes from pytest-benchmark itself where that fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_benchmark import plugin

from warpwatch.plugin import pytest_benchmark_bridge as bridge


class Config:
    """What ``ask_early`` uses of pytest's configuration."""

    def __init__(self) -> None:
        self.cleanups: list[Callable[[], None]] = []

    def add_cleanup(self, function: Callable[[], None]) -> None:
        self.cleanups.append(function)


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(plugin, "get_cpu_info", lambda: {"asked": "late"})
    made = Config()
    yield made
    for function in made.cleanups:
        function()
    assert plugin.get_cpu_info() == {"asked": "late"}


def test_it_is_that_of_a_process_of_its_own(config: Any) -> None:
    bridge.ask_early(config)
    found = plugin.get_cpu_info()
    assert found["count"] >= 1
    assert "asked" not in found


@pytest.mark.parametrize("program", ["/bin/false", "/bin/echo", "/bin/cat"])
def test_an_answer_that_cannot_be_used_is_asked_for_late(
    config: Any, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    bridge.ask_early(config)
    assert plugin.get_cpu_info() == {"asked": "late"}


def test_an_answer_that_does_not_come_is_asked_for_late(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "CPU_INFO_SECONDS", 0.0)
    bridge.ask_early(config)
    assert plugin.get_cpu_info() == {"asked": "late"}
