"""Tests of the processes that a worker starts ahead, and of how one process follows another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.devices.asked import add, die, ignore_sigterm, process_id
from tests.project import PROJECT
from warpwatch.devices.child import CLEAN_UP_SECONDS, State, launch
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Worker, describe_device


@pytest.fixture
def child() -> Iterator[Worker]:
    child = Worker(PROJECT)
    yield child
    child.stop()


@pytest.fixture
def failing_first() -> Iterator[Worker]:
    """A worker whose first child ends before it can be asked anything."""
    worker = Worker(PROJECT, launch=lambda *given: launch(*given, *([] if worker.started > 1 else [ENDS])))
    yield worker
    worker.stop()


ENDS = "raise SystemExit(3)"


@pytest.mark.slow
def test_a_spare_process_takes_the_place_of_one_that_ends(child: Worker) -> None:
    child.open_spares(2, process_id)
    first = child.call(process_id)
    child.await_spares()
    later = []
    for _ in range(2):
        child.renew()
        later.append(child.call(process_id))
    assert child.started == 3
    assert len({first, *later}) == 3
    child.renew()
    child.call(process_id)
    assert child.started == 4


def test_a_process_that_is_started_early_opens_the_device_and_takes_the_first_call(child: Worker) -> None:
    child.start()
    early = child.child
    assert child.call(describe_device).name
    assert child.child is early
    assert child.started == 1


@pytest.mark.slow
def test_a_process_that_cannot_open_the_device_is_replaced_and_the_call_says_why(
    child: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child.settings = Settings(kind="software")
    monkeypatch.setenv("PATH", str(tmp_path))
    child.start()
    with pytest.raises(NoDevice, match=r"no g\+\+ to build the software device with"):
        child.call(describe_device)
    assert child.started == 2
    monkeypatch.undo()
    child.renew()
    assert child.call(describe_device).name


def test_a_process_that_ends_before_the_first_call_is_an_error(failing_first: Worker) -> None:
    failing_first.start()
    with pytest.raises(DeviceError, match="died: exit status 3"):
        failing_first.call(add, 1, 2)
    assert failing_first.call(add, 1, 2) == 3


def test_spare_processes_end_with_the_worker(child: Worker) -> None:
    child.open_spares(1, process_id)
    child.await_spares()
    child.renew()
    one = child.call(process_id)
    child.open_spares(2, process_id)
    child.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(one, 0)
    assert (child.children, child.child) == ([], None)


def test_loaded_processes_are_taken_before_new_ones_and_end_with_the_worker(child: Worker) -> None:
    first = child.call(process_id)
    child.start_spares(2)
    assert (child.has_opened_spares, child.spares) == (False, 2)
    loaded = [spare.process.pid for spare in child.children if spare.state is State.LOADED]
    child.open_spares(1, process_id)
    assert (child.has_opened_spares, child.spares) == (True, 2)
    child.renew()
    assert child.call(process_id) == loaded[0] != first
    assert (child.has_opened_spares, child.spares) == (False, 1)
    assert child.started == 3
    child.open_spares(2, process_id)
    assert child.started == 4
    child.start_spares(1)
    (idle,) = (spare.process for spare in child.children if spare.state is State.LOADED)
    child.stop()
    assert idle.poll() is not None
    assert child.children == []


def test_processes_that_do_not_end_by_themselves_are_killed_together(child: Worker) -> None:
    child.open_spares(2, ignore_sigterm)
    child.await_spares()
    assert child.call(ignore_sigterm) == child.call(process_id)
    begin = time.monotonic()
    child.stop()
    assert time.monotonic() - begin < 1.5 * CLEAN_UP_SECONDS


def test_the_next_process_may_be_called_while_the_last_one_ends(child: Worker) -> None:
    child.open_spares(1, process_id)
    last = child.call(ignore_sigterm)
    answers: list[tuple[int, bool]] = []

    def meanwhile() -> None:
        answers.append((child.call(process_id), Path(f"/proc/{last}").exists()))

    child.renew(meanwhile)
    assert answers == [(child.call(process_id), True)]
    assert not Path(f"/proc/{last}").exists()


def test_a_process_ends_also_where_what_runs_meanwhile_fails(child: Worker) -> None:
    last = child.call(process_id)
    with pytest.raises(ZeroDivisionError):
        child.renew(lambda: 1 / 0)
    assert not Path(f"/proc/{last}").exists()
    assert child.call(process_id) != last


@pytest.mark.parametrize("awaited", [True, False])
def test_a_spare_process_that_fails_is_replaced(failing_first: Worker, awaited: bool) -> None:
    failing_first.open_spares(1, process_id)
    if awaited:
        failing_first.await_spares()
        assert failing_first.children == []
    assert failing_first.call(add, 2, 3) == 5


@pytest.mark.slow
def test_a_process_that_broke_is_replaced_by_a_new_one_and_spare_ones_serve_later(child: Worker) -> None:
    child.call(process_id)
    child.open_spares(1, process_id)
    child.await_spares()
    (spare,) = (each.process.pid for each in child.children if each.state is State.READY)
    with pytest.raises(DeviceError, match="died"):
        child.call(die)
    assert child.call(process_id) != spare
    child.renew()
    assert child.call(process_id) == spare


@pytest.mark.slow
def test_processes_that_were_told_to_end_are_waited_for_later(child: Worker) -> None:
    first = child.call(process_id)
    child.open_spares(1, process_id)
    child.await_spares()
    (spare,) = (each.process.pid for each in child.children if each.state is State.READY)
    child.leave()
    assert not child.has_opened_spares
    assert child.call(process_id) not in (first, spare)
    child.stop()
    assert not any(Path(f"/proc/{each}").exists() for each in (first, spare))
