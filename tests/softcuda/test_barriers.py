"""Compares kernels with barriers and pipelines of shared memory with NumPy, and holds that what is wrong is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

SOURCE = ROOT / "tests/softcuda/libraries/barriers.cu"
Values = np.ndarray[Any, Any]
OWN = np.arange(128)


def added(given: Values, rows: int, wide: int) -> Values:
    """The rows, and behind them their sum, each from its end."""
    return np.concatenate([given[: rows * wide], given[: rows * wide].reshape(rows, wide)[:, ::-1].sum(axis=0)])


def fewer(given: Values) -> Values:
    return np.concatenate([[7 + 15 + 23 + 31 + 39 + 47 + 55], given[1:]])


# Threads, numbers, and what they become.
KERNELS: dict[str, tuple[int, int, Callable[[Values], Values]]] = {
    "sum_of_a_tree": (64, 64, lambda given: np.full_like(given, 2016)),
    "fewer_and_fewer": (64, 64, fewer),
    "producers_and_consumers": (64, 224, lambda given: added(given, 6, 32)),
    "spokesmen": (128, 128, lambda given: given + 4 * (OWN ^ 37) + 6),
    "copied": (64, 128, lambda given: np.concatenate([given[:64], given[63::-1]])),
    "staged_alone": (64, 320, lambda given: np.concatenate([given[:256], given[:256].reshape(4, 64).sum(axis=0)])),
    "staged_together": (64, 320, lambda given: added(given, 4, 64)),
    "staged_by_roles": (64, 224, lambda given: added(given, 6, 32)),
    "over_the_grid": (64, 128, lambda given: given + np.tile(63 - OWN[:64] + 2 * (OWN[:64] ^ 37), 2)),
    "by_number": (96, 192, lambda given: np.concatenate([given[:128], np.tile(added(given, 4, 32)[-32:], 2)])),
    "in_ptx": (64, 256, lambda given: np.concatenate([given[:128], given[:128].reshape(2, 64)[:, ::-1].ravel()])),
}


def left_by(device: Device, kernel: str, broken: int = 0) -> list[Any]:
    """What a kernel leaves of numbers from 0 on, or what is said, in each order."""
    threads, size, _ = KERNELS[kernel]
    together = kernel == "over_the_grid"
    shape, given = (threads, 1, 1, 1 + together), np.arange(size, dtype=np.int32)
    return device.in_orders(calls.run_groups, device.image(SOURCE, {"BROKEN": broken}), kernel, shape, given, together)


@pytest.mark.once
@pytest.mark.parametrize("kernel", KERNELS)
def test_what_barriers_order_is_right_and_accused_in_no_order(either: Device, kernel: str) -> None:
    _, size, expected = KERNELS[kernel]
    for left in left_by(either, kernel):
        assert isinstance(left, np.ndarray), left
        np.testing.assert_array_equal(left, expected(np.arange(size, dtype=np.int32)))


UNORDERED = "race|uninitialised memory"  # in some orders the first read comes before any write
COPY = "asynchronous copy not waited for"
WAITS = r"thread .* waits for the mbarrier at shared "
# Of a kernel and the number of its fault: what is found, and what is said behind the kernel's line.
FAULTS = {
    ("sum_of_a_tree", 1): (f"{UNORDERED}|barrier error", "thread "),
    ("sum_of_a_tree", 2): ("race", "thread "),
    ("sum_of_a_tree", 3): ("race", "thread "),
    ("sum_of_a_tree", 4): ("uninitialised memory|barrier error", "thread "),
    ("sum_of_a_tree", 5): (f"{UNORDERED}|barrier error", "thread "),
    ("sum_of_a_tree", 6): ("barrier error|race", "thread "),
    ("fewer_and_fewer", 1): ("barrier error", WAITS),
    ("producers_and_consumers", 1): ("race|barrier error", "thread "),
    ("producers_and_consumers", 2): (UNORDERED, "thread "),
    ("producers_and_consumers", 3): ("race", "thread "),
    ("producers_and_consumers", 4): (
        "barrier error",
        rf"{WAITS}full.*, where 16 of 32 arrivals are missing that never come",
    ),
    ("producers_and_consumers", 5): (f"{UNORDERED}|barrier error", "thread "),
    ("spokesmen", 1): (UNORDERED, "thread "),
    ("copied", 1): (f"uninitialised memory|{COPY}", "thread "),
    ("copied", 2): (COPY, "thread "),
    ("copied", 3): ("race", "thread "),
    ("copied", 4): (COPY, r"thread .*\n.*copies .* bytes there:\n.* they arrive at the mbarrier at shared all"),
    ("staged_alone", 1): (COPY, r"thread .*\n.*\n.*this wait leaves the newest 2 groups open"),
    ("staged_alone", 2): (COPY, "thread "),
    ("staged_together", 1): (f"{UNORDERED}|{COPY}", "thread "),
    ("staged_together", 2): (f"race|{COPY}", "thread "),
    ("staged_together", 3): (f"barrier error|{COPY}|race", ""),
    ("staged_together", 4): ("barrier error", WAITS),
    ("staged_together", 5): (f"race|barrier error|{COPY}", "thread "),
    ("staged_by_roles", 1): (f"{UNORDERED}|{COPY}", "thread "),
    ("staged_by_roles", 2): (f"race|{COPY}", "thread "),
    ("over_the_grid", 1): (UNORDERED, "thread "),
    ("by_number", 1): ("race|barrier error", "thread "),
    ("by_number", 2): (
        "barrier error",
        r"thread .* waits for barrier [13], where (?:32|64) of 96 arrivals are missing",
    ),
    ("by_number", 3): (f"{UNORDERED}|barrier error", "thread "),
    ("by_number", 4): ("barrier error", r"thread .* is at barrier 3 for \d+ threads, where others are for \d+$"),
    ("in_ptx", 1): (f"uninitialised memory|{COPY}", "thread "),
    ("in_ptx", 2): (COPY, "thread "),
    ("in_ptx", 3): ("barrier error", rf"{WAITS}.*all.*, where .*16 bytes are missing that never come"),
}


@pytest.mark.once
@pytest.mark.parametrize(("kernel", "broken"), FAULTS, ids=[f"{kernel}-{broken}" for kernel, broken in FAULTS])
def test_what_barriers_do_not_order_is_found_in_every_order(checked: Device, kernel: str, broken: int) -> None:
    what, told = FAULTS[kernel, broken]
    for said in map(str, left_by(checked, kernel, broken)):
        found = rf"softcuda: (?:{what}) in {kernel}\n  tests/softcuda/libraries/barriers\.cu:\d+: (?:{told})"
        assert re.search(found, said), said
        assert not re.search(r"include/|softcuda/intrinsics", said), said  # no line of the headers
