"""Tests of what calls launch: what differs between two sides is said, and no more than is known."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from warpwatch.catalogue.launches import MOST_LAUNCHED
from warpwatch.runs.launched import Launched, LaunchedKernel

KERNEL = LaunchedKernel(name="add", grid=(32, 1, 1), block=(128, 1, 1), registers=24, code="a1")


def words(*launches: str) -> Launched:
    return Launched(words=launches)


def one(**changed: Any) -> Launched:
    return Launched(words=("add, grid 32x1x1",), kernels=(replace(KERNEL, **changed),))


def test_other_launches_are_said() -> None:
    old, new = words("gemm_128x64", "fill", "fill"), words("gemm_64x32", "fill")
    assert old.changes(new) == "its call launches gemm_64x32 where it launched gemm_128x64; fill"
    assert old.changes(words("gemm_128x64")) == "its call no longer launches fill; fill"
    assert words().changes(words(*"abcde")) == ""
    assert words("x").changes(words("x", *"abcde")) == "its call also launches a; b; c and 2 more"
    assert old.changes(old) == ""
    assert old.changes(words()) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"code": "b2"}, "add: other machine code"),
        ({"code": "b2", "registers": 34}, "add: other machine code, registers 24 -> 34"),
        ({"local_bytes": 48}, "add: bytes of local memory of a thread 0 -> 48"),
        ({"code": ""}, ""),
        ({}, ""),
    ],
)
def test_other_figures_and_machine_code_of_the_same_launches_are_said(changed: dict[str, Any], said: str) -> None:
    assert one().changes(one(**changed)) == said


def test_several_launches_of_a_kernel_are_said_once() -> None:
    old, new = (Launched(words=("add", "add"), kernels=[*each.kernels] * 2) for each in (one(), one(code="b2")))
    assert old.changes(new) == "add: other machine code"


def test_all_is_seen_where_each_kernels_machine_code_is() -> None:
    assert one().is_seen
    assert words("a fill of 16 bytes").is_seen
    assert not one(code="").is_seen
    assert not words().is_seen
    assert not words(*["fill"] * MOST_LAUNCHED).is_seen  # there may have been more
