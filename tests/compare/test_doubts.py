"""Tests of what makes a slowdown doubtful, by facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from warpwatch.compare.doubts import change_of_work, disturbance, is_unchanged
from warpwatch.runs.identity import Identity
from warpwatch.runs.launched import LaunchedKernel
from warpwatch.runs.record import Facts


@pytest.mark.parametrize(
    ("clocks", "sentence"),
    [
        ((), ""),
        ((1980, 1980), ""),
        ((1965, 1980), ""),
        ((1500, 1980), "SM clock between 1,500 and 1,980 MHz while it was measured"),
        ((1980, 1500), "SM clock between 1,500 and 1,980 MHz while it was measured"),
        ((0, 1980), ""),
    ],
)
def test_a_clock_that_was_low_once_is_a_doubt(clocks: tuple[int, ...], sentence: str) -> None:
    assert disturbance(Facts(sm_clock_mhz=clocks)) == sentence


def test_a_call_that_launches_other_machine_code_does_other_work() -> None:
    """As where Triton was upgraded, or a file of its cache edited: source and library alone do not tell."""
    identity = Identity(
        version=1, code="", steps=(), arrays=(), symbols={}, draw="", call="triton", source="s", library=""
    )
    kernel = LaunchedKernel(name="add", grid=(32, 1, 1), block=(128, 1, 1), registers=24, code="a1")
    then = Facts(identity=identity, launches=("add",), kernels=(kernel,))
    now = replace(then, kernels=(structs.replace(kernel, registers=34, code="b2"),))
    assert is_unchanged(then, [then])
    changed = change_of_work(now, [then])
    assert changed.words == "add: other machine code, registers 24 -> 34"
    assert is_unchanged(now, [replace(then, launches=(), kernels=())])  # an older run does not tell
