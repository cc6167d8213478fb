"""Tests that inputs and right results of a later case are made while another is measured, and when they are not."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.devices import host_memory
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.gpu import Settings
from warpwatch.devices.host import Host
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.timing import sampling
from warpwatch.timing.checks import Material, host_bytes
from warpwatch.timing.measurement import announce_next
from warpwatch.timing.prefetch import USE_GPUS, Ahead

SMALL, LARGE, OTHER = (
    find_case(FAMILIES, name)
    for name in (
        "transpose-naive-16x16-1000x1000-float32",
        "transpose-naive-16x16-1024x1024-float32",
        "matvec-naive-64-1000x1000-float32",
    )
)
HELLO = find_case(FAMILIES, "hello-hello-5x5-4-none")
COPY = find_case(FAMILIES, "copy-naive-256-1048576-float32")
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


def test_the_announced_case_is_made_in_a_thread_and_taken_once() -> None:
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    assert made.calls == []
    ahead.begin(Host())
    ahead.wait()
    assert made.calls == [(LARGE.id, True, True)]
    ahead.take(LARGE, reference=True)
    assert len(made.calls) == 1
    ahead.take(LARGE, reference=True)
    assert made.calls[1:] == [(LARGE.id, True, False)]


@pytest.mark.parametrize(("case", "reference"), [(SMALL, True), (OTHER, True), (LARGE, False)])
def test_what_another_case_needs_is_made_at_once(case: Case, reference: bool) -> None:
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.take(case, reference)
    assert made.calls == [(LARGE.id, True, True), (case.id, reference, False)]


def test_a_failure_is_raised_where_the_case_is_taken() -> None:
    made = Made(ValueError("no such input"))
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.wait()
    with pytest.raises(ValueError, match="no such input"):
        ahead.take(LARGE, reference=True)


def test_a_failed_attempt_leaves_nothing_in_memory_for_the_second_one() -> None:
    """Its exception holds the frames, and with them the arrays, that it failed in."""
    ahead = ahead_of(Made(MemoryError()))
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.make_room(LARGE, True, needed=1)
    assert ahead._jobs == {}


def test_nothing_begins_before_functions_of_the_family_have_run_here() -> None:
    made = Made()
    ahead = Ahead(make=made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.wait()
    assert made.calls == []
    ahead.take(SMALL, reference=True)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.wait()
    assert made.calls == [(SMALL.id, True, False), (LARGE.id, True, True)]


@pytest.mark.parametrize("package", sorted(USE_GPUS))
def test_nothing_begins_beside_packages_that_use_gpus(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, sys)
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.wait()
    assert made.calls == []


@pytest.mark.parametrize(("times", "begins"), [(1.9, False), (2.1, True)])
def test_nothing_begins_where_memory_is_short(times: float, begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    free = times * host_bytes(Host(), LARGE)
    monkeypatch.setattr(host_memory, "available", lambda: free)
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.wait()
    assert bool(made.calls) == begins


@pytest.mark.parametrize(("announced", "kept"), [([OTHER, LARGE], True), ([OTHER], False), ([], False)])
def test_a_case_makes_room_of_what_is_not_announced_any_more(announced: list[Case], kept: bool) -> None:
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    ahead.announce(announced, reference=True)
    ahead.make_room(OTHER, True, needed=1)
    ahead.take(LARGE, reference=True)
    assert len(made.calls) == (1 if kept else 2)


@pytest.mark.parametrize(("free", "kept"), [(1000, True), (999, False)])
def test_what_was_made_ahead_is_dropped_where_the_case_needs_its_memory(
    free: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.begin(Host())
    monkeypatch.setattr(host_memory, "available", lambda: free)
    ahead.make_room(LARGE, True, needed=1000)
    ahead.take(LARGE, reference=True)
    assert len(made.calls) == (1 if kept else 2)


def test_what_was_announced_and_is_measured_now_is_not_made_again() -> None:
    """The case that announced it failed, or was measured elsewhere, so that nothing began."""
    made = Made()
    ahead = ahead_of(made)
    ahead.announce([LARGE], reference=True)
    ahead.take(LARGE, reference=True)
    ahead.begin(Host())
    ahead.wait()
    assert len(made.calls) == 1


class Told:
    """A worker that remembers what it was told."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def call(self, *said: object) -> None:
        self.said.append(said)


