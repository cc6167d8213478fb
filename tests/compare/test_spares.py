"""Tests how many spare processes are started at the beginning, and how many of them open the GPU then."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.fake_gpu import INFO
from tests.project import PROJECT
from warpwatch.catalogue.declaration import Family
from warpwatch.compare.pairs import open_spares, start_spares
from warpwatch.devices.worker import Worker
from warpwatch.verdict.rule import MAX_PAIR_PROCESSES, MIN_PROCESSES

MOST, ALL = MIN_PROCESSES - 1, MAX_PAIR_PROCESSES - 1  # the spare processes that most pairs need, and all


class FakeWorker:
    """Counts the processes that it is asked to start, and to open the GPU with."""

    def __init__(self, spares: int = 0) -> None:
        self.spares, self.opened, self.kind, self.one_queue = spares, 0, "", False

    def start_spares(self, count: int) -> None:
        self.spares += count

    def open_spares(self, count: int, get_ready: object, kind: str, *, one_queue: bool) -> None:
        self.opened, self.kind, self.one_queue = count, kind, one_queue


@pytest.mark.parametrize(
    ("cores", "parts", "started"),
    [(2, 1, MOST), (15, 1, MOST), (16, 1, ALL), (64, 1, ALL), (32, 2, ALL), (32, 3, MOST)],
)
def test_all_processes_are_started_where_each_has_two_cores(
    cores: int, parts: int, started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    worker = FakeWorker()
    start_spares(cast("Worker", worker), parts)
    assert worker.spares == started


@pytest.mark.parametrize(
    ("started", "gigabytes", "opened"),
    [(ALL, 8, MOST), (ALL, 24, MOST), (ALL, 80, ALL), (MOST, 80, MOST), (0, 80, MOST)],
)
def test_all_that_are_there_open_the_gpu_where_they_hold_a_small_part_of_its_memory(
    started: int, gigabytes: int, opened: int
) -> None:
    worker, info = FakeWorker(started), replace(INFO, memory_bytes=gigabytes * 10**9)
    open_spares(cast("Worker", worker), PROJECT.families, info, cold=True)
    assert worker.opened == opened


@pytest.mark.parametrize("cold", [True, False])
def test_they_load_what_the_samples_need_on_one_queue_where_everything_is_launched_on_one_stream(cold: bool) -> None:
    worker = FakeWorker()
    open_spares(cast("Worker", worker), PROJECT.families, INFO, cold=cold)
    assert (worker.kind, worker.one_queue) == ("cold" if cold else "warm", True)
    call = SimpleNamespace(is_library=False)
    families = [SimpleNamespace(variants=[SimpleNamespace(call=None), SimpleNamespace(call=call)])]
    open_spares(cast("Worker", worker), cast("list[Family]", families), INFO, cold=cold)
    assert not worker.one_queue
