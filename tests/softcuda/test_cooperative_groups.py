"""Compares kernels that use cooperative groups with NumPy, and holds that only what is wrong of them is found."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

FOLDER = ROOT / "tests/softcuda/groups"
Values = np.ndarray[Any, Any]
THREADS = np.arange(64)


def left_by(
    device: Device, kernel: str, columns: int, *, shape: tuple[int, int, int, int] = (64, 1, 1, 1), **macros: int
) -> list[list[int]]:
    """The rows that the threads of a kernel leave, the same in every order."""
    given = np.zeros((np.prod(shape), columns), np.int32)
    answers = device.in_orders(calls.run_groups, device.image(FOLDER / f"{kernel}.cu", macros), kernel, shape, given)
    for left in answers:
        assert isinstance(left, np.ndarray), left
        assert (left == answers[0]).all()
    rows: list[list[int]] = answers[0].tolist()
    return rows


@pytest.mark.once
def test_groups_say_who_they_are(either: Device) -> None:
    rows = left_by(either, "members", 24, shape=(8, 4, 2, 3))
    for place, row in enumerate(rows):
        block, own = divmod(place, 64)
        index = own % 8 + 10 * (own // 8 % 4) + 100 * (own // 32)
        assert row == [
            64, own, block, index, 8 + 2, 64, 192, 192, block, 3,
            8, own % 8, own // 8, 8, own % 2, own % 8 // 2, 4,
            64000 + own, 8000 + own % 8, 16000 + own % 16, 8000 + own % 8, 1000, 64 + own % 8,
            24000 + 8 * block + own % 8,
        ], place  # fmt: skip


def of_tiles(size: int) -> Iterator[list[int]]:
    """The rows that tiles.cu leaves."""
    mine = (THREADS * 7 % 11).tolist()
    for own in THREADS.tolist():
        rank, first = own % size, own // size * size
        tile = mine[first : first + size]

        def at(other: int, rank: int = rank, tile: list[int] = tile) -> int:
            return tile[other] if 0 <= other < size else tile[rank]

        bits = [sum(bool(is_in) << i for i, is_in in enumerate(each)) for each in (
            [value > 5 for value in tile], [value % 3 == mine[own] % 3 for value in tile])]  # fmt: skip
        everyone = (1 << size) - 1
        signed = [(each + 2**31) % 2**32 - 2**31 for each in (*bits, everyone + 1)]
        one = size == 1
        wide = tile[-1] + 100 * (size - 1) + 10000 * tile[-1]
        down = at(rank + 1)
        yield [
            tile[3 % size], tile[(rank + 1) % size], at(rank - 2), at(rank + 3), at(rank ^ size // 2),
            4 in tile, max(tile) < 9, *signed[:2], signed[2], int(one), int(one),
            tile[0], down, wide, tile[0] + 1 + 1000 * (rank == 0),
        ]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32])
def test_tiles_exchange_values(either: Device, size: int) -> None:
    rows = left_by(either, "tiles", 16, SIZE=size)
    for own, (row, expected) in enumerate(zip(rows, of_tiles(size), strict=True)):
        assert row == expected, own


def of_sums(group: list[int], own: int) -> list[int]:
    """The row that sums.cu leaves of a thread whose group has these threads."""
    values = np.array([thread * 7 % 11 + 1 for thread in group], np.int64)
    rank = group.index(own)
    folds: list[Any] = [np.sum, np.min, np.max, np.bitwise_and.reduce, np.bitwise_or.reduce, np.bitwise_xor.reduce]
    where = group[int(np.argmax(values))]
    before = values[:rank].tolist()
    weighted = functools.reduce(lambda one, other: one + 2 * other, before) if before else 0
    inclusive = int(values[: rank + 1].sum())
    return [
        *(int(fold(values)) for fold in folds), int(values.sum()), int(np.max(values)) + 100 * where,
        inclusive, sum(before), int(np.max(values[: rank + 1])), weighted, len(group), rank, inclusive,
    ]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize(("size", "every"), [(1, 1), (16, 1), (32, 1), (32, 3), (32, 31)])
def test_reductions_and_scans_are_numpys(either: Device, size: int, every: int) -> None:
    rows = left_by(either, "sums", 20, SIZE=size, EVERY=every)
    for own, row in enumerate(rows):
        group = [thread for thread in range(own // size * size, (own // size + 1) * size) if thread % every == 0]
        assert row[:15] == (of_sums(group, own) if own in group else [0] * 15), own


def of_parts(own: int) -> list[int]:
    """The row that parts.cu leaves of a thread."""
    warp = range(own // 32 * 32, own // 32 * 32 + 32)
    labeled = [thread for thread in warp if thread * 5 % 3 == own * 5 % 3]
    halves = [thread for thread in warp if (thread % 4 == 1) == (own % 4 == 1)]
    row = [len(labeled), labeled.index(own), sum(labeled), len(halves), halves.index(own), halves[1], *[0] * 9]
    row += [203 + 10 * (own % 4 == 1)]
    active = [thread for thread in warp if thread % 32 < 20 and thread % 2]
    if own in active:
        rank = active.index(own)
        four = active[rank // 4 * 4 : rank // 4 * 4 + 4]
        row[6:15] = [
            10, active[9], active[max(rank - 1, 0)], active[rank + 4] if rank < 6 else own,
            sum((thread % 3 == 0) << i for i, thread in enumerate(active)),
            len(four) + 10 * (rank % 4) + 100 * (rank // 4) + 3000, sum(four),
            sum((thread % 4 == own % 4) << i for i, thread in enumerate(active)), (5 in active) + 2,
        ]  # fmt: skip
    return row


@pytest.mark.once
def test_groups_that_are_found_as_the_kernel_runs(either: Device) -> None:
    rows = left_by(either, "parts", 16)
    for own, row in enumerate(rows):
        assert row == of_parts(own), own


def test_lanes_are_together_again_behind_a_condition(either: Device) -> None:
    image, given = either.image(FOLDER / "parts.cu"), THREADS.astype(np.int32)
    for left in either.in_orders(calls.run_groups, image, "joined", (64, 1, 1, 1), given):
        assert left.tolist() == np.where(THREADS % 2, 37, -32).tolist()


@pytest.mark.once
def test_warp_intrinsics_of_many_lanes_and_of_all_types(either: Device) -> None:
    rows = left_by(either, "intrinsics", 16)
    mine = THREADS * 7 % 11 - 5
    for own, row in enumerate(rows):
        half, warp = mine[own // 16 * 16 :][:16], mine[own // 32 * 32 :][:32]
        unsigned = warp.astype(np.int32).view(np.uint32)
        bits = half.astype(np.int32)
        lane, low = own % 32, half.astype(np.int32).view(np.uint32)
        mask = 0xFFFF if lane < 16 else -65536
        assert row == [
            half.sum(), np.min(half), np.max(half), warp.sum(), np.min(unsigned).view(np.int32),
            *(functools.reduce(fold, bits) for fold in (operator.and_, operator.or_, operator.xor)),
            np.max(low).view(np.int32),
            mask + 1, 0, warp[min(lane + 1, 31)], warp[lane ^ 5], warp[lane - 3 if lane >= 3 else lane],
            warp[lane // 8 * 8 + 2], warp[lane ^ 9] + 5,
        ], own  # fmt: skip


def test_sums_wrap_and_may_be_of_half_precision(either: Device) -> None:
    image, given = either.image(FOLDER / "intrinsics.cu"), np.zeros((64, 4), np.int32)
    first = (16 * 0x10000000 + 120 + 2**31) % 2**32 - 2**31
    for left in either.in_orders(calls.run_groups, image, "other_sums", (64, 1, 1, 1), given):
        assert isinstance(left, np.ndarray), left
        for own, row in enumerate(left.tolist()):
            scanned = (own % 16 + 1) * 0x10000000
            assert row == [first, (scanned + 2**31) % 2**32 - 2**31, 120, 15], own


def test_a_last_warp_may_be_short(either: Device) -> None:
    """Of 44 threads: the third tile of 16 lanes has 12."""
    rows = left_by(either, "sums", 20, shape=(44, 1, 1, 1), SIZE=16, EVERY=1)
    for own, row in enumerate(rows):
        group = list(range(own // 16 * 16, min(own // 16 * 16 + 16, 44)))
        expected = of_sums(group, own)
        assert row[:12] == expected[:12], own


# What ordered.cu's kernels make of 0, 1, 2, ... in blocks of 64 threads.
BLOCKS = 5
TOGETHER = {"neighbours", "copies_over_the_grid"}


def staged(given: Values) -> Values:
    rounds = given[:256].reshape(4, 64)[:, ::-1] + THREADS
    return np.concatenate([given[:256], rounds.sum(axis=0)])


def staged_bytes(given: Values) -> Values:
    raw = given.view(np.uint8)
    warps = [np.concatenate([raw[4 * warp : 4 * warp + 23][::-1], np.zeros(9, np.uint8)]) for warp in range(2)]
    return np.concatenate([given[:64], np.concatenate(warps).astype(np.int32) + 1])


def leaders(given: Values) -> Values:
    return np.where(THREADS % 32 < 21, THREADS // 32 * 32 + 20, given)


def branches(given: Values) -> Values:
    tile, rank = given // 8, given % 8
    return np.where(tile % 3 == 0, (rank + tile + 1) % 8, (rank ^ 3) + 4)


def labels(given: Values) -> Values:
    return np.concatenate([np.bincount(given * 7 % 5), given[5:]])


def neighbours(given: Values) -> Values:
    places = np.arange(len(given))
    return 1000 * ((places + 3) % len(given)) + places // 64 * 64 + 63 - places % 64


ORDERED: dict[str, tuple[int, Callable[[Values], Values]]] = {
    "tree": (64, lambda given: np.full_like(given, 2016)),
    "turned": (64, lambda given: given + 2 * (THREADS ^ 15) + 1),
    "leaders": (64, leaders),
    "branches": (64, branches),
    "labels": (64, labels),
    "staged": (320, staged),
    "staged_bytes": (128, staged_bytes),
    "neighbours": (64 * BLOCKS, neighbours),
    "copies_over_the_grid": (
        64 * BLOCKS,
        lambda given: given.reshape(-1, 64)[:, ::-1].ravel() + np.arange(len(given), dtype=np.int32),
    ),
}


def ordered(device: Device, kernel: str, broken: int = 0, together: bool | None = None) -> list[Any]:
    """What a kernel of ordered.cu leaves of numbers from 0 on, or what is said, in each order."""
    image = device.image(FOLDER / "ordered.cu", {"BROKEN": broken})
    is_together = kernel in TOGETHER if together is None else together
    shape = (64, 1, 1, BLOCKS if kernel in TOGETHER else 1)
    given = np.arange(ORDERED[kernel][0], dtype=np.int32)
    return device.in_orders(calls.run_groups, image, kernel, shape, given, is_together)


@pytest.mark.once
@pytest.mark.parametrize("kernel", ORDERED)
def test_what_groups_order_is_right_and_accused_in_no_order(either: Device, kernel: str) -> None:
    size, expected = ORDERED[kernel]
    for left in ordered(either, kernel):
        assert isinstance(left, np.ndarray), left
        np.testing.assert_array_equal(left, expected(np.arange(size, dtype=np.int32)))


UNORDERED = "race|uninitialised memory"  # in some orders the first read comes before any write
COPY = "asynchronous copy not waited for"
GRID = "the barrier of the grid is reached by"
# Of a kernel and the number of its fault: what is found, and what is said behind the kernel's line.
FAULTS = {
    ("tree", 1): (UNORDERED, "thread "),
    ("tree", 2): ("barrier error", ""),
    ("tree", 3): (UNORDERED, "thread "),
    ("turned", 1): (UNORDERED, "thread "),
    ("turned", 2): (UNORDERED, "thread "),
    ("turned", 3): ("barrier error", r".*mask names and which never come"),
    ("leaders", 1): (UNORDERED, "thread "),
    ("leaders", 2): ("barrier error", ""),
    ("branches", 1): (UNORDERED, "thread "),
    ("labels", 1): (UNORDERED, "thread "),
    ("staged", 1): (COPY, r"thread .*\n.*copies .* bytes there"),
    ("staged", 2): (COPY, r"thread (.*\n)*.*this wait leaves the newest 2 groups open"),
    ("staged", 3): (f"race|{COPY}", "thread "),
    ("staged_bytes", 1): (f"{UNORDERED}|{COPY}", "thread "),
    ("neighbours", 1): (f"{UNORDERED}|race between blocks", "thread "),
    ("neighbours", 2): ("race|race between blocks", "thread "),
    ("neighbours", 3): ("barrier error", rf"{GRID} block .* and not by block \(2, 0, 0\), whose threads have ended"),
    ("neighbours", 4): ("barrier error", rf"{GRID} 32 threads .*, and not by thread .*, which has ended"),
    ("copies_over_the_grid", 1): (COPY, "thread "),
    ("copies_over_the_grid", 2): ("uninitialised memory", "thread "),
}


@pytest.mark.once
@pytest.mark.parametrize(("kernel", "broken"), FAULTS, ids=[f"{kernel}-{broken}" for kernel, broken in FAULTS])
def test_what_groups_do_not_order_is_found_in_every_order(checked: Device, kernel: str, broken: int) -> None:
    what, told = FAULTS[kernel, broken]
    for said in map(str, ordered(checked, kernel, broken)):
        found = rf"softcuda: (?:{what}) in {kernel}\n  tests/softcuda/groups/ordered\.cu:\d+: (?:{told})"
        assert re.search(found, said), said
        assert "cooperative_groups" not in said, said  # no line of the headers


def test_a_grid_does_not_wait_in_a_launch_that_is_not_cooperative(either: Device) -> None:
    for said in ordered(either, "neighbours", together=False):
        assert re.search(r"ordered\.cu:\d+: thread .* not cooperative.*launch it by cuLaunchCooperativeKernel", said)


def test_more_threads_than_can_be_alive_are_refused(checked: Device) -> None:
    image = checked.image(FOLDER / "ordered.cu", {"BROKEN": 0})
    for blocks, code in ((16, None), (17, "code 720")):
        given = np.arange(1024 * blocks, dtype=np.int32)
        left = checked.once(calls.run_groups, image, "grid_order", (1024, 1, 1, blocks), given, True)
        assert (left == code) if code else isinstance(left, np.ndarray), left


HEAD = "".join(f"#include <cooperative_groups{part}.h>\n" for part in ("", "/reduce", "/scan", "/memcpy_async"))


def test_macros_of_one_letter_do_not_change_the_headers(either: Device) -> None:
    image = either.image(
        f'{HEAD}using namespace cooperative_groups;\nextern "C" __global__ void kernel(int* out)\n'
        "{ out[threadIdx.x] = reduce(tiled_partition<8>(this_thread_block()), 1, plus<int>()) * N; }\n"
        "int main() { cudaLaunchCooperativeKernel((void*)kernel, 1, 32, nullptr); }\n",
        dict.fromkeys("NABIVTMKSC", 7),
    )
    left = either.once(calls.run_with_zeros, image, "kernel", 128)
    assert isinstance(left, bytes), left
    assert list(np.frombuffer(left, np.int32)) == [56] * 32
