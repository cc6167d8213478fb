"""Tests that inputs and right results of later cases are made while another is measured, and when they are not."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.devices import host_memory
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.host import Host
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.timing import inputs as timed_inputs
from warpwatch.timing import sampling
from warpwatch.timing.inputs import SEEDS, USE_GPUS, Inputs, Material, host_bytes, materials, sets_in
from warpwatch.timing.measurement import announce_next

SMALL, LARGE, OTHER, HELLO, COPY, SERIAL, SAME_INPUTS = (
    find_case(FAMILIES, name)
    for name in (
        "transpose-naive-16x16-1000x1000-float32",
        "transpose-naive-16x16-1024x1024-float32",
        "matvec-naive-64-1000x1000-float32",
        "hello-hello-5x5-4-none",
        "copy-naive-256-1048576-float32",
        "transpose-serial-host-1000x1000-float32",
        "transpose-tiled-16x16-1000x1000-float32",
    )
)


class Made:
    """Stands in for what draws and computes: remembers its calls, each with whether it was in a thread of its own.

    ``held``: cases that wait until ``go`` is set.
    """

    def __init__(self, failure: BaseException | None = None, held: Sequence[Case] = ()) -> None:
        self.calls: list[tuple[str, bool, bool]] = []
        self.failure, self.held, self.go = failure, held, threading.Event()
        self.sets: list[int] = []  # that were asked for

    def __call__(self, case: Case, reference: bool, sets: int) -> tuple[Material, ...]:
        assert case not in self.held or self.go.wait(10)
        self.calls.append((case.id, reference, threading.current_thread() is not threading.main_thread()))
        if self.failure:
            raise self.failure
        self.sets.append(sets)
        return (Material(seed=1, inputs={}),)

    def go_soon(self) -> None:
        threading.Timer(0.1, self.go.set).start()


def begun(made: Made, *announced: Case) -> Inputs:
    """Return inputs of a process in which what is announced is being made."""
    inputs = Inputs(make=made, families={"transpose", "matvec"})
    inputs.announce(announced, reference=True)
    inputs.begin(Host())
    return inputs


def test_the_announced_case_is_made_in_a_thread_and_taken_once() -> None:
    made = Made()
    inputs = begun(made)
    inputs.announce([LARGE], reference=True)
    assert made.calls == []
    inputs.begin(Host())
    inputs.wait()
    assert made.calls == [(LARGE.id, True, True)]
    inputs.take(LARGE, True, 2)
    assert len(made.calls) == 1
    inputs.take(LARGE, True, 2)
    assert made.calls[1:] == [(LARGE.id, True, False)]


@pytest.mark.parametrize(("case", "reference"), [(SMALL, True), (OTHER, True), (LARGE, False)])
def test_what_another_case_needs_is_made_at_once(case: Case, reference: bool) -> None:
    made = Made()
    begun(made, LARGE).take(case, reference, 2)
    assert made.calls == [(LARGE.id, True, True), (case.id, reference, False)]


def test_a_failure_is_raised_where_the_case_is_taken() -> None:
    inputs = begun(Made(ValueError("no such input")), LARGE)
    inputs.wait()
    with pytest.raises(ValueError, match="no such input"):
        inputs.take(LARGE, True, 2)


@pytest.mark.parametrize("makes_room", [True, False])
def test_what_cannot_be_made_is_not_held_until_its_turn(makes_room: bool) -> None:
    """Its exception holds the frames, and with them the arrays, that it failed in."""
    made = Made(MemoryError())
    inputs = begun(made, LARGE)
    if makes_room:
        inputs.make_room(LARGE, True, needed=1)
    else:
        inputs.wait()
        inputs.begin(Host())
    assert inputs._jobs == {}
    assert len(made.calls) == 1


def test_nothing_begins_before_functions_of_the_family_have_run_here() -> None:
    made = Made()
    inputs = Inputs(make=made)
    for calls in ([], [(SMALL.id, True, False), (LARGE.id, True, True)]):
        inputs.announce([LARGE], reference=True)
        inputs.begin(Host())
        inputs.wait()
        assert made.calls == calls
        inputs.take(SMALL, True, 2)


@pytest.mark.parametrize("package", sorted(USE_GPUS))
def test_nothing_begins_beside_packages_that_use_gpus(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, sys)
    assert begun(Made(), LARGE)._jobs == {}


@pytest.mark.parametrize(("times", "begins"), [(1.9, False), (2.1, True)])
def test_nothing_begins_where_memory_is_short(times: float, begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    free = times * host_bytes(Host(), LARGE, 2)
    monkeypatch.setattr(host_memory, "available", lambda: free)
    assert bool(begun(Made(), LARGE)._jobs) == begins


@pytest.mark.parametrize(
    ("announced", "case", "free", "kept"),
    [
        ([OTHER, LARGE], OTHER, 2**40, True),
        ([OTHER], OTHER, 2**40, False),  # it is not announced any more
        ([], OTHER, 2**40, False),
        ([LARGE], LARGE, 1000, True),
        ([LARGE], LARGE, 999, False),  # the case needs the memory
    ],
)
def test_a_case_makes_room(
    announced: list[Case], case: Case, free: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made()
    inputs = begun(made, LARGE)
    inputs.announce(announced, reference=True)
    monkeypatch.setattr(host_memory, "available", lambda: free)
    inputs.make_room(case, True, needed=1000)
    inputs.take(LARGE, True, 2)
    assert len(made.calls) == (1 if kept else 2)


@pytest.mark.parametrize(("beside", "kept"), [(1, True), (0, False)])
def test_a_later_shape_gives_way_where_the_case_needs_the_memory(
    beside: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory for this case, and for what is still being made, or for this case alone."""
    made = Made(held=[LARGE])
    inputs = begun(made, LARGE)
    free = 1000 + beside * host_bytes(Host(), LARGE, 2)
    monkeypatch.setattr(host_memory, "available", lambda: free)
    made.go_soon()
    inputs.make_room(OTHER, True, needed=1000)
    inputs.take(LARGE, True, 2)
    assert len(made.calls) == (1 if kept else 2)


