"""Tests which worker processes --against starts, and which open the GPU, before it knows which kernels differ."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fake_gpu import INFO
from tests.project import PROJECT
from warpwatch.catalogue.project import Project
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker
from warpwatch.plugin import benchmark
from warpwatch.plugin.benchmark import BenchPlugin
from warpwatch.verdict.rule import MAX_PAIR_PROCESSES, MIN_PROCESSES

CONFIG = SimpleNamespace(add_cleanup=lambda function: None, getoption=lambda name, default: default)


class FakeWorker:
    """Counts the processes that it is asked to start, and to open the GPU with."""

    def __init__(self, kind: str) -> None:
        self.settings, self.started, self.opened = Settings(kind=kind), 0, 0

    @property
    def spares(self) -> int:
        return self.started

    def start_spares(self, count: int) -> None:
        self.started += count

    def open_spares(self, count: int, get_ready: object, kind: str, *, one_queue: bool) -> None:
        self.opened += count


@pytest.mark.parametrize(
    ("kind", "seen", "may_differ", "starts"),
    [
        ("auto", True, True, True),
        ("gpu", True, True, True),
        ("auto", True, False, False),
        ("auto", False, True, False),
        ("software", True, True, False),
    ],
)
def test_processes_are_started_where_a_gpu_is_seen_and_files_differ(
    kind: str, seen: bool, may_differ: bool, starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SimpleNamespace(may_differ=may_differ, stop=lambda: None)
    monkeypatch.setattr(benchmark, "OtherRevision", lambda revision, project: other)
    monkeypatch.setattr(benchmark, "sees_gpu", lambda: seen)
    worker = FakeWorker(kind)
    begun = benchmark.begin(cast("pytest.Config", CONFIG), cast("Project", None), cast("Worker", worker), "HEAD")
    assert cast("Any", begun) is other
    assert (worker.started > 0) == starts


@pytest.mark.parametrize(("parts", "started"), [(1, MAX_PAIR_PROCESSES - 1), (2, MIN_PROCESSES - 1)])
def test_runs_on_several_gpus_share_the_cores(parts: int, started: int, monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(may_differ=True, stop=lambda: None)
    monkeypatch.setattr(benchmark, "OtherRevision", lambda revision, project: other)
    monkeypatch.setattr(benchmark, "sees_gpu", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(2 * MAX_PAIR_PROCESSES)))
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(parts))
    config, worker = SimpleNamespace(**vars(CONFIG), workerinput={}), FakeWorker("auto")
    benchmark.begin(cast("pytest.Config", config), cast("Project", None), cast("Worker", worker), "HEAD")
    assert worker.started == started


def test_a_revision_that_is_not_found_needs_no_processes() -> None:
    assert not benchmark.OtherRevision("no-such-revision", PROJECT).may_differ


@pytest.mark.parametrize(
    ("first", "may_differ", "found", "opened"),
    [
        (False, True, INFO, MIN_PROCESSES - 1),
        (False, False, INFO, 0),
        (True, True, INFO, 0),
        (False, True, replace(INFO, has_gpu_clock=False), 0),
        (False, True, NoDevice("no GPU"), 0),
    ],
)
def test_processes_open_the_gpu_that_measure_after_the_first_one(
    first: bool, may_differ: bool, found: DeviceInfo | NoDevice, opened: int
) -> None:
    worker = FakeWorker("auto")
    plugin = SimpleNamespace(project=PROJECT, worker=worker, cold=True, _first=first, _device=lambda: found)
    other = SimpleNamespace(may_differ=may_differ)
    BenchPlugin._open_spares(cast("BenchPlugin", plugin), cast("benchmark.OtherRevision", other))
    assert worker.opened == opened
