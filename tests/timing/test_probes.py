"""Tests of what is timed beside the samples, and of the bound on their time; test_cheats.py has kernels that cheat."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest

from kernels import FAMILIES
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.launches import Capability, Work
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.worker import Worker, gpu
from warpwatch.timing import inputs, nvml, probes, sampling
from warpwatch.timing.checks import fingerprint
from warpwatch.timing.inputs import InputSet, Shared
from warpwatch.timing.probes import (
    USUAL,
    _exchange,
    _problem,
    check_bandwidth,
    check_operations,
    check_work,
    left_out,
    remark_on_rate,
)

COPY = find_case(FAMILIES, "copy-naive-256-4096-float32")


def case(inputs: int, declared: int) -> Case:
    """Return a case with so many bytes of inputs, and of declared work."""
    arrays = (SimpleNamespace(nbytes=inputs),)
    return cast("Case", SimpleNamespace(id="copy-fast", inputs=arrays, work=SimpleNamespace(bytes=declared)))


def info(**own: Any) -> DeviceInfo:
    known = {"has_gpu_clock": True, "l2_bytes": 50e6, "peak_bytes_per_second": 4.8e12}
    return cast("DeviceInfo", SimpleNamespace(**known | own))


def test_a_time_below_that_of_reading_the_inputs_is_not_a_result() -> None:
    with pytest.raises(
        WrongResult, match=r"copy-fast is faster than the hardware: .* 1,000 MB, in 123.5 µs are 8.1 TB"
    ):
        check_bandwidth(case(10**9, 2 * 10**9), info(), 123.5e-6)


@pytest.mark.parametrize(
    ("given", "device", "seconds"),
    [
        (case(10**9, 2 * 10**9), info(), 199e-6),  # 950 MB at the peak take 197.9
        (case(10**9, 10**8), info(), 20e-6),  # it reads a tenth of its inputs
        (case(4 * 10**7, 8 * 10**7), info(), 1e-6),  # they fit into L2
        (case(10**9, 2 * 10**9), info(has_gpu_clock=False), 1e-6),
        (case(10**9, 2 * 10**9), info(peak_bytes_per_second=0.0), 1e-6),  # a driver that does not say it
    ],
)
def test_honest_times_are_not_accused(given: Case, device: DeviceInfo, seconds: float) -> None:
    check_bandwidth(given, device, seconds)


def product(pipe: str, dtype: str = "float32", operations: int = 2 * 4096**3) -> Case:
    """Return a case with the operations of a matrix product, which run on a pipe."""
    return cast("Case", SimpleNamespace(id="matmul-fast", dtype=dtype, work=Work(operations, 1, pipe)))


def of_h100(**own: Any) -> DeviceInfo:
    return info(**{"capability": Capability(9, 0), "multiprocessors": 132, "clock_hz": 1.98e9} | own)


@pytest.fixture
def _no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "clocks", lambda: SimpleNamespace(highest=1980))


def test_float64_may_run_on_tensor_cores() -> None:
    given = product("", "float64")
    assert remark_on_rate(given, of_h100(), given.work.operations / 61.2e12) == ""
    said = remark_on_rate(given, of_h100(), given.work.operations / 70e12)
    assert said.startswith("70.0 TFLOP/s of 66.9 (tensor fp64): on another pipe")


@pytest.mark.usefixtures("_no_nvml")
@pytest.mark.parametrize(
    ("pipe", "seconds", "said"),
    [
        ("fp32", 1.44e-3, "95.4 TFLOP/s of 66.9 (fp32)"),
        ("fp32", 2.06e-3, ""),  # 66.7
        ("tensor tf32", 250e-6, "549.8 TFLOP/s of 535.3 (tensor tf32)"),
        ("tensor int8", 60e-6, "2,290.6 Top/s of 2,141.1 (tensor int8)"),
        ("", 1.44e-3, ""),
    ],
)
def test_a_named_pipe_limits_the_rate_of_operations(pipe: str, seconds: float, said: str) -> None:
    given = product(pipe)
    remark = remark_on_rate(given, of_h100(), seconds)
    assert remark.startswith("95.4 TFLOP/s of 66.9 (fp32): on another pipe") if not pipe else remark == ""
    if not said:
        check_operations(given, of_h100(), seconds)
        return
    with pytest.raises(WrongResult, match=rf"^matmul-fast is faster than the hardware: {re.escape(said)}: "):
        check_operations(given, of_h100(), seconds)


@pytest.mark.usefixtures("_no_nvml")
@pytest.mark.parametrize(
    "device",
    [of_h100(has_gpu_clock=False), of_h100(capability=Capability(11, 0)), of_h100(clock_hz=3e9)],
    ids=["software", "unknown", "quicker"],
)
def test_operations_are_not_judged_where_the_peak_is_unknown_or_higher(device: DeviceInfo) -> None:
    check_operations(product("fp32"), device, 1.44e-3)
    assert remark_on_rate(product("", dtype="int32"), of_h100(), 1e-9) == ""


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
    monkeypatch.setattr(probes, "gpu", lambda: SimpleNamespace(info=info(has_gpu_clock=has_gpu_clock)))
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
