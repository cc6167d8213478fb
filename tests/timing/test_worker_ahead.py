"""Tests that inputs and right results of a later case are made while another is measured, and when they are not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.devices import memory
from warpwatch.devices.builds import compile_build
from warpwatch.devices.gpu import Settings
from warpwatch.devices.host import Host
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.timing import worker_samples as sampling
from warpwatch.timing.parent_samples import announce_next
from warpwatch.timing.worker_ahead import USE_GPUS, Ahead
from warpwatch.timing.worker_checks import Material, host_bytes

SMALL, LARGE, OTHER = (
    find_case(FAMILIES, name)
    for name in (
        "transpose-naive-16x16-1000x1000-float32",
        "transpose-naive-16x16-1024x1024-float32",
        "matvec-naive-64-1000x1000-float32",
    )
)
SERIAL = find_case(FAMILIES, "transpose-serial-host-1000x1000-float32")
SAME_INPUTS = find_case(FAMILIES, "transpose-tiled-16x16-1000x1000-float32")


class Made:
    """Stands in for what draws and computes: remembers its calls, each with the name of its thread."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.calls: list[tuple[str, bool, bool]] = []
        self.failure = failure

    def __call__(self, case: Case, reference: bool) -> Material:
        own_thread = threading.current_thread() is not threading.main_thread()
        self.calls.append((case.id, reference, own_thread))
        if self.failure:
            raise self.failure
        return Material(inputs={})


def ahead_of(made: Made) -> Ahead:
    return Ahead(make=made, families={"transpose", "matvec"})


def wait(ahead: Ahead) -> None:
    if ahead._job:
        ahead._job[1].exception()


def test_the_announced_case_is_made_in_a_thread_and_taken_once() -> None:
    made = Made()
    ahead = ahead_of(made)
    ahead.announce(LARGE, reference=True)
    assert made.calls == []
    ahead.begin(Host())
    wait(ahead)
    assert made.calls == [(LARGE.id, True, True)]
    ahead.take(LARGE, reference=True)
    assert len(made.calls) == 1
    ahead.take(LARGE, reference=True)
    assert made.calls[1:] == [(LARGE.id, True, False)]


@pytest.mark.parametrize(("case", "reference"), [(SMALL, True), (OTHER, True), (LARGE, False)])
def test_what_another_case_needs_is_made_at_once(case: Case, reference: bool) -> None:
    made = Made()
    ahead = ahead_of(made)
    ahead.announce(LARGE, reference=True)
    ahead.begin(Host())
    ahead.take(case, reference)
    assert made.calls == [(LARGE.id, True, True), (case.id, reference, False)]


def test_a_failure_is_raised_where_the_case_is_taken() -> None:
    made = Made(ValueError("no such input"))
    ahead = ahead_of(made)
    ahead.announce(LARGE, reference=True)
    ahead.begin(Host())
    wait(ahead)
    with pytest.raises(ValueError, match="no such input"):
        ahead.take(LARGE, reference=True)


def test_nothing_begins_before_functions_of_the_family_have_run_here() -> None:
    made = Made()
    ahead = Ahead(make=made)
    ahead.announce(LARGE, reference=True)
    ahead.begin(Host())
    wait(ahead)
    assert made.calls == []
    ahead.take(SMALL, reference=True)
    ahead.announce(LARGE, reference=True)
    ahead.begin(Host())
    wait(ahead)
    assert made.calls == [(SMALL.id, True, False), (LARGE.id, True, True)]


@pytest.mark.parametrize("package", sorted(USE_GPUS))
def test_nothing_begins_beside_packages_that_use_gpus(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, sys)
    made = Made()
    ahead = ahead_of(made)
    ahead.announce(LARGE, reference=True)
    ahead.begin(Host())
    wait(ahead)
    assert made.calls == []


@pytest.mark.parametrize(("times", "begins"), [(1.9, False), (2.1, True)])
def test_nothing_begins_where_memory_is_short(times: float, begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    free = times * host_bytes(Host(), LARGE)
    monkeypatch.setattr(memory, "available", lambda: free)
    made = Made()
    ahead = ahead_of(made)
    ahead.announce(LARGE, reference=True)
    ahead.begin(Host())
    wait(ahead)
    assert bool(made.calls) == begins


class Told:
    """A worker that remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def call(self, *said: object) -> None:
        self.said.append(said)


@pytest.mark.parametrize(
    ("later", "told"),
    [([], []), ([SAME_INPUTS], []), ([SAME_INPUTS, LARGE, OTHER], [LARGE]), ([OTHER, LARGE], [OTHER])],
)
def test_the_next_case_with_other_inputs_is_announced(later: list[Case], told: list[Case]) -> None:
    worker = Told()
    announce_next(worker, SMALL, later, reference=False)  # type: ignore[arg-type]
    assert worker.said == [(sampling.announce, case, False) for case in told]


def begin_as_on_a_gpu() -> None:
    sampling.state.ahead.begin(gpu())


def is_begun() -> bool:
    return sampling.state.ahead._job is not None


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker(PROJECT, Settings(kind="software"))
    yield started
    started.stop()


def image_of(worker: Worker, case: Case) -> Path:
    return compile_build(case.build, worker.call(describe_device).target).path


def test_a_kernel_is_checked_with_what_was_made_ahead(worker: Worker) -> None:
    worker.call(sampling.prepare, SMALL, image_of(worker, SMALL), False)
    worker.call(sampling.announce, LARGE)
    worker.call(begin_as_on_a_gpu)
    assert worker.call(is_begun)
    worker.call(sampling.prepare, LARGE, image_of(worker, LARGE), False)
    assert not worker.call(is_begun)
    worker.call(sampling.sample, "warm")
    worker.call(sampling.finish, None)


def test_nothing_begins_where_times_are_the_hosts(worker: Worker) -> None:
    worker.call(sampling.prepare, SMALL, image_of(worker, SMALL), False)
    worker.call(sampling.announce, LARGE)
    worker.call(sampling.begin_ahead)
    assert not worker.call(is_begun)


def test_a_serial_variant_waits_for_what_its_shape_needs_and_leaves_it_to_the_kernels() -> None:
    made, begun = Made(), threading.Event()

    def slowly(case: Case, reference: bool) -> Material:
        begun.wait(10)
        return made(case, reference)

    ahead = Ahead(make=slowly, families={"transpose"})
    ahead.announce(SMALL, reference=True)
    ahead.begin(Host())
    threading.Timer(0.1, begun.set).start()
    first = ahead.take(SERIAL, reference=True)
    assert made.calls == [(SMALL.id, True, True)]
    assert ahead.take(SMALL, reference=True) is first
    assert len(made.calls) == 1
