"""Tests how long a pair is measured: until its turns agree, or until its time is over."""

from __future__ import annotations

import math
import random
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from warpwatch.compare.pairs import Pair, _may_change
from warpwatch.timing import worker_pairs as pairs
from warpwatch.timing import worker_samples as sampling
from warpwatch.timing.clocks import Clock
from warpwatch.timing.pair_samples import PairSamples, log_ratio
from warpwatch.timing.worker_pairs import MOST_TURNS, PRECISE, TURNS_TO_TELL, Plan
from warpwatch.verdict.rule import MEASURED, Decision, Verdict, decide


@pytest.fixture
def turns_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Turns taken of a pair whose samples scatter by this share; the new side is 3 % slower.

    ``first``: what every fourth sample takes longer, as after a pause; ``places``: copies of the arrays.
    """

    def measure(scatter: float, seconds: float = 60.0, first: float = 0.0, places: int = 1) -> PairSamples:
        noise, number = random.Random(4), count()

        def sample(side: float, timer: None) -> tuple[float, int]:
            return side * noise.gauss(1, scatter) * (1 + first * (next(number) % 4 == 0)), 0

        monkeypatch.setattr(sampling, "timer_of", lambda kind: None)
        monkeypatch.setattr(sampling, "sample_of", sample)
        plan = Plan(kind="cold", swap=False, check=False, seconds=seconds, warm_up=0.0)
        return pairs._take([(100e-6, 103e-6)] * places, plan)  # type: ignore[list-item]

    return measure


@pytest.mark.parametrize(
    ("scatter", "fewest", "most", "error"),
    [(0.0002, TURNS_TO_TELL, TURNS_TO_TELL, PRECISE), (0.005, 20, 150, PRECISE), (0.03, MOST_TURNS, MOST_TURNS, 2e-3)],
)
def test_turns_are_taken_until_they_agree(turns_of: Any, scatter: float, fewest: int, most: int, error: float) -> None:
    taken = turns_of(scatter)
    assert fewest <= len(taken.old) / 2 <= most
    assert len(taken.old) == len(taken.new)
    assert log_ratio(taken.old, taken.new) == pytest.approx(math.log(1.03), abs=4 * error)


def test_a_pair_that_is_out_of_time_stops_all_the_same(turns_of: Any) -> None:
    assert len(turns_of(0.03, seconds=0.0).old) == 2 * pairs.FEWEST_TURNS


def test_a_noisy_pair_may_take_twice_the_time(turns_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def turns(scatter: float) -> int:
        clock = count()
        monkeypatch.setattr("time.perf_counter", lambda: next(clock) / 100)  # it is read once in two turns
        return len(turns_of(scatter, seconds=0.15).old) // 2

    assert turns(0.005) * 2 == pytest.approx(turns(0.03), abs=4)


def test_a_process_whose_clock_was_throttled_does_not_count() -> None:
    steady, slow = Clock(1980, ()), Clock(1600, ("software power cap",))

    def taken(ratio: float, clock: Clock) -> PairSamples:
        return PairSamples(old=(1e-3, 1e-3) * 4, new=(ratio * 1e-3, ratio * 1e-3) * 4, clocks=(steady, clock))

    own: Any = None
    first = [taken(1.03, steady), taken(1.20, slow), taken(1.03, steady)]
    pair = Pair(measured=own, other=own, other_image=Path(), image=Path(), taken=first)
    effect = pair.effect("")
    assert (effect.processes, effect.doubt) == (2, "")
    assert effect.left_out == "clock throttled: software power cap"
    decision = decide({"case": effect}, MEASURED)["case"]
    assert decision.verdict == Verdict.UNSURE
    assert decision.reason == "2 of 3 processes, because others do not count: clock throttled: software power cap"
    assert effect.log == pytest.approx(math.log(1.03))
    pair.taken = [taken(1.03, slow), taken(1.03, steady), taken(1.03, slow)]
    assert pair.effect("").doubt == "clock throttled: software power cap"


def capped(ratio: float, old_mhz: float, new_mhz: float, *, read: bool = True) -> PairSamples:
    """Samples of a process under the power cap, with the clocks beside them if they were read."""
    clocks = (Clock(1980, ()), Clock(1600, ("software power cap",)))
    beside: dict[str, Any] = {"old_mhz": (old_mhz,) * 8, "new_mhz": (new_mhz,) * 8} if read else {}
    return PairSamples(old=(1e-3,) * 8, new=(ratio * 1e-3,) * 8, clocks=clocks, **beside)


def test_a_process_under_a_cap_counts_where_the_clock_was_read_beside_all_samples() -> None:
    own: Any = None
    pair = Pair(measured=own, other=own, other_image=Path(), image=Path(), taken=[capped(1.03, 1700, 1650)] * 5)
    assert pair.effect("").doubt == ""
    cycles = pair.effect_in_cycles("")
    assert cycles
    assert cycles.log == pytest.approx(math.log(1.03 * 1650 / 1700))
    assert pair.why_in_cycles() == "clock throttled: software power cap"
    pair.taken = [capped(1.03, 1700, 1700, read=False)] * 5
    assert pair.effect("").doubt == "clock throttled: software power cap"
    assert pair.effect_in_cycles("") is None


def test_a_process_under_a_cap_does_not_count_beside_others_without_clocks() -> None:
    own: Any = None
    steady = Clock(1980, ())
    quiet = PairSamples(old=(1e-3,) * 8, new=(1e-3,) * 8, clocks=(steady, steady))
    taken = [quiet, capped(1.2, 1700, 1700), quiet, quiet]
    pair = Pair(measured=own, other=own, other_image=Path(), image=Path(), taken=taken)
    effect = pair.effect("")
    assert (effect.processes, effect.log) == (3, 0.0)
    assert (effect.doubt, effect.left_out) == ("", "clock throttled: software power cap")
    assert pair.effect_in_cycles("") is None


@pytest.mark.parametrize(
    ("verdict", "change", "half", "may"),
    [
        (Verdict.UNSURE, 0.005, 0.0009, False),  # the floor itself, well known
        (Verdict.UNSURE, 0.010, 0.0005, True),  # beyond it, and called slower with one process more
        (Verdict.UNSURE, -0.010, 0.0005, True),
        (Verdict.UNSURE, -0.0045, 0.0009, False),
        (Verdict.UNSURE, 0.005, 0.002, True),
        (Verdict.UNSURE, 0.02, 0.016, True),
        (Verdict.SAME, 0.0, 0.002, False),
        (Verdict.SLOWER, 0.02, 0.002, False),
    ],
)
def test_more_processes_measure_what_they_may_decide(verdict: Verdict, change: float, half: float, may: bool) -> None:
    low, high = math.exp(change - half), math.exp(change + half)
    decision = Decision(verdict=verdict, ratio=math.exp(change), low=low, high=high, floor=0.005, processes=3)
    assert _may_change(decision) is may


@pytest.mark.parametrize("places", [1, 3, 4])
def test_a_pause_before_each_turn_changes_no_side(turns_of: Any, places: int) -> None:
    taken = turns_of(0.001, first=0.02, places=places)
    assert log_ratio(taken.old, taken.new) == pytest.approx(math.log(1.03), abs=2 * PRECISE)
