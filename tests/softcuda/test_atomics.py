"""Holds that cuda::atomic orders what its memory order says, and that what it does not order is found."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

SOURCE = ROOT / "tests/softcuda/libraries/atomics.cu"
LEFT = {"last_block": 7 * (1 + 2 + 3), "published": 14}


def left_by(device: Device, kernel: str, broken: int) -> list[Any]:
    """What four blocks leave of zeros, or what is said, in each order."""
    shape = (32, 1, 1, 4 if kernel == "last_block" else 2)
    image = device.image(SOURCE, {"BROKEN": broken})
    return device.in_orders(calls.run_groups, image, kernel, shape, np.zeros(64, np.int32))


@pytest.mark.once
@pytest.mark.parametrize("kernel", LEFT)
def test_what_atomics_order_is_right_and_accused_in_no_order(checked: Device, kernel: str) -> None:
    for left in left_by(checked, kernel, 0):
        assert isinstance(left, np.ndarray), left
        assert left[63] == LEFT[kernel]


@pytest.mark.once
@pytest.mark.parametrize("broken", [1, 2])
@pytest.mark.parametrize("kernel", LEFT)
def test_what_atomics_do_not_order_is_found_in_every_order(checked: Device, kernel: str, broken: int) -> None:
    for said in left_by(checked, kernel, broken):
        found = rf"softcuda: race between blocks in {kernel}\n  tests/softcuda/libraries/atomics\.cu:\d+: thread "
        assert re.search(found, str(said)), said
