"""Runs a kernel with mma.h, cuda/barrier and cuda/pipeline together, and holds that what it leaves out is found."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

SOURCE = ROOT / "tests/softcuda/libraries/staged_products.cu"
RNG = np.random.default_rng(4)
A, B = (RNG.integers(-4, 5, shape).astype(np.float16) for shape in ((32, 64), (64, 16)))  # no sum is rounded
UNORDERED = "race|uninitialised memory|asynchronous copy not waited for"


def left_by(device: Device, broken: int = 0) -> list[bytes | str]:
    """What two warps leave of C in each order, or what is said of them."""
    image = device.image(SOURCE, {"BROKEN": broken})
    return device.in_orders(calls.run_on_arrays, image, "staged_products", [A, B], 32 * 16 * 4, None, 64)


def test_products_of_what_copies_bring(either: Device) -> None:
    for left in left_by(either):
        assert isinstance(left, bytes), left
        got = np.frombuffer(left, np.float32).reshape(32, 16)
        np.testing.assert_array_equal(got, A.astype(np.float32) @ B.astype(np.float32))


@pytest.mark.once
@pytest.mark.parametrize("broken", [1, 2, 3, 4])
def test_products_of_what_is_not_there_yet_are_found(checked: Device, broken: int) -> None:
    """Of the faults, 1 neither arrives nor waits where the copies of B do, 2 waits for a step less of A.

    Faults 3 and 4 lack the barrier before and after the product.
    """
    for said in left_by(checked, broken):
        found = rf"softcuda: (?:{UNORDERED}) in staged_products\n  tests/softcuda/libraries/staged_products\.cu:\d+: "
        assert re.search(found, str(said)), said
