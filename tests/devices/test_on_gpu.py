"""Tests of what a GPU alone can run: launches in thread block clusters, and calls that do what calls must not."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.on_gpu import FAMILIES
from tests.outside import BRIEF, HONEST, WRONG, changing
from tests.outside import FAMILIES as OUTSIDE
from tests.project import ROOT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.inputs import random_inputs
from warpwatch.catalogue.launches import Capability
from warpwatch.catalogue.project import load_project
from warpwatch.catalogue.validation import problems
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult, compare
from warpwatch.devices.opening import Settings
from warpwatch.devices.references import expected
from warpwatch.devices.runner import Outcome
from warpwatch.devices.worker import Worker
from warpwatch.timing import sampling


@pytest.fixture(scope="module")
def worker(device: DeviceInfo) -> Iterator[Worker]:
    if not device.has_gpu_clock:
        why = f"{device.name} has no clusters, and runs at once what a call queues"
        pytest.skip(f"needs a GPU, since {why}: run it where there is one, with --device=gpu")
    worker = Worker(load_project(ROOT, "tests.on_gpu"), Settings(kind="gpu", ordinal=device.ordinal))
    yield worker
    worker.stop()


def run(worker: Worker, device: DeviceInfo, case: Case) -> Outcome:
    inputs = random_inputs(case, 1)
    return Kernel(worker, case.build, compile_build(case.build, device.target)).run(case.shape, inputs)


def prepare(case: Case, image: Path) -> float:
    """In the worker: check a case as a benchmark does before it takes times, and take a few. Returns their median."""
    sampling.prepare(case, image, cold=False)
    times = [sampling.sample("warm")[0] for _ in range(5)]
    sampling.finish("warm")
    return statistics.median(times)


def measure(worker: Worker, device: DeviceInfo, case: Case) -> float:
    return worker.call(prepare, case, compile_build(case.build, device.target).path)


def is_right(case: Case, outcome: Outcome) -> bool:
    return all(
        compare(outcome.results[name], right.reference, right.bound) is None
        for name, right in expected(case, random_inputs(case, 1)).items()
    )


def test_they_are_declared_without_a_mistake() -> None:
    assert problems(FAMILIES) == ()


@pytest.mark.parametrize("pairs", [1, 70])
def test_blocks_of_a_cluster_read_each_others_shared_memory(worker: Worker, device: DeviceInfo, pairs: int) -> None:
    if device.capability < Capability(9, 0):
        why = f"{device.name} has no thread block clusters"
        pytest.skip(f"needs a GPU of compute capability 9.0 or newer, since {why}: run it on such a GPU")
    case = find_case(FAMILIES, f"reverse-pairs-128-{pairs}-float32")
    outcome = run(worker, device, case)
    assert outcome.damage == ()
    assert is_right(case, outcome)
    assert 0 < measure(worker, device, case) < 1e-3


def test_a_launch_that_begins_early_overlaps_with_the_one_before(worker: Worker, device: DeviceInfo) -> None:
    if device.capability < Capability(9, 0):
        pytest.skip(f"needs a GPU of compute capability 9.0 or newer, since {device.name} begins no launch early")
    names = ("after", "early")
    for blocks in (1, 60):
        for case in (find_case(FAMILIES, f"follow-{name}-128-{blocks}-float32") for name in names):
            outcome = run(worker, device, case)
            assert outcome.damage == ()
            assert is_right(case, outcome)
    after, early = (measure(worker, device, find_case(FAMILIES, f"follow-{name}-128-60-float32")) for name in names)
    assert early < 0.8 * after


def test_a_call_that_keeps_to_its_stream_is_right_and_nothing_is_said(worker: Worker, device: DeviceInfo) -> None:
    case = find_case(FAMILIES, "duplicate-copy-vendor-100000-float32")
    for _ in range(3):
        outcome = run(worker, device, case)
        assert outcome.damage == ()
        assert is_right(case, outcome)
    assert 0 < measure(worker, device, case) < 1e-3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("elsewhere", "queues its work on another stream than the `stream` that it is given"),
        ("waiting", "waits until its work is done: queue it on `stream` and return"),
        ("allocating", "waits until its work is done: queue it on `stream` and return"),
    ],
)
def test_a_call_whose_time_would_mean_nothing_is_named(
    worker: Worker, device: DeviceInfo, name: str, said: str
) -> None:
    case = find_case(FAMILIES, f"duplicate-{name}-vendor-100000-float32")
    assert run(worker, device, case).damage == (said,)
    with pytest.raises(WrongResult, match=said):
        measure(worker, device, case)


@pytest.fixture(scope="module")
def outside(worker: Worker, device: DeviceInfo) -> Iterator[Worker]:
    """Give a process for the calls of tests.outside, which softcuda runs too (tests/timing/test_outside.py)."""
    worker.stop()
    outside = Worker(load_project(ROOT, "tests.outside"), Settings(kind="gpu", ordinal=device.ordinal))
    yield outside
    outside.stop()


@pytest.mark.parametrize("function", [*HONEST, changing])
def test_honest_calls_have_times_on_a_gpu_too(
    outside: Worker, device: DeviceInfo, function: Callable[..., object]
) -> None:
    case = find_case(OUTSIDE, f"duplicate-{function.__name__}-vendor-100000-float32")
    assert 0 < measure(outside, device, case) < 1e-2
    assert run(outside, device, case).damage == ()


@pytest.mark.parametrize("function", WRONG)
def test_work_outside_the_launch_is_wrong_on_a_gpu_too(
    outside: Worker, device: DeviceInfo, function: Callable[..., object]
) -> None:
    case = find_case(OUTSIDE, f"duplicate-{function.__name__}-vendor-100000-float32")
    with pytest.raises(WrongResult, match=f"duplicate-{function.__name__}"):
        measure(outside, device, case)


def launches(case: Case) -> tuple[str, ...]:
    """In the worker: check a call, and return what it launches."""
    return tuple(sampling.prepare(case, Path(), cold=False).get("launches", ()))


@pytest.mark.parametrize("function", BRIEF)
def test_work_of_microseconds_outside_the_launch_is_wrong(
    outside: Worker, device: DeviceInfo, function: Callable[..., object]
) -> None:
    pytest.importorskip("cupti", reason="needs CUPTI: pip install cupti-python")
    case = find_case(OUTSIDE, f"duplicate-{function.__name__}-vendor-100000-float32")
    with pytest.raises(
        WrongResult, match=r"µs (after its stream has ended|before its time begins).*a fill of 4,194,304"
    ):
        measure(outside, device, case)


def test_what_an_honest_call_launches_is_recorded(outside: Worker, device: DeviceInfo) -> None:
    pytest.importorskip("cupti", reason="needs CUPTI: pip install cupti-python")
    names = "plain", "forked"
    found = [outside.call(launches, find_case(OUTSIDE, f"duplicate-{name}-vendor-100000-float32")) for name in names]
    assert found == [("a copy of 400,000 bytes",), ("a fill of 4,194,304 bytes", "a copy of 400,000 bytes")]


def test_a_call_that_queues_nothing_is_wrong(worker: Worker, device: DeviceInfo) -> None:
    case = find_case(FAMILIES, "duplicate-idle-vendor-100000-float32")
    outcome = run(worker, device, case)
    assert not is_right(case, outcome)
    with pytest.raises(WrongResult, match="duplicate-idle"):
        measure(worker, device, case)


def test_a_call_that_fails_half_way_is_one_sentence_and_the_next_is_right(worker: Worker, device: DeviceInfo) -> None:
    case = find_case(FAMILIES, "duplicate-failing-vendor-100000-float32")
    with pytest.raises(DeviceError, match=r"queueing failing: RuntimeError: no work space is left"):
        run(worker, device, case)
    right = find_case(FAMILIES, "duplicate-copy-vendor-100000-float32")
    assert is_right(right, run(worker, device, right))


# Calls that are not trusted, in a process of their own


@pytest.fixture(scope="module")
def untrusted(worker: Worker) -> Iterator[Worker]:
    second = Worker(worker.project, replace(worker.settings, untrusted=True))
    yield second
    second.stop()


def test_an_untrusted_call_takes_as_long_as_events_say(worker: Worker, untrusted: Worker, device: DeviceInfo) -> None:
    """A copy of 256 MB, which takes 0.1 ms or more, so that launches do not count."""
    case = find_case(FAMILIES, "duplicate-copy-vendor-67108864-float32")
    assert measure(untrusted, device, case) == pytest.approx(measure(worker, device, case), rel=0.1)


def test_an_untrusted_call_is_right_and_one_that_queues_nothing_is_wrong(untrusted: Worker, device: DeviceInfo) -> None:
    case = find_case(FAMILIES, "duplicate-copy-vendor-100000-float32")
    outcome = run(untrusted, device, case)
    assert outcome.damage == ()
    assert is_right(case, outcome)
    idle = find_case(FAMILIES, "duplicate-idle-vendor-100000-float32")
    assert not is_right(idle, run(untrusted, device, idle))
    with pytest.raises(WrongResult, match="duplicate-idle"):
        measure(untrusted, device, idle)


def test_memory_of_another_process_holds_one_array_alone(untrusted: Worker, device: DeviceInfo) -> None:
    """Of 1.5 pages; what else lies on a page would be open to the call."""
    case = find_case(FAMILIES, "duplicate-seeing-vendor-786432-float32")
    with pytest.raises(DeviceError, match=r"queueing seeing: RuntimeError: \[4194304, 4194304\]"):
        run(untrusted, device, case)
