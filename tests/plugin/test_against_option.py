"""Tests which worker processes --against starts, and which open the GPU, before it knows which kernels differ."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_gpu import INFO
from tests.project import PROJECT
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.opening import NoDevice, Settings
from warpwatch.plugin import benchmark_run
from warpwatch.plugin.benchmark_run import Run
from warpwatch.revision.commit import OtherRevision
from warpwatch.verdict.rule import MAX_PAIR_PROCESSES, MIN_PROCESSES


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


def run_of(
    monkeypatch: pytest.MonkeyPatch, kind: str = "auto", may_differ: bool = True, **config: object
) -> tuple[Run, FakeWorker]:
    """Return a run against another revision, in which bench/ is named, and its worker."""
    other = SimpleNamespace(same_files=not may_differ, stop=lambda: None)
    monkeypatch.setattr(benchmark_run, "OtherRevision", lambda revision, project: other)
    monkeypatch.setattr(benchmark_run, "names_benchmark", lambda config, root: True)
    options = SimpleNamespace(add_cleanup=lambda function: None, getoption=lambda name, default=None: default, **config)
    parts: dict[str, Any] = {"config": options, "worker": FakeWorker(kind), "results": None}
    run = Run(project=PROJECT, asked=SimpleNamespace(against="HEAD"), **parts)  # type: ignore[arg-type]
    return run, parts["worker"]


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
    monkeypatch.setattr(benchmark_run, "sees_gpu", lambda: seen)
    run, worker = run_of(monkeypatch, kind, may_differ)
    run.begin()
    assert (worker.started > 0) == starts


@pytest.mark.parametrize(("parts", "started"), [(1, MAX_PAIR_PROCESSES - 1), (2, MIN_PROCESSES - 1)])
def test_runs_on_several_gpus_share_the_cores(parts: int, started: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_run, "sees_gpu", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(2 * MAX_PAIR_PROCESSES)))
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", str(parts))
    run, worker = run_of(monkeypatch, workerinput={})
    run.begin()
    assert worker.started == started


def test_a_revision_that_is_not_found_needs_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_run, "sees_gpu", lambda: True)
    run, worker = run_of(monkeypatch)
    monkeypatch.setattr(
        benchmark_run, "OtherRevision", lambda revision, project: OtherRevision("no-such-revision", project)
    )
    run.begin()
    run.open_spares()
    assert (run.other, worker.started, worker.opened) == (None, 0, 0)


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
    first: bool, may_differ: bool, found: DeviceInfo | NoDevice, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_run, "open_device", lambda config: found)
    run, worker = run_of(monkeypatch, may_differ=may_differ)
    run.begin()
    run.is_controller = first
    run.open_spares()
    assert worker.opened == opened
