"""Tests of what the clocks beside a pair's samples say about the SM clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warpwatch.compare.doubts import disturbance
from warpwatch.runs.record import Facts
from warpwatch.timing.nvml import POWER_CAP, Clock
from warpwatch.timing.pair_samples import PairSamples, is_steady, record_clocks

HIGHEST = 1980
FREE, CAPPED = Clock(1980, ()), Clock(1905, (POWER_CAP,))


def pair(old: tuple[float, ...], new: tuple[float, ...]) -> PairSamples:
    """Return a pair whose samples ran at these clocks."""
    times = (1.0,) * 4
    return PairSamples(old=times, new=times, beside={"mhz": (old, new)})


STEADY = pair((1965.0, 1965.0, 1966.0, 1980.0), (1965.0, 1965.0, 1966.0, 1980.0))
FELL = pair((1980.0, 1980.0, 1755.0, 1740.0), (1980.0, 1980.0, 1755.0, 1755.0))


def clocks_of(
    taken: PairSamples, before: Clock, after: Clock, later: Clock | None = None
) -> tuple[tuple[Clock, Clock], bool]:
    """Return the clocks that are recorded of a pair, and whether it keeps the clock down."""
    found = record_clocks(replace(taken, clocks=(before, after)), later or after, HIGHEST)
    return found.clocks, found.keeps_clock_down


def test_a_cap_that_an_earlier_pair_left_is_none_where_the_clock_was_high_and_steady() -> None:
    assert clocks_of(STEADY, CAPPED, CAPPED) == ((Clock(1965, ()), Clock(1973, ())), False)


def test_a_cap_counts_where_the_clock_fell_beside_the_samples() -> None:
    assert clocks_of(FELL, CAPPED, CAPPED) == ((CAPPED, CAPPED), True)


@pytest.mark.parametrize(
    "taken",
    [
        pair((1949.0, 1965.0, 1980.0, 1980.0), (1965.0, 1980.0, 1980.0, 1980.0)),  # it still rose
        pair((1980.0,) * 4, (1977.5,) * 4),  # the sides are not alike
    ],
)
def test_a_pair_whose_clock_is_high_in_the_end_does_not_keep_it_down_though_an_earlier_cap_counts(
    taken: PairSamples,
) -> None:
    assert clocks_of(taken, CAPPED, CAPPED) == ((CAPPED, CAPPED), False)


@pytest.mark.parametrize("reason", ["hardware slowdown", "hardware thermal slowdown"])
def test_other_reasons_count_beside_a_steady_clock(reason: str) -> None:
    hot = Clock(1980, (POWER_CAP, reason), others=("another",))
    clocks, down = clocks_of(STEADY, hot, hot)
    assert [(clock.throttle, clock.others) for clock in clocks] == [((reason,), ("another",))] * 2
    assert down
    assert clocks_of(STEADY, CAPPED, CAPPED, hot)[1]


def test_a_cap_that_ended_and_begins_again_is_the_pairs_own() -> None:
    assert clocks_of(STEADY, CAPPED, FREE, CAPPED)[1]
    assert not clocks_of(STEADY, CAPPED, FREE, FREE)[1]


@pytest.mark.parametrize("taken", [STEADY, replace(STEADY, beside={})])
def test_nvml_counts_where_it_saw_no_cap_before_or_no_clock_was_measured(taken: PairSamples) -> None:
    assert clocks_of(taken, FREE, CAPPED) == ((FREE, CAPPED), taken.has_clocks)


def test_clocks_that_are_steady_are_not_called_disturbed_once_they_are_rounded() -> None:
    for lowest in (1949.6, 1950.2, 1950.3, 1950.4, 1950.6):
        taken = pair((lowest,) * 2 + (1980.0,) * 2, (lowest,) * 2 + (1980.0,) * 2)
        clocks, _ = clocks_of(taken, CAPPED, CAPPED)
        facts = Facts(sm_clock_mhz=tuple(clock.mhz for clock in clocks), throttle=tuple(c.throttle for c in clocks))
        assert (disturbance(facts) == "") == is_steady(*taken.mhz, HIGHEST)


@pytest.mark.parametrize(
    ("old", "new", "steady"),
    [
        ((1980.0,) * 4, (1980.0,) * 4, True),
        ((1951.0,) * 4, (1951.0,) * 4, True),
        ((1949.0,) * 4, (1949.0,) * 4, False),  # below 98.5 % of the highest
        ((1980.0,) * 4, (1980.0, 1980.0, 1980.0, 1949.0), False),
        ((1980.0,) * 4, (1977.0,) * 4, False),  # the sides are 0.15 % apart
        ((1980.0,) * 4, (1978.5,) * 4, True),
    ],
)
def test_a_clock_is_steady_that_is_high_in_all_samples_and_alike_on_both_sides(
    old: tuple[float, ...], new: tuple[float, ...], steady: bool
) -> None:
    assert is_steady(old, new, HIGHEST) == steady
    assert is_steady(new, old, HIGHEST) == steady


@pytest.mark.parametrize(
    ("before", "later", "megahertz", "down"),
    [
        (FREE, FREE, (1980.0, 1980.0, 1975.0, 1980.0), False),
        (FREE, FREE, (1755.0, 1740.0, 1755.0, 1980.0), True),
        (FREE, FREE, (1980.0, 1980.0, 1755.0, 1980.0), False),
        (FREE, CAPPED, (1980.0, 1980.0, 1980.0, 1980.0), True),
        (Clock(1410, ()), FREE, (1410.0, 1410.0, 1410.0, 1410.0), False),  # a GPU whose clock is locked
        (CAPPED, FREE, (1755.0, 1755.0, 1755.0, 1755.0), False),  # an earlier case's fault
        (Clock(0, ()), FREE, (1980.0, 1980.0, 1980.0, 1980.0), False),  # NVML does not say
    ],
)
def test_a_pair_slows_the_clock_that_nvml_sees_kept_down_or_that_fell_beside_its_samples(
    before: Clock, later: Clock, megahertz: tuple[float, ...], down: bool
) -> None:
    taken = pair((1980.0, 1980.0, *megahertz[:2]), (1980.0, 1980.0, *megahertz[2:]))
    if before.mhz == 1410:
        taken = pair(megahertz, megahertz)
    assert clocks_of(taken, before, FREE, later)[1] == down
