"""Tests of a pair's samples: their ratio, and what the clocks beside them say about the SM clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warpwatch.compare.doubts import disturbance
from warpwatch.runs.record import Facts
from warpwatch.timing.nvml import POWER_CAP, Clock
from warpwatch.timing.pair_samples import PairSamples, is_steady, log_ratio

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
    recorded = replace(taken, clocks=(before, after)).with_clocks(later or after, HIGHEST)
    return recorded.clocks, recorded.keeps_clock_down


def test_an_earlier_pairs_cap_is_none_where_the_clock_was_high_and_steady() -> None:
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
def test_a_clock_that_is_high_in_the_end_was_not_kept_down_by_the_pair(taken: PairSamples) -> None:
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


def test_nvml_counts_where_it_saw_no_cap_before() -> None:
    assert clocks_of(STEADY, FREE, CAPPED) == ((FREE, CAPPED), True)


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
def test_a_pair_keeps_the_clock_down_by_nvmls_word_or_where_it_fell(
    before: Clock, later: Clock, megahertz: tuple[float, ...], down: bool
) -> None:
    taken = pair((1980.0, 1980.0, *megahertz[:2]), (1980.0, 1980.0, *megahertz[2:]))
    if before.mhz == 1410:
        taken = pair(megahertz, megahertz)
    assert clocks_of(taken, before, FREE, later)[1] == down


def test_a_ratio_of_turns_shrugs_off_drift_and_outliers() -> None:
    drift = [1.0 + 0.01 * i for i in range(80)]  # old new new old, new old old new
    order = [0, 1, 1, 0, 1, 0, 0, 1] * 10
    old = [t for t, new in zip(drift, order, strict=True) if not new]
    new = [1.02 * t for t, new in zip(drift, order, strict=True) if new]
    assert log_ratio(old, new) == pytest.approx(0.0198, abs=2e-4)
    spoiled = [5 * t if i in (3, 10, 21) else t for i, t in enumerate(new)]
    assert log_ratio(old, spoiled) == pytest.approx(0.0198, abs=2e-3)
