"""The processor's description is asked for early, and comes from pytest-benchmark itself where that fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_benchmark import plugin

from warpwatch.plugin import pytest_benchmark_bridge as bridge


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(plugin, "get_cpu_info", lambda: {"asked": "late"})
    cleanups: list[Callable[[], None]] = []
    yield SimpleNamespace(add_cleanup=cleanups.append)
    for function in cleanups:
        function()
    assert plugin.get_cpu_info() == {"asked": "late"}


def test_it_is_that_of_a_process_of_its_own(config: Any) -> None:
    bridge.ask_early(config)
    found = plugin.get_cpu_info()
    assert found["count"] >= 1
    assert "asked" not in found


@pytest.mark.parametrize(
    ("program", "seconds"), [("/bin/false", 10.0), ("/bin/echo", 10.0), ("/bin/cat", 10.0), (sys.executable, 0.0)]
)
def test_an_answer_that_cannot_be_used_or_does_not_come_is_asked_for_late(
    config: Any, monkeypatch: pytest.MonkeyPatch, program: str, seconds: float
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    monkeypatch.setattr(bridge, "CPU_INFO_SECONDS", seconds)
    bridge.ask_early(config)
    assert plugin.get_cpu_info() == {"asked": "late"}