def test_what_was_announced_and_is_measured_now_is_not_made_again() -> None:
    """The case that announced it failed, or was measured elsewhere, so that nothing began."""
    made = Made()
    inputs = Inputs(make=made)
    inputs.announce([LARGE], reference=True)
    inputs.take(LARGE, True, 2)
    inputs.begin(Host())
    inputs.wait()
    assert len(made.calls) == 1


def test_a_case_that_fails_before_it_takes_anything_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made()
    inputs = begun(made, SMALL)
    with monkeypatch.context() as short:
        short.setattr(host_memory, "available", lambda: 0)
        with pytest.raises(DeviceError, match="0 are available"):
            inputs.share(SERIAL)
    inputs.begin(Host())
    assert inputs._jobs == {}
    assert len(made.calls) <= 1


# Two shapes ahead


def test_two_shapes_are_made_ahead_in_their_order_and_no_third_one() -> None:
    made = Made()
    inputs = begun(made, LARGE, OTHER, SMALL)
    assert len(inputs._jobs) == 2
    inputs.take(LARGE, True, 2)
    inputs.begin(Host())
    for case in (OTHER, SMALL):
        inputs.take(case, True, 2)
    assert made.calls == [(case.id, True, True) for case in (LARGE, OTHER, SMALL)]


def test_a_shape_is_not_waited_for_longer_than_itself_takes() -> None:
    made = Made(held=[OTHER])
    inputs = begun(made, LARGE, OTHER)
    inputs.make_room(LARGE, True, needed=1)
    inputs.take(LARGE, True, 2)
    assert made.calls == [(LARGE.id, True, True)]
    made.go.set()


def test_who_waits_does_so_for_what_has_begun_and_the_rest_begins_again() -> None:
    made = Made(held=[LARGE, OTHER])
    inputs = begun(made, LARGE, OTHER)
    made.go_soon()
    inputs.wait()
    assert made.calls == [(LARGE.id, True, True)]
    inputs.begin(Host())
    inputs.take(OTHER, True, 2)
    assert made.calls == [(LARGE.id, True, True), (OTHER.id, True, True)]


def test_what_is_dropped_for_want_of_memory_is_not_made_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(held=[LARGE, OTHER])
    inputs = begun(made, LARGE, OTHER)
    monkeypatch.setattr(host_memory, "available", lambda: 0)
    made.go_soon()
    inputs.make_room(SMALL, True, needed=1)
    assert made.calls == [(LARGE.id, True, True)]
    assert inputs._jobs == {}


def test_a_serial_variant_waits_for_material_and_leaves_it_to_the_kernels() -> None:
    made = Made(held=[SMALL])
    inputs = begun(made, SMALL)
    made.go_soon()
    first = inputs.take(SERIAL, True, 2)
    assert made.calls == [(SMALL.id, True, True)]
    assert inputs.take(SMALL, True, 2) is first
    assert len(made.calls) == 1


