"""Tests the rule in simulated worlds whose truth is known: its false alarms, and the slowdowns that it finds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from warpwatch.verdict.process_effects import ProcessEffect, aligned, process_effect
from warpwatch.verdict.rule import (
    MEASURED,
    MIN_PROCESSES,
    RELEVANT,
    TICK,
    Decision,
    Effect,
    Floats,
    Prior,
    Verdict,
    benjamini_hochberg,
    combine,
    conformal_floor_factor,
    decide,
    holm,
    in_time_and_cycles,
    learn,
    paired,
    unpaired,
)

CASES = 400
QUIET = Prior(0.0005, 0.0, 8.0)


def verdict(effect: Effect, prior: Prior = QUIET) -> Decision:
    return decide({"a": effect}, prior)["a"]


# One case


def test_equal_times_are_the_same_with_the_least_noise_floor() -> None:
    decision = verdict(unpaired([1e-3, 1e-3, 1e-3], [1e-3]))
    assert decision.verdict == Verdict.SAME
    assert (decision.ratio, decision.floor) == pytest.approx((1, RELEVANT))
    assert decision.low < 1 < decision.high


def test_slower_takes_five_processes() -> None:
    history = [100e-6, 100.1e-6, 99.9e-6, 100e-6]
    fourth = verdict(unpaired(history, [103e-6] * 4))
    assert (fourth.verdict, fourth.reason) == (Verdict.UNSURE, "4 of 5 processes")
    fifth = verdict(unpaired(history, [103e-6] * 5))
    assert fifth.verdict == Verdict.SLOWER
    assert fifth.ratio == pytest.approx(1.03, abs=1e-4)
    assert 1 + fifth.floor < fifth.low < fifth.ratio < fifth.high


@pytest.mark.parametrize("after", [99.5e-6, 100.5e-6])
def test_an_interval_that_crosses_one_side_of_its_floor_is_unsure(after: float) -> None:
    decision = verdict(unpaired([100e-6] * 4, [after] * 2))
    assert (decision.low > 1 - decision.floor) == (after > 100e-6)
    assert (decision.high < 1 + decision.floor) == (after < 100e-6)
    assert (decision.verdict, decision.reason) == (Verdict.UNSURE, "its 95 % interval crosses its noise floor")


def test_a_second_process_that_is_not_slower_clears_the_first() -> None:
    decision = verdict(unpaired([100e-6] * 4, [103e-6, 100e-6]))
    assert decision.verdict == Verdict.UNSURE
    assert decision.reason == "its 95 % interval crosses its noise floor"


def test_three_processes_are_enough_side_by_side_beyond_three_floors() -> None:
    clear, near = ([math.log(1 + share)] * 3 for share in (0.03, 0.012))
    assert verdict(paired(1e-3, 1.03e-3, clear)).verdict == Verdict.SLOWER
    assert verdict(paired(1.03e-3, 1e-3, [-log for log in clear])).verdict == Verdict.FASTER
    assert verdict(paired(1e-3, 1.03e-3, clear[:2])).reason == "2 of 3 processes"
    decision = verdict(paired(1e-3, 1.012e-3, near))
    assert (decision.verdict, decision.reason) == (Verdict.UNSURE, "3 of 5 processes")
    apart = verdict(unpaired([1e-3] * 5, [1.1e-3] * 3))
    assert (apart.verdict, apart.reason) == (Verdict.UNSURE, "3 of 5 processes")


def test_faster_is_the_mirror_of_slower() -> None:
    assert verdict(paired(1e-3, 1.03e-3, [math.log(1.03)] * MIN_PROCESSES)).verdict == Verdict.SLOWER
    assert verdict(paired(1.03e-3, 1e-3, [-math.log(1.03)] * MIN_PROCESSES)).verdict == Verdict.FASTER


def test_a_suspect_among_many_cases_is_listed_and_fails_nothing() -> None:
    effects = {str(i): paired(1e-3, 1e-3, [0.0] * MIN_PROCESSES) for i in range(CASES)}
    effects["a"] = paired(1e-3, 1.006e-3, [0.0060, 0.0061, 0.0062, 0.0063, 0.0064])
    alone = decide({"a": effects["a"]}, QUIET, looks=5)["a"]
    among = decide(effects, QUIET, looks=5)["a"]
    assert alone.verdict == Verdict.SLOWER
    assert (among.verdict, among.suspect) == (Verdict.UNSURE, True)
    assert among.reason == "beyond its noise floor, but not significant among so many cases"


def test_doubt_makes_slower_unsure_and_leaves_faster_alone() -> None:
    slower, faster = ([sign * math.log(1.1)] * MIN_PROCESSES for sign in (1, -1))
    doubted = verdict(replace(paired(1e-3, 1.1e-3, slower), doubt="clock throttled"))
    assert (doubted.verdict, doubted.reason) == (Verdict.UNSURE, "clock throttled")
    assert verdict(replace(paired(1.1e-3, 1e-3, faster), doubt="clock throttled")).verdict == Verdict.FASTER
    unchanged = verdict(replace(paired(1.1e-3, 1e-3, faster), no_gain="the same machine code"))
    assert (unchanged.verdict, unchanged.reason) == (Verdict.UNSURE, "the same machine code")


def test_a_slowdown_in_time_but_not_in_cycles_is_attributed_to_the_clock() -> None:
    effect = replace(paired(1e-3, 1.03e-3, [math.log(1.03)] * MIN_PROCESSES), clock=1 / 1.03)
    decision = verdict(effect)
    assert (decision.verdict, decision.reason) == (
        Verdict.UNSURE,
        "in cycles +0.0 %: the SM clock was 2.9 % lower",
    )
    assert verdict(replace(effect, clock=0.999)).verdict == Verdict.SLOWER


def test_a_case_that_scatters_has_a_wider_floor_and_is_not_called() -> None:
    noisy = verdict(unpaired([1.00e-3, 1.01e-3, 0.99e-3, 1.008e-3, 0.992e-3], [1.013e-3, 1.016e-3] * 2))
    assert noisy.floor > 5 * RELEVANT
    assert noisy.verdict == Verdict.SAME


def test_a_case_whose_noise_floor_is_above_the_limit_is_unsure() -> None:
    wild = verdict(unpaired([1.0e-3, 1.3e-3, 0.8e-3, 1.2e-3, 0.9e-3], [1.0e-3] * 4))
    assert wild.verdict == Verdict.UNSURE
    assert wild.reason.startswith("varies too much between processes: no change below")


def test_events_resolve_no_less_than_a_tick() -> None:
    assert verdict(unpaired([3e-6] * 5, [3e-6] * 2)).floor >= TICK / 3e-6


def test_a_floor_that_is_asked_for_is_kept() -> None:
    decision = verdict(replace(unpaired([1e-3] * 3, [1.2e-3] * 2), floor=0.25))
    assert decision.floor == pytest.approx(0.25)
    assert decision.verdict == Verdict.SAME


def test_cases_that_cannot_be_called_do_not_count_in_the_familywise_error() -> None:
    scattered, other = paired(1e-3, 1.006e-3, [0.0052, 0.0072] * 4), paired(1e-3, 1e-3, [-0.0002, 0.0002] * 4)
    many = {f"b{i}": other for i in range(500)}
    assert decide({"a": scattered} | many, QUIET)["a"].verdict == Verdict.UNSURE
    same_code = {name: replace(effect, doubt="same code", no_gain="same code") for name, effect in many.items()}
    assert decide({"a": scattered} | same_code, QUIET)["a"].verdict == Verdict.SLOWER
    assert {decision.verdict for decision in decide(same_code, QUIET).values()} == {Verdict.SAME}


def test_floors_are_widened_to_the_largest_change_of_an_unchanged_case() -> None:
    off = {
        name: unpaired([1e-3] * 4, [1e-3 * (1 + share)]) for name, share in {"a": 0.001, "b": -0.02, "c": 0.01}.items()
    }
    assert conformal_floor_factor([off["a"]], QUIET) == 1
    assert conformal_floor_factor(off.values(), QUIET) == pytest.approx(-math.log(0.98) / math.log1p(RELEVANT))
    slower = replace(unpaired([1e-3] * 4, [1.02e-3] * MIN_PROCESSES), processes=MIN_PROCESSES)
    assert decide({"a": slower}, QUIET)["a"].verdict == Verdict.SLOWER
    floor_factor = decide({"a": slower}, QUIET, floor_factor=5)["a"]
    assert floor_factor.verdict == Verdict.SAME
    assert floor_factor.floor == pytest.approx(1.005**5 - 1)


# The parts


def test_holm_is_what_its_definition_says() -> None:
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.5, 0.9])) == pytest.approx([1, 1])


@pytest.mark.parametrize("count", [1, 2, 40])
def test_the_false_discovery_rate_is_adjusted_as_scipy_does(count: int) -> None:
    from scipy import stats  # noqa: PLC0415  # half a second that listing tests need not wait

    values = np.random.default_rng(count).random(count) ** 4
    values[-1] = values[0]  # a tie
    assert benjamini_hochberg(values) == pytest.approx(stats.false_discovery_control(values), rel=1e-12)


@pytest.mark.parametrize("truth", [Prior(0.0004, 1.5e-10, 5), Prior(0.004, 0, 5)])
def test_the_prior_is_learned_from_the_cases_themselves(truth: Prior) -> None:
    from scipy import stats  # noqa: PLC0415  # half a second that listing tests need not wait

    rng = np.random.default_rng(5)
    medians = np.exp(rng.uniform(np.log(4e-6), np.log(5e-3), 500))
    expected = truth.variance(medians) * stats.invgamma(truth.df / 2, scale=truth.df / 2).rvs(500, rng)
    logs = rng.normal(0, np.sqrt(expected)[:, None], (500, 5))
    prior = learn(
        [unpaired(list(t * np.exp(row[:4])), [t * np.exp(row[4])]) for t, row in zip(medians, logs, strict=True)]
    )
    assert prior.variance(30e-6) == pytest.approx(truth.variance(30e-6), rel=0.4)
    assert prior.variance(1e-3) == pytest.approx(truth.variance(1e-3), rel=0.4)
    assert prior.df == pytest.approx(truth.df, abs=1)


def test_few_cases_teach_nothing() -> None:
    assert learn([unpaired([1e-3, 2e-3], [1e-3])] * 5) is MEASURED


def test_a_process_effect_is_found_beside_cases_that_changed() -> None:
    rng = np.random.default_rng(6)
    old = {str(i): float(t) for i, t in enumerate(np.exp(rng.uniform(np.log(4e-6), np.log(5e-3), 300)))}
    new = {name: 1.02 * t + 0.5e-6 for name, t in old.items()}
    for name in list(new)[:100]:
        new[name] *= 1.3
    found = process_effect(old, new)
    assert found.factor == pytest.approx(1.02, abs=1e-3)
    assert found.offset == pytest.approx(0.5e-6, abs=0.05e-6)
    assert found.remove(new["200"]) == pytest.approx(old["200"], rel=0.01)
    assert found.alarm() == (
        "everything takes 2.0 % longer and starts 0.50 µs later, by 300 cases of unchanged machine code: "
        "driver, clock or cooling, not a kernel"
    )


def test_a_process_effect_within_the_baselines_range_is_no_alarm() -> None:
    found = ProcessEffect(1.004, -1.05e-6, 100)
    assert found.alarm().startswith("everything starts 1.05 µs sooner, by 100 cases")
    baseline = [ProcessEffect(0.999, 0.5e-6, 100), ProcessEffect(1.003, -1.1e-6, 100)]
    assert found.alarm(baseline) == ""
    assert replace(found, offset=-1.55e-6).alarm(baseline).startswith("everything starts 1.55 µs sooner")
    assert replace(found, factor=1.009).alarm(baseline).startswith("everything takes 0.9 % longer, by")
    assert (
        replace(found, factor=0.993, offset=0.95e-6)
        .alarm(baseline)
        .startswith("everything takes 0.7 % less time and starts 0.95 µs later")
    )


def test_few_cases_show_no_process_effect() -> None:
    few = {str(i): 1e-3 for i in range(10)}
    assert process_effect(few, {name: 1.1 * t for name, t in few.items()}) == ProcessEffect()


def test_processes_are_aligned_with_each_other() -> None:
    rng = np.random.default_rng(8)
    times = np.exp(rng.uniform(np.log(4e-6), np.log(5e-3), 100))
    runs = [{str(i): float(t + offset) for i, t in enumerate(times)} for offset in (0, 80e-9, -80e-9)]
    smallest = str(int(np.argmin(times)))
    assert len({round(run[smallest] * 1e9) for run in aligned(runs)}) == 1


# A case whose clock was kept down: time and cycles must agree

WHY = "clock throttled: software power cap"


def decided(verdict: Verdict, ratio: float = 1.0, reason: str = "") -> Decision:
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
    found = in_time_and_cycles(decided(time, 1.03), decided(cycles, 0.98), WHY)
    assert found.verdict == both
    assert found.ratio == 1.03  # the line shows the time
    assert (found.reason == "") is (both == Verdict.SAME)
    if both == Verdict.UNSURE:
        assert f"in cycles -2.0 %; {WHY}" in found.reason


def test_the_reason_of_either_stays() -> None:
    found = in_time_and_cycles(
        decided(Verdict.SLOWER), decided(Verdict.UNSURE, reason="its 95 % interval crosses"), WHY
    )
    assert found.reason == f"its 95 % interval crosses; in cycles +0.0 %; {WHY}"


def test_a_case_without_cycles_stays_as_it_is() -> None:
    time = decided(Verdict.SLOWER)
    assert in_time_and_cycles(time, Decision(verdict=Verdict.NEW), WHY) == time
    assert combine({"a": time, "b": time}, {"a": decided(Verdict.SAME), "b": time}, {"a": WHY})["b"] == time


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


# Whole runs, in worlds: how a process scatters a case's median


World = Callable[[np.random.Generator, Floats], Floats]


def quiet(rng: np.random.Generator, medians: Floats) -> Floats:
    """Scatter as measured on the H200."""
    return np.asarray(medians * np.exp(rng.normal(0, np.sqrt(MEASURED.variance(medians)))))


def noisy(rng: np.random.Generator, medians: Floats) -> Floats:
    """Scatter three times as much as on the H200."""
    return np.asarray(medians * np.exp(rng.normal(0, 3 * np.sqrt(MEASURED.variance(medians)))))


def bimodal(rng: np.random.Generator, medians: Floats) -> Floats:
    """Slow a case by 1.5 % in one process of twenty."""
    return np.asarray(quiet(rng, medians) * np.where(rng.random(medians.size) < 0.05, 1.015, 1))


def outliers(rng: np.random.Generator, medians: Floats) -> Floats:
    """Slow a case much in one process of a hundred, and never speed it up."""
    late = np.where(rng.random(medians.size) < 0.01, rng.exponential(0.1, medians.size), 0)
    return np.asarray(quiet(rng, medians) * (1 + late))


def drifting(rng: np.random.Generator, medians: Floats) -> Floats:
    """Give each process its own clock factor and start offset."""
    return np.asarray(quiet(rng, medians) * rng.normal(1, 0.01) + rng.normal(0, 80e-9))


def uneven(rng: np.random.Generator, medians: Floats) -> Floats:
    """Scatter ten times as much in one case of fifty, always the same ones."""
    scale = np.where(np.arange(medians.size) % 50 == 0, 10, 1)
    return np.asarray(medians * np.exp(rng.normal(0, scale * np.sqrt(MEASURED.variance(medians)))))


MEDIANS = np.exp(np.random.default_rng(1).uniform(np.log(4e-6), np.log(5e-3), CASES))
NAMES = [str(i) for i in range(CASES)]


def whole_run(rng: np.random.Generator, world: World, slower: Floats, side_by_side: bool) -> dict[str, Decision]:
    """Simulate `pytest bench`: one look, then fresh processes for what is undecided."""
    past = [dict(zip(NAMES, world(rng, MEDIANS), strict=True)) for _ in range(5)]
    past = aligned(past)
    reference = {name: float(np.exp(np.mean([np.log(run[name]) for run in past]))) for name in NAMES}
    processes: list[dict[str, float]] = []
    first = 3 if side_by_side else 1

    def more() -> None:
        times = dict(zip(NAMES, world(rng, MEDIANS) * slower, strict=True))
        controls = {name: t for name, t, s in zip(NAMES, times.values(), slower, strict=True) if s == 1}
        own = process_effect(reference, controls)
        processes.append({name: own.remove(t) for name, t in times.items()})

    def effect(name: str) -> Effect:
        new = [process[name] for process in processes]
        if side_by_side:
            return paired(
                reference[name], reference[name], [math.log(t / o[name]) for t, o in zip(new, old, strict=True)]
            )
        return unpaired([run[name] for run in past], new)

    old: list[dict[str, float]] = []
    prior: Prior | None = None
    decisions: dict[str, Decision] = {}
    for look in range(6):
        for _ in range(first if look == 0 else 1):
            more()
            old.append(aligned([reference, dict(zip(NAMES, world(rng, MEDIANS), strict=True))])[1])
        effects = {name: effect(name) for name in NAMES}
        prior = prior or learn(list(effects.values()))
        decisions |= {
            name: decision
            for name, decision in decide(effects, prior, looks=6).items()
            if look == 0 or decisions[name].verdict == Verdict.UNSURE
        }
    return decisions


@pytest.mark.slow
@pytest.mark.parametrize("side_by_side", [False, True], ids=["unpaired", "paired"])
@pytest.mark.parametrize("world", [quiet, noisy, bimodal, outliers, drifting, uneven])
def test_whole_runs_on_unchanged_code_call_nothing_slower(world: World, side_by_side: bool) -> None:
    rng, counts = np.random.default_rng(11), Counter[Verdict]()
    for _ in range(10):
        counts.update(decision.verdict for decision in whole_run(rng, world, np.ones(CASES), side_by_side).values())
    assert counts[Verdict.SLOWER] == counts[Verdict.FASTER] == 0
    assert counts[Verdict.UNSURE] < (0.02 if side_by_side else 0.05) * 10 * CASES


@pytest.mark.once
@pytest.mark.parametrize(
    ("world", "large", "middle", "small"), [(quiet, 1.03, 1.05, 1.10), (drifting, 1.03, 1.05, 1.10)]
)
def test_a_slowdown_of_a_few_kernels_is_seen(world: World, large: float, middle: float, small: float) -> None:
    """The stored baseline finds these slowdowns 95 % of the time, by size of the kernel."""
    rng = np.random.default_rng(12)
    factor = np.select([MEDIANS < 10e-6, MEDIANS < 100e-6], [small, middle], large)
    slow = np.arange(CASES) % 10 == 3
    seen: dict[float, list[bool]] = {}
    for _ in range(5):
        decisions = whole_run(rng, world, np.where(slow, factor, 1), False)
        for i in np.flatnonzero(slow):
            seen.setdefault(float(factor[i]), []).append(decisions[NAMES[i]].verdict == Verdict.SLOWER)
        assert not any(decision.verdict == Verdict.SLOWER for n, decision in decisions.items() if not slow[int(n)])
    assert len(seen) == 3
    for factor_, hits in seen.items():
        assert np.mean(hits) >= 0.95, factor_


@pytest.mark.slow
def test_suspects_are_as_rarely_wrong_as_promised() -> None:
    """In a run without a slowdown, Benjamini-Hochberg lists anything at all in one of twenty."""
    rng, alarms = np.random.default_rng(13), 0
    for _ in range(400):
        logs = rng.normal(math.log1p(RELEVANT), 0.0005, (100, 2))  # all of them just at the floor
        p = np.array(
            [
                d.suspect
                for d in decide({str(i): paired(1e-3, 1e-3, list(row)) for i, row in enumerate(logs)}, QUIET).values()
            ]
        )
        alarms += bool(p.any())
    assert alarms / 400 < 0.08
