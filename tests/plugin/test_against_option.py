"""Tests which worker processes --against launches before it knows which kernels differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from warpwatch.catalogue.project import Project
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker
from warpwatch.plugin import against_option
from warpwatch.verdict.rule import MIN_PROCESSES

CONFIG = SimpleNamespace(add_cleanup=lambda function: None, getoption=lambda name, default: default)


class FakeWorker:
    """Counts the processes that it is asked to launch."""

    def __init__(self, kind: str) -> None:
        self.settings, self.launched = Settings(kind=kind), 0

    def launch_spares(self, count: int) -> None:
        self.launched += count


@pytest.mark.parametrize(
    ("kind", "seen", "same_files", "launched"),
    [
        ("auto", True, False, MIN_PROCESSES - 1),
        ("gpu", True, False, MIN_PROCESSES - 1),
        ("auto", True, True, 0),
        ("auto", False, False, 0),
        ("software", True, False, 0),
    ],
)
def test_processes_are_launched_where_a_gpu_is_seen_and_files_differ(
    kind: str, seen: bool, same_files: bool, launched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SimpleNamespace(same_files=same_files, stop=lambda: None)
    monkeypatch.setattr(against_option, "OtherRevision", lambda revision, project: other)
    monkeypatch.setattr(against_option, "sees_gpu", lambda: seen)
    worker = FakeWorker(kind)
    begun = against_option.begin(cast("pytest.Config", CONFIG), cast("Project", None), cast("Worker", worker), "HEAD")
    assert cast("Any", begun) is other
    assert worker.launched == launched
