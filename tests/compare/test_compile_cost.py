"""Tests what is said of sizes and compile times of builds, and when --fail-on fails for them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from warpwatch.compare.compile_cost import LEAST_BUILDS, OF_A_BUILD, OF_ALL, failures, lines, total
from warpwatch.runs.record import BuildCost

SAME = BuildCost(old_bytes=1280, new_bytes=1280, old_seconds=1.0, new_seconds=1.0)
GREW = BuildCost(old_bytes=1280, new_bytes=1408)
SHRANK = BuildCost(old_bytes=1280, new_bytes=1152)
PTX = BuildCost(old_bytes=0, new_bytes=1408)


def timed(old: float | None, new: float | None) -> BuildCost:
    return BuildCost(old_bytes=128, new_bytes=128, old_seconds=old, new_seconds=new)


@pytest.mark.parametrize(
    ("cost", "gates", "said"),
    [
        (SAME, ("size", "compile-time"), []),
        (GREW, ("size",), ["a: machine code grew from 1,280 to 1,408 bytes"]),
        (GREW, ("spills",), []),
        (SHRANK, ("size",), []),
        (PTX, ("size",), []),
        (timed(1.0, 1.0 + OF_A_BUILD), ("compile-time",), []),
        (
            timed(1.0, 3.0),
            ("compile-time",),
            [f"a: compile time grew by over {OF_A_BUILD:.0%}: 1.00 -> 3.00 s of processor time (+200.0 %)"],
        ),
        (timed(1.0, 2.0), ("size",), []),
    ],
)
def test_a_size_fails_exactly_and_a_time_beyond_its_noise(
    cost: BuildCost, gates: Sequence[str], said: list[str]
) -> None:
    assert failures({"a": cost}, gates) == said


@pytest.mark.parametrize(
    ("count", "growth", "fails"),
    [(LEAST_BUILDS, OF_ALL + 0.1, True), (LEAST_BUILDS, OF_ALL - 0.01, False), (LEAST_BUILDS - 1, OF_ALL + 0.1, False)],
)
def test_many_builds_together_are_judged_more_strictly(count: int, growth: float, fails: bool) -> None:
    said = failures({str(number): timed(1.0, 1.0 + growth) for number in range(count)}, ("compile-time",))
    assert [each.partition(":")[0] for each in said] == [f"compile time of 8 builds grew by over {OF_ALL:.0%}"] * fails


def test_what_was_in_the_cache_is_unknown_and_never_zero() -> None:
    cached = {"a": timed(None, 1.0), "b": timed(1.0, None), "c": timed(None, None)}
    assert total(cached.values()).old_seconds is None
    assert lines(cached) == []
    (said,) = failures(cached, ("compile-time",))
    assert said.startswith("the compile time of none of 3 builds is known on both sides: ")
    assert lines(cached | {"d": timed(1.0, 1.1)}) == [
        "compile time of 1 build: 1.00 -> 1.10 s of processor time (+10.0 %); "
        "unknown of 3 builds, of which a side was in the cache"
    ]


def test_nothing_to_compare_fails_nothing() -> None:
    assert failures({}, ("size", "compile-time")) == []
    assert lines({}) == []


def test_all_machine_code_is_added_up_where_both_sides_are_known() -> None:
    assert lines({"a": GREW, "b": SHRANK, "c": GREW, "d": PTX}) == [
        "machine code of 4 builds: 3,840 -> 3,968 bytes (+3.3 %), 2 larger"
    ]
