"""Compares cub's collectives with NumPy, and holds that a missing barrier is found and what is not there is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

SOURCE = ROOT / "tests/softcuda/libraries/collectives.cu"
THREADS = 96
Values = np.ndarray[Any, Any]


def sums_of_a_block(given: Values) -> Values:
    mine = given[:THREADS]
    results = [mine.sum(), mine.max(), 3 * mine.sum(), mine[:40].sum(), int(np.argmax(mine % 50))]
    return np.concatenate([results, given[5:]])


def scans_of_a_block(given: Values) -> Values:
    mine = given[:THREADS]
    upto = np.cumsum(mine)
    pairs = np.cumsum(np.stack([mine, np.ones_like(mine)], 1).ravel())
    before = np.concatenate([[0], pairs[:-1]]).reshape(-1, 2)
    rows = [
        upto - mine,
        np.full_like(mine, upto[-1]),
        upto,
        np.maximum.accumulate(mine % 50),
        before[:, 0],
        before[:, 1],
    ]
    return np.concatenate([mine, np.stack(rows, 1).ravel()])


def of_warps(given: Values) -> Values:
    mine, lanes = given[:THREADS], np.arange(THREADS) % 32
    upto = np.cumsum(mine.reshape(-1, 32), axis=1)
    least = np.repeat((mine % 50).reshape(-1, 8).min(axis=1), 8)
    totals = np.repeat(upto[:, -1], 32)
    rows = [np.where(lanes, 0, totals), np.where(lanes % 8, 0, least), upto.ravel(), upto.ravel() - mine, totals]
    return np.concatenate([mine, np.stack(rows, 1).ravel()])


def loads_and_stores(given: Values) -> Values:
    items = given[: 4 * THREADS].copy()
    items[-1] = -1
    return np.concatenate([given[: 4 * THREADS], items + 1000 * given[: 4 * THREADS].reshape(4, THREADS).T.ravel()])


def sorts_of_a_block(given: Values) -> Values:
    mine = given[: 2 * THREADS]
    numbers = np.where(mine % 3, mine, -mine)
    by_value = np.argsort(np.sign(numbers) * (mine // 4 / 2), kind="stable")
    low_bits = np.argsort(-((mine[:THREADS] >> 2) & 7), kind="stable")
    rows = [np.sort(numbers)[::-1].reshape(2, THREADS).T.ravel(), by_value, mine[by_value]]
    return np.concatenate([mine, *rows, mine[low_bits]])


def ranks_of_a_block(given: Values) -> Values:
    mine = given[: 2 * THREADS]
    ranks, matched = np.empty_like(mine), np.empty_like(mine)
    ranks[np.argsort(-((mine >> 2) & 7), kind="stable")] = np.arange(2 * THREADS)
    by_items = np.arange(2 * THREADS).reshape(-1, 32, 2).transpose(0, 2, 1).ravel()
    matched[by_items[np.argsort((mine & 127)[by_items], kind="stable")]] = np.arange(2 * THREADS)
    tracked = -(-128 // THREADS)
    before = [(mine & 127 < digit).sum() for digit in range(0, 128, tracked)]
    return np.concatenate([mine, ranks, matched, before, given[6 * THREADS + len(before) :]])


def scans_with_prefixes(given: Values) -> Values:
    mine = given[:THREADS]
    upto, all_of_it = np.cumsum(mine), mine.sum()
    pairs = np.cumsum(np.stack([mine, np.ones_like(mine)], 1).ravel()).reshape(-1, 2) + all_of_it
    second = np.cumsum(mine + 1) - mine - 1 + 1000 + all_of_it
    largest = np.maximum.accumulate(np.concatenate([[5], mine[:-1]]))
    rows = [upto - mine + 1000, second, upto, largest, pairs[:, 0], pairs[:, 1]]
    return np.concatenate([mine, np.stack(rows, 1).ravel()])


def exchanges(given: Values) -> Values:
    mine = given[: 2 * THREADS]
    scattered = mine[::-1].copy()
    scattered[-3:] = given[-3:]
    return np.concatenate([mine, mine.reshape(3, 2, 32).transpose(0, 2, 1).ravel(), scattered])


KERNELS: dict[str, tuple[int, Callable[[Values], Values]]] = {
    "sums_of_a_block": (THREADS, sums_of_a_block),
    "scans_of_a_block": (7 * THREADS, scans_of_a_block),
    "of_warps": (6 * THREADS, of_warps),
    "sorts_of_a_block": (9 * THREADS, sorts_of_a_block),
    "ranks_of_a_block": (8 * THREADS, ranks_of_a_block),
    "scans_with_prefixes": (7 * THREADS, scans_with_prefixes),
    "exchanges": (6 * THREADS, exchanges),
    "loads_and_stores": (8 * THREADS, loads_and_stores),
}


def left_by(device: Device, kernel: str, broken: int = 0) -> list[Any]:
    """What a kernel leaves of numbers, or what is said, in each order."""
    image = device.image(SOURCE, {"BROKEN": broken})
    return device.in_orders(calls.run_groups, image, kernel, (THREADS, 1, 1, 1), given_to(kernel))


def given_to(kernel: str) -> Values:
    return np.arange(KERNELS[kernel][0], dtype=np.int32) * 7 % 173


@pytest.mark.once
@pytest.mark.parametrize("kernel", KERNELS)
def test_collectives_are_numpys(either: Device, kernel: str) -> None:
    for left in left_by(either, kernel):
        assert isinstance(left, np.ndarray), left
        np.testing.assert_array_equal(left, KERNELS[kernel][1](given_to(kernel)))


FAULTS = {
    ("sums_of_a_block", 1): "race",
    ("sums_of_a_block", 2): "barrier error|uninitialised memory",
    ("scans_of_a_block", 1): "race",
    ("sorts_of_a_block", 1): "race",
    ("exchanges", 1): "race",
}


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "broken"), FAULTS, ids=[f"{kernel}-{broken}" for kernel, broken in FAULTS])
def test_storage_that_is_used_again_too_early_is_found(checked: Device, kernel: str, broken: int) -> None:
    for said in left_by(checked, kernel, broken):
        found = rf"softcuda: (?:{FAULTS[kernel, broken]}) in {kernel}\n  tests/softcuda/libraries/collectives\.cu:\d+: "
        assert re.search(found, str(said)), said
