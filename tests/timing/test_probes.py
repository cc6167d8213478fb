"""Tests of what is timed beside the samples; test_cheats.py has kernels that cheat."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.worker import Worker, gpu
from warpwatch.timing import inputs, probes, sampling
from warpwatch.timing.checks import fingerprint
from warpwatch.timing.inputs import InputSet, Shared
from warpwatch.timing.probes import (
    USUAL,
    _exchange,
    _problem,
    check_work,
    left_out,
)

COPY = find_case(FAMILIES, "copy-naive-256-4096-float32")


@pytest.mark.parametrize(
    ("way", "seconds", "said"),
    [
        ("again", [2.0, 2.1], "takes 0.202 times as long where its result is already there"),
        ("unseen", [100.0, 110.0], "takes 10.3 times as long on inputs that it has not seen"),
        ("reset", [100.0, 110.0], "takes 10.3 times as long where its __device__ variables are as after loading"),
        ("again", [20.0, 22.0], ""),
        ("again", [9.0, 9.5], ""),  # 0.92 of the usual time
        ("unseen", [2.0, 2.1], ""),
        ("unseen", [100.0, 10.0, 10.1, 10.2], ""),  # one that was interrupted
    ],
)
def test_a_way_that_differs_clearly_is_a_fault(way: str, seconds: list[float], said: str) -> None:
    problem = _problem({USUAL: [10.0, 10.2, 10.1, 10.3], way: seconds}, 0.8)
    assert problem.startswith(said) if said else not problem


@pytest.mark.parametrize(
    ("usual", "way", "seconds", "said"),
    [
        ([*[1.5e-3] * 9, 1.5e-3], "again", [6.5e-4] * 10, "takes 0.433 times as long"),
        ([*[1.5e-3] * 9, 7e-4], "again", [6.5e-4] * 10, ""),
        ([4e-4, 3e-3, 3e-3], "unseen", [2e-3] * 2, "takes 5 times as long"),  # most of the usual ones were interrupted
        ([4e-4, 3e-3, 3e-3], "unseen", [2e-3, 5e-4], ""),
    ],
)
def test_where_the_host_takes_the_times_the_shortest_decide(
    usual: list[float], way: str, seconds: list[float], said: str
) -> None:
    problem = _problem({USUAL: usual, way: seconds}, 0.5, 2e-4)
    assert problem.startswith(said) if said else not problem


@pytest.mark.parametrize(
    ("usual", "seconds", "has_gpu_clock", "said"),
    [
        (1e-5, {USUAL: [1e-5, *[9e-5] * 9], "unseen": [9e-5] * 10}, True, "takes 9 times as long since it had inputs"),
        (1e-5, {USUAL: [1e-5, *[9e-5] * 9], "unseen": [9e-5] * 10}, False, ""),
        (1e-5, {USUAL: [1e-5] * 10, "unseen": [1.1e-5] * 10}, True, ""),
        (1e-5, {USUAL: [1e-5, 9e-5, *[1e-5] * 8], "unseen": [1e-5] * 10}, True, ""),  # one that was interrupted
        (2e-3, {USUAL: [9e-3] * 10, "again": [2e-3] + [9e-3] * 10, "unseen": [9e-3] * 11}, True, "takes 4.5 times as"),
    ],
)
def test_a_kernel_that_stops_keeping_results_when_it_is_probed_is_found(
    monkeypatch: pytest.MonkeyPatch, usual: float, seconds: dict[str, list[float]], has_gpu_clock: bool, said: str
) -> None:
    launches: dict[str, Any] = {name: iter(times) for name, times in seconds.items()}
    ways = {name: (lambda own=own: next(own)) for name, own in launches.items()}
    monkeypatch.setattr(probes, "_ways", lambda *_, **__: ways)
    monkeypatch.setattr(probes, "check_sample", lambda *_: 1)
    monkeypatch.setattr(probes, "gpu", lambda: SimpleNamespace(info=SimpleNamespace(has_gpu_clock=has_gpu_clock)))
    copy: Any = SimpleNamespace(case=COPY, start=None, restore=None)
    timer: Any = SimpleNamespace(sample=lambda *_: next(launches["again"]))
    shared: Any = SimpleNamespace(unseen=None)
    if not said:
        check_work([copy], shared, timer, usual, copy)
        return
    with pytest.raises(WrongResult, match=f"{COPY.id} {said}"):
        check_work([copy], shared, timer, usual, copy)


@pytest.mark.parametrize(("digests", "known"), [([(7,), (7,)], True), ([(8,), (7,)], False)])
def test_a_sample_of_other_bits_than_were_compared_is_not_proved(
    monkeypatch: pytest.MonkeyPatch, digests: list[tuple[int]], known: bool
) -> None:
    """The last result on a copy can be compared still; one before it is gone."""
    given = InputSet(seed=1, digests=(), rows=None, accepted={fingerprint((7,))})
    queue = SimpleNamespace(take=lambda: [(0, sums) for sums in digests])
    loaded = cast("Any", SimpleNamespace(case=SimpleNamespace(deterministic=None)))
    state = sampling.State(queue=cast("Any", queue), queued=[loaded] * len(digests))
    state.inputs.shared = Shared(key=(), copies=(), sets=(given,))
    monkeypatch.setattr(sampling, "state", state)
    assert sampling.prove() is known
    assert state.by_value is not known


def time_on_copies(count: int) -> list[bool]:
    """Time a case, in the worker, with so many copies of its arrays; return whether its inputs are as before."""
    image = compile_build(COPY.build, gpu().info.timing_target).path
    with mock.patch.object(inputs, "_copies", return_value=count):
        sampling.release()
        sampling.prepare(COPY, image, cold=True)
        for _ in range(count):
            sampling.sample("cold")
        sampling.finish("cold")  # where the last launch of all is not known, all ways are gone
        sampling.state.launched.clear()
        sampling.finish("cold", 1e-9)
        return [sampling.state.shared.is_intact(), len(sampling.state.loaded) == count]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_an_honest_kernel_is_not_accused_on_any_number_of_copies(software: Worker, count: int) -> None:
    assert software.call(time_on_copies, count) == [True, True]


def timed(drawn: bool = False, draw: bool = False, **variant: Any) -> Case:
    """Return a case with an input, whose shape may be that of a draw."""
    family = SimpleNamespace(draw=draw, prints=None)
    variant_of = SimpleNamespace(**{"on_host": False} | variant)
    return cast("Case", SimpleNamespace(inputs=(SimpleNamespace(is_drawn=drawn),), family=family, variant=variant_of))


@pytest.mark.parametrize(
    ("given", "copies", "sets", "sentences"),
    [
        (timed(), 4, 2, []),
        (timed(), 2, 2, []),
        (timed(draw=True), 4, 2, []),
        (timed(), 1, 1, ["all samples had the same inputs, because memory has room for one set"]),
        (timed(draw=True), 2, 2, ["no launch was on inputs that no sample had, because they are large"]),
        (timed(draw=True), 1, 1, ["all samples had the same inputs, because memory", "no launch was on inputs that"]),
        (timed(drawn=True, draw=True), 4, 1, ["all samples had the same inputs, and no launch was on inputs that"]),
        (timed(drawn=True, draw=True, on_host=True), 1, 1, []),
    ],
)
def test_what_a_case_is_not_probed_by_is_a_remark(given: Case, copies: int, sets: int, sentences: list[str]) -> None:
    said = left_out(given, copies, sets)
    assert len(said) == len(sentences)
    assert all(each.startswith(beginning) for each, beginning in zip(said, sentences, strict=True))


@pytest.mark.parametrize("elements", [1, 2, 3, 1000])
def test_elements_of_arrays_of_any_size_are_exchanged_and_again(elements: int) -> None:
    array: Any = SimpleNamespace(nbytes=4 * elements, dtype=np.dtype("float32"))
    timer = mock.Mock()
    undo = _exchange([array], timer)
    undo()
    first, second = timer.exchange.call_args_list
    assert first == second
    assert 1 <= first.args[1] <= max(1, elements // 2)
