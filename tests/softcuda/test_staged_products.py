"""Runs a kernel with mma.h, cuda/barrier and cuda/pipeline together, and holds that what it leaves out is found."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.devices.worker import Worker, describe_device

SOURCE = ROOT / "tests/softcuda/libraries/staged_products.cu"
ORDERS = (None, 1, 2)
RNG = np.random.default_rng(4)
A, B = (RNG.integers(-4, 5, shape).astype(np.float16) for shape in ((32, 64), (64, 16)))  # no sum is rounded
UNORDERED = "race|uninitialised memory|asynchronous copy not waited for"


def left_by(software: Worker, checked: bool, broken: int = 0) -> list[bytes | str]:
    """What two warps leave of C in each order, or what is said of them."""
    info = software.call(describe_device)
    image = compile_file(SOURCE, {"BROKEN": str(broken)}, info.target if checked else info.timing_target)
    left: list[bytes | str] = software.call(
        calls.run_on_arrays_in_orders, ORDERS, image.path, "staged_products", [A, B], 32 * 16 * 4, None, 64
    )
    return left


@pytest.mark.once
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "plain"])
def test_products_of_what_copies_bring(software: Worker, checked: bool) -> None:
    for order, left in zip(ORDERS, left_by(software, checked), strict=True):
        assert isinstance(left, bytes), f"order {order}: {left}"
        got = np.frombuffer(left, np.float32).reshape(32, 16)
        np.testing.assert_array_equal(got, A.astype(np.float32) @ B.astype(np.float32), f"order {order}")


@pytest.mark.once
@pytest.mark.parametrize("broken", [1, 2, 3, 4])
def test_products_of_what_is_not_there_yet_are_found(software: Worker, broken: int) -> None:
    """Of the faults, 1 neither arrives nor waits where the copies of B do, 2 waits for a step less of A.

    Faults 3 and 4 lack the barrier before and after the product.
    """
    for order, said in zip(ORDERS, left_by(software, True, broken), strict=True):
        assert isinstance(said, str), f"order {order}: nothing"
        found = rf"softcuda: (?:{UNORDERED}) in staged_products\n  tests/softcuda/libraries/staged_products\.cu:\d+: "
        assert re.search(found, said), f"order {order}: {said}"
