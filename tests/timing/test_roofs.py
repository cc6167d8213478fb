"""Tests of the limits that the hardware sets to a case's time."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.launches import Capability, Work
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.mismatch import WrongResult
from warpwatch.timing import nvml
from warpwatch.timing.roofs import check_bandwidth, check_operations, remark_on_rate


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