# As many sets as fit


class OneFits(Host):
    """A machine whose memory has room for one set of inputs."""

    def require(self, size: int) -> None:
        if size > LARGE.array_bytes:
            raise DeviceError("not enough memory")


def test_as_many_sets_are_made_as_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_inputs, "SMALL_BYTES", 0)
    assert (sets_in(OneFits(), LARGE), sets_in(Host(), LARGE)) == (1, 2)
    made = Made()
    inputs = Inputs(make=made, families={"transpose"})
    inputs.announce([LARGE], reference=True)
    inputs.begin(OneFits())
    inputs.take(LARGE, True, 1)
    assert made.sets == [1]
    inputs.announce([LARGE], reference=True)
    inputs.begin(OneFits())
    inputs.take(LARGE, True, 2)  # there is more room now
    assert made.sets == [1, 1, 2]


def test_a_serial_variant_has_the_sets_made_that_the_kernels_of_its_shape_need() -> None:
    made = Made()
    begun(made, SERIAL).take(SERIAL, True, sets_in(Host(), SERIAL))
    assert (made.sets, sets_in(Host(), SERIAL)) == ([2], 1)


@pytest.mark.parametrize(("reference", "sets", "kinds"), [(False, 1, [False]), (True, 2, [False, False, True])])
def test_unseen_inputs_are_made_where_samples_take_two_sets_in_turn(
    reference: bool, sets: int, kinds: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_inputs, "UNSEEN_SECONDS", math.inf)  # on a busy machine small ones are not made at once
    made = materials(SMALL, reference, sets)
    assert [each.is_unseen for each in made] == kinds
    assert tuple(each.seed for each in made if not each.is_unseen) == SEEDS[:sets]


# In the worker process


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
    sampling.state.inputs.begin(gpu())


def is_begun() -> bool:
    return bool(sampling.state.inputs._jobs)


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker(PROJECT, Settings(kind="software"))
    yield started
    started.stop()


def prepare(worker: Worker, *cases: Case) -> None:
    for case in cases:
        image = compile_build(case.build, worker.call(describe_device).target).path
        worker.call(sampling.prepare, case, image, False)


def test_a_kernel_is_checked_with_what_was_made_ahead(worker: Worker) -> None:
    prepare(worker, SMALL)
    worker.call(sampling.announce, [LARGE])
    worker.call(sampling.begin_ahead)
    assert not worker.call(is_begun)  # the software device's times are the host's
    worker.call(begin_as_on_a_gpu)
    assert worker.call(is_begun)
    prepare(worker, LARGE)
    assert not worker.call(is_begun)
    worker.call(sampling.sample, "warm")
    worker.call(sampling.finish, "warm")


def say_gpu_clock() -> None:
    """Let the software device say that it has a clock of its own, as GPUs do."""
    gpu().info = replace(gpu().info, has_gpu_clock=True)


@pytest.mark.slow
def test_nothing_begins_beside_a_kernel_that_prints(worker: Worker) -> None:
    prepare(worker, SMALL)
    worker.call(say_gpu_clock)
    for case in (HELLO, SMALL):
        prepare(worker, case)
        worker.call(sampling.announce, [LARGE])
        worker.call(sampling.begin_ahead)
        assert worker.call(is_begun) == (case is SMALL)


def begin_slowly() -> None:
    """Begin as on a GPU with something that takes a moment."""

    def make(case: Case, reference: bool, sets: int) -> tuple[Material, ...]:
        time.sleep(0.5)
        return (Material(seed=1, inputs={}),)

    sampling.state.inputs.make = make
    begin_as_on_a_gpu()


def is_done() -> bool:
    (job,) = sampling.state.inputs._jobs.values()
    return job.future.done()


def share_again(case: Case) -> None:
    sampling.state.inputs.share(case)


def test_a_call_waits_for_what_is_being_made(worker: Worker) -> None:
    """It is checked that a call only queues its work, by a hold that must not run into its limit."""
    prepare(worker, SMALL, COPY)
    worker.call(sampling.announce, [LARGE])
    worker.call(begin_slowly)
    for variant in ("vectorised-2048", "memcpy-vendor"):
        worker.call(share_again, find_case(FAMILIES, f"copy-{variant}-1048576-float32"))
        assert worker.call(is_done) == variant.startswith("memcpy")
