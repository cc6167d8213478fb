"""Tests which findings the software device passes over because they are accepted, and that it tells which it did."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import softcuda
from tests.softcuda.device import Device
from warpwatch.devices.worker import accepted_findings

KERNEL = """
extern "C" __global__ void twice(int* x)
{
    x[0] = threadIdx.x;
    if (threadIdx.x == 0)
        x[100000000] = 1;
    x[1] = 5 / (threadIdx.x + 1);
}
"""
FIRST, SECOND, FAR = "race\ttwice\tkernel.cu:4", "race\ttwice\tkernel.cu:7", "out of bounds\ttwice\tkernel.cu:6"


@pytest.fixture(autouse=True)
def nothing_is_accepted_afterwards(checked: Device) -> Iterator[None]:
    yield
    checked.worker.call(softcuda.accept, [])
    checked.worker.call(accepted_findings)


def said(checked: Device, *findings: str, kernel: str = KERNEL) -> tuple[str, list[str] | None]:
    """Return what is said of the kernel, and which findings were accepted."""
    checked.worker.call(softcuda.accept, findings)
    text = checked.said(checked.image(kernel), "twice", 64)
    return text, checked.worker.call(accepted_findings)


def test_what_is_accepted_is_told_and_all_else_fails(checked: Device) -> None:
    near = KERNEL.replace("100000000", "16")
    text, accepted = said(checked, FIRST, kernel=near)
    assert "kernel.cu:4" not in text
    assert "race in twice" in text
    assert "kernel.cu:7" in text
    assert accepted == [FIRST]
    assert said(checked, FIRST, SECOND, FAR, kernel=near) == ("", sorted((FIRST, SECOND, FAR)))
    assert said(checked, kernel=near)[1] == []


@pytest.mark.parametrize(
    "other",
    [
        "race\ttwice\tkernel.cu:5",
        "race\tother\tkernel.cu:4",
        "race\ttwi\tkernel.cu:4",
        "race\twice\tkernel.cu:4",
        "race\ttwice\tl.cu:4",
        "rac\ttwice\tkernel.cu:4",
        "out of bounds\ttwice\tkernel.cu:4",
    ],
)
def test_another_line_kernel_file_or_kind_is_not_accepted(checked: Device, other: str) -> None:
    text, accepted = said(checked, other, kernel=KERNEL.replace("100000000", "2"))
    assert "kernel.cu:4" in text
    assert accepted == []


@pytest.mark.parametrize(("kernel", "is_it"), [("twice", True), ("wice", False), ("twic", False), ("2", False)])
def test_a_name_of_cpp_is_matched_whole(checked: Device, kernel: str, is_it: bool) -> None:
    checked.worker.call(softcuda.accept, [f"race\t{kernel}\tkernel.cu:4"])
    text = checked.said(checked.image(KERNEL.replace('extern "C" ', "").replace("100000000", "2")), "_Z5twicePi", 64)
    assert ("kernel.cu:4" not in text) == is_it
    assert bool(checked.worker.call(accepted_findings)) == is_it


def test_what_was_accepted_of_one_kernel_is_not_of_the_next(checked: Device) -> None:
    """Cases run in one process, and a variant may launch the kernel of another one that accepts more."""
    checked.worker.call(softcuda.accept, [FIRST])
    checked.worker.call(softcuda.accept, [])
    text = checked.said(checked.image(KERNEL.replace("100000000", "2")), "twice", 64)
    assert "kernel.cu:4" in text


def test_a_read_of_what_nothing_wrote_is_accepted_too(checked: Device) -> None:
    """It is put into words when it is known who writes there later."""
    text = """
extern "C" __global__ void twice(int* x)
{
    __shared__ int own[32];
    if (threadIdx.x == 0) x[8] = own[0];
}
"""
    read = "uninitialised memory\ttwice\tkernel.cu:5"
    assert "uninitialised memory in twice" in said(checked, kernel=text)[0]
    left, accepted = said(checked, read, kernel=text)
    assert left == ""
    assert accepted == [read]


ENDED = """
extern "C" __global__ void twice(int* x)
{
    if (threadIdx.x % 32 >= 12)
        return;
    int sum = 1;
    sum += __shfl_down_sync(0xffffffffu, sum, 4, 8);
    x[threadIdx.x] = sum;
}
"""


def test_what_a_lane_gets_of_one_that_has_ended_is_undefined_where_it_is_accepted(checked: Device) -> None:
    read = "barrier error\ttwice\tkernel.cu:7"
    assert "kernel.cu:7" in said(checked, kernel=ENDED)[0]
    assert said(checked, read, kernel=ENDED) == ("", [read])
    (left,) = checked.left(checked.image(ENDED), "twice", 48, 32, orders=(None,))
    assert isinstance(left, bytes)
    values = np.frombuffer(left, np.int32)
    assert values[:4].tolist() == [2, 2, 2, 2]
    assert values[8:].tolist() == [1 - 0x10102] * 4  # lanes 12 to 15 have ended


def test_a_launch_that_a_finding_ends_fails_though_it_is_accepted(checked: Device) -> None:
    """Where an access would touch what is not the device's, nothing behind it is done."""
    text, _ = said(checked, FIRST, SECOND, FAR, kernel=KERNEL.replace("100000000", "1000000000000000"))
    assert "out of bounds in twice" in text
