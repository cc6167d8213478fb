"""Holds that cuda::atomic orders what its memory order says, and that what it does not order is found."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.worker import Worker, describe_device

SOURCE = ROOT / "tests/softcuda/libraries/atomics.cu"
ORDERS = (None, 1, 2)
LEFT = {"last_block": 7 * (1 + 2 + 3), "published": 14}


def left_by(software: Worker, kernel: str, broken: int) -> list[Any]:
    """What four blocks leave of zeros, or what is said, in each order."""
    image = compile_file(SOURCE, {"BROKEN": str(broken)}, software.call(describe_device).target)
    given = np.zeros(64, np.int32)
    blocks = 4 if kernel == "last_block" else 2
    answers: list[Any] = software.call(calls.run_groups, ORDERS, image.path, kernel, (32, 1, 1, blocks), given, False)
    return answers


@pytest.mark.once
@pytest.mark.parametrize("kernel", LEFT)
def test_what_atomics_order_is_right_and_accused_in_no_order(software: Worker, kernel: str) -> None:
    for order, left in zip(ORDERS, left_by(software, kernel, 0), strict=True):
        assert isinstance(left, np.ndarray), f"order {order}: {left}"
        assert left[63] == LEFT[kernel]


@pytest.mark.parametrize("broken", [1, 2])
@pytest.mark.parametrize("kernel", LEFT)
def test_what_atomics_do_not_order_is_found_in_every_order(software: Worker, kernel: str, broken: int) -> None:
    for order, said in zip(ORDERS, left_by(software, kernel, broken), strict=True):
        assert isinstance(said, str), f"order {order}: nothing"
        found = rf"softcuda: race between blocks in {kernel}\n  tests/softcuda/libraries/atomics\.cu:\d+: thread "
        assert re.search(found, said), f"order {order}: {said}"
