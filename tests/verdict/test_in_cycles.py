"""Tests what is concluded of a case whose clock was kept down: by time and by cycles, which must agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from warpwatch.verdict.rule import MEASURED, Decision, Verdict, combine, decide, in_time_and_cycles, paired

WHY = "clock throttled: software power cap"


def decision(verdict: Verdict, ratio: float = 1.0, reason: str = "") -> Decision:
    return Decision(verdict=verdict, ratio=ratio, low=ratio, high=ratio, floor=0.005, processes=5, reason=reason)


@pytest.mark.parametrize(
    ("time", "cycles", "both"),
    [
        (Verdict.SLOWER, Verdict.SLOWER, Verdict.SLOWER),
        (Verdict.FASTER, Verdict.FASTER, Verdict.FASTER),
        (Verdict.SAME, Verdict.SAME, Verdict.SAME),
        (Verdict.SLOWER, Verdict.SAME, Verdict.UNSURE),
        (Verdict.SLOWER, Verdict.FASTER, Verdict.UNSURE),
        (Verdict.SAME, Verdict.SLOWER, Verdict.UNSURE),
        (Verdict.UNSURE, Verdict.SLOWER, Verdict.UNSURE),
        (Verdict.SLOWER, Verdict.UNSURE, Verdict.UNSURE),
    ],
)
def test_both_must_agree(time: Verdict, cycles: Verdict, both: Verdict) -> None:
    found = in_time_and_cycles(decision(time, 1.03), decision(cycles, 0.98), WHY)
    assert found.verdict == both
    assert found.ratio == 1.03  # the line shows the time
    assert (found.reason == "") is (both == Verdict.SAME)
    if both == Verdict.UNSURE:
        assert f"in cycles -2.0 %; {WHY}" in found.reason


def test_the_reason_of_either_stays() -> None:
    found = in_time_and_cycles(
        decision(Verdict.SLOWER), decision(Verdict.UNSURE, reason="its 95 % interval crosses"), WHY
    )
    assert found.reason == f"its 95 % interval crosses; in cycles +0.0 %; {WHY}"


def test_a_case_without_cycles_stays_as_it_is() -> None:
    time = decision(Verdict.SLOWER)
    assert in_time_and_cycles(time, Decision(verdict=Verdict.NEW), WHY) == time
    assert combine({"a": time, "b": time}, {"a": decision(Verdict.SAME), "b": time}, {"a": WHY})["b"] == time


@pytest.mark.parametrize(("slower", "clock"), [(0.0, 0.0), (0.0, -0.03), (0.03, 0.0), (0.03, 0.02)])
def test_capped_runs_neither_cry_wolf_nor_go_blind(slower: float, clock: float) -> None:
    """A kernel that takes ``slower`` more cycles, while the new side's clock is higher by ``clock``."""
    rng, called = np.random.default_rng(7), 0
    for _ in range(200):
        noise = rng.normal(0, 0.0008, 8)
        cycles = [slower + each for each in rng.normal(0, 0.0003, 8)]
        times = [each - clock + own for each, own in zip(cycles, noise, strict=True)]
        by_time, by_cycles = (
            decide({"case": paired(2e-3, 2e-3 * math.exp(slower), logs)}, MEASURED) for logs in (times, cycles)
        )
        called += combine(by_time, by_cycles, {"case": WHY})["case"].verdict == Verdict.SLOWER
    if not slower:
        assert called == 0
    else:
        assert called > 195
