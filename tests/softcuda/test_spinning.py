"""Blocks and threads that wait for one another take turns, and where nobody can go on, it is a deadlock."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

SOURCE = ROOT / "tests" / "softcuda" / "spinning.cu"
ZEROS = np.zeros(64, np.int32)
PLACE = r"tests/softcuda/spinning\.cu:"


def answers(device: Device, entry: str, grid: int, threads: int = 64) -> list[bytes | str]:
    return device.left(device.image(SOURCE), entry, 256, threads, grid)


RIGHT = {
    "waits_for_a_later_block": (6, {0: 42, 1: 41, 63: 1}),
    "all_blocks_meet": (8, {**dict.fromkeys(range(8), 6), **dict.fromkeys(range(32, 40), 6), 63: 24}),
    "warps_of_a_block": (3, dict.fromkeys(range(3), 7)),
    "lock_in_turns": (4, {0: ((3 * 3 + 2) * 3 + 1) * 3, 63: 4}),
    "gives_up": (2, {0: 100000, 1: 100000}),
}


def check_right(device: Device, entry: str) -> None:
    grid, values = RIGHT[entry]
    for left in answers(device, entry, grid):
        assert isinstance(left, bytes), left
        assert np.frombuffer(left, np.int32).tolist() == [values.get(i, 0) for i in range(64)]


@pytest.mark.parametrize("entry", RIGHT)
def test_who_waits_for_another_one_goes_on_when_that_has_written(checked: Device, entry: str) -> None:
    check_right(checked, entry)


@pytest.mark.parametrize("entry", ["all_blocks_meet", "lock_in_turns", "gives_up"])
def test_so_it_is_without_checks_where_the_word_is_read_atomically(checked: Device, entry: str) -> None:
    check_right(checked.unchecked, entry)


def test_blocks_of_a_cooperative_launch_take_turns_too(either: Device) -> None:
    grid, values = RIGHT["all_blocks_meet"]
    left = either.once(calls.run_groups, either.image(SOURCE), "all_blocks_meet", (64, 1, 1, grid), ZEROS, True)
    assert left.tolist() == [values.get(i, 0) for i in range(64)]
    left = either.once(calls.run_groups, either.image(SOURCE), "flag_that_nobody_sets", (64, 1, 1, 2), ZEROS, True)
    assert "deadlock in flag_that_nobody_sets" in left


def test_a_flag_that_nobody_sets_is_a_deadlock_that_says_where_each_waits(checked: Device) -> None:
    for said in answers(checked, "flag_that_nobody_sets", 2):
        assert re.search(
            rf"the launch timed out and was terminated\nsoftcuda: deadlock in flag_that_nobody_sets\n"
            rf"  {PLACE}75: thread \(0, 0\) of block \([01], 0\) waits until data \(argument 1\), 256 bytes at byte 20 "
            rf"changes\n  {PLACE}79: thread \(1, 0\) of block \([01], 0\) waits at this barrier$",
            str(said),
        ), said


def test_two_blocks_that_wait_for_each_other_are_both_named(checked: Device) -> None:
    for said in answers(checked, "each_waits_for_the_other", 2):
        waits = re.findall(
            rf"{PLACE}88: thread \(0, 0\) of block \((\d), 0\) waits until .* at byte (\d) changes", str(said)
        )
        assert sorted(waits) == [("0", "4"), ("1", "0")], said


def test_blocks_that_are_not_there_at_once_cannot_meet(checked: Device) -> None:
    (first, *_) = answers(checked, "all_blocks_meet", 18, 1024)
    assert "deadlock in all_blocks_meet" in str(first)
    assert "no more than 16384 threads are there at once: 2" in str(first)