@pytest.mark.parametrize(
    ("later", "told"),
    [
        ([], []),
        ([SAME_INPUTS], []),
        ([SAME_INPUTS, LARGE, OTHER, COPY], [LARGE, OTHER]),
        ([OTHER, OTHER, LARGE], [OTHER, LARGE]),
    ],
)
def test_the_next_cases_with_other_inputs_are_announced(later: list[Case], told: list[Case]) -> None:
    worker = Told()
    announce_next(worker, SMALL, later, reference=False)  # type: ignore[arg-type]
    assert worker.said == [(sampling.announce, told, False)]


def begin_as_on_a_gpu() -> None:
    sampling.state.ahead.begin(gpu())


def is_begun() -> bool:
    return bool(sampling.state.ahead._jobs)


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker(PROJECT, Settings(kind="software"))
    yield started
    started.stop()


def image_of(worker: Worker, case: Case) -> Path:
    return compile_build(case.build, worker.call(describe_device).target).path


def test_a_kernel_is_checked_with_what_was_made_ahead(worker: Worker) -> None:
    worker.call(sampling.prepare, SMALL, image_of(worker, SMALL), False)
    worker.call(sampling.announce, [LARGE])
    worker.call(begin_as_on_a_gpu)
    assert worker.call(is_begun)
    worker.call(sampling.prepare, LARGE, image_of(worker, LARGE), False)
    assert not worker.call(is_begun)
    worker.call(sampling.sample, "warm")
    worker.call(sampling.finish, None)


def test_nothing_begins_where_times_are_the_hosts(worker: Worker) -> None:
    worker.call(sampling.prepare, SMALL, image_of(worker, SMALL), False)
    worker.call(sampling.announce, [LARGE])
    worker.call(sampling.begin_ahead)
    assert not worker.call(is_begun)


def test_a_serial_variant_waits_for_material_and_leaves_it_to_the_kernels() -> None:
    made, begun = Made(), threading.Event()

    def slowly(case: Case, reference: bool) -> Material:
        begun.wait(10)
        return made(case, reference)

    ahead = Ahead(make=slowly, families={"transpose"})
    ahead.announce([SMALL], reference=True)
    ahead.begin(Host())
    threading.Timer(0.1, begun.set).start()
    first = ahead.take(SERIAL, reference=True)
    assert made.calls == [(SMALL.id, True, True)]
    assert ahead.take(SMALL, reference=True) is first
    assert len(made.calls) == 1


def say_gpu_clock() -> None:
    """Let the software device say that it has a clock of its own, as GPUs do."""
    gpu().info = replace(gpu().info, has_gpu_clock=True)


@pytest.mark.once
@pytest.mark.parametrize("prints", [False, True])
def test_nothing_begins_beside_a_kernel_that_prints(prints: bool, worker: Worker) -> None:
    now = HELLO if prints else SMALL
    worker.call(sampling.prepare, SMALL, image_of(worker, SMALL), False)
    worker.call(sampling.prepare, now, image_of(worker, now), False)
    worker.call(say_gpu_clock)
    worker.call(sampling.announce, [LARGE])
    worker.call(sampling.begin_ahead)
    assert worker.call(is_begun) != prints


def begin_slowly() -> None:
    """Begin as on a GPU with something that takes a moment."""

    def make(case: Case, reference: bool) -> Material:
        time.sleep(0.5)
        return Material(inputs={})

    sampling.state.ahead.make = make
    sampling.state.ahead.begin(gpu())


def is_done() -> bool:
    (job,) = sampling.state.ahead._jobs.values()
    return job.future.done()


def share_again(case: Case) -> None:
    sampling.share_inputs(case)


@pytest.mark.once
@pytest.mark.parametrize("variant", ["vectorised-2048", "memcpy-vendor"])
def test_a_call_waits_for_what_is_being_made(variant: str, worker: Worker) -> None:
    """It is checked that a call only queues its work, by a hold that must not run into its limit."""
    worker.call(sampling.prepare, SMALL, image_of(worker, SMALL), False)
    worker.call(sampling.prepare, COPY, image_of(worker, COPY), False)
    worker.call(sampling.announce, [LARGE])
    worker.call(begin_slowly)
    worker.call(share_again, find_case(FAMILIES, f"copy-{variant}-1048576-float32"))
    assert worker.call(is_done) == variant.startswith("memcpy")
