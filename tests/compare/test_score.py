"""Tests the scoring of rules: other tools' rules do what their tools say, and recordings are replayed faithfully."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.project import EARLIER, ROOT
from tools import other_rules as rules
from tools.counts import interval, margin, share
from tools.frontier import (
    AS_IT_IS,
    PAIRS_AS_THEY_ARE,
    Variant,
    constants,
    not_same_as_recorded,
    play_variants_saved,
    play_variants_side_by_side,
)
from tools.purpose import OWN, SCORING, TUNING, purpose_of
from tools.recording import PairRecording, Recording, record
from tools.replay import (
    OURS,
    PAIRED,
    judge_saved,
    medians_of,
    play_pairs,
    play_saved,
    play_unseen,
    unseen,
)
from tools.score import Runs, table
from warpwatch.compare.processes import MAX_PROCESSES
from warpwatch.runs.files import run_files
from warpwatch.runs.record import BadRun, RunRecord, read_run, read_runs
from warpwatch.verdict import rule

H200 = EARLIER / "nvidia-h200"
RECORDINGS = EARLIER.parent / "nvidia-h200"
HELD_OUT = EARLIER.parent.parent / "scoring" / "nvidia-h200-2026-11-26"
RNG = np.random.default_rng(9)


def near(seconds: float, spread: float = 0.001, count: int = 100) -> rules.Samples:
    return np.asarray(seconds * RNG.normal(1, spread, count))


def several() -> list[RunRecord]:
    """The baseline's runs on GPUs that have more than one."""
    runs = read_runs(H200)
    gpu_uuids = [run.gpu_uuid for run in runs]
    return [run for run in runs if gpu_uuids.count(run.gpu_uuid) > 1]


# Other tools' rules


@pytest.mark.parametrize(
    ("name", "quiet", "seen"),
    [
        ("minimum_5", 1.04, 1.08),
        ("median_5", 1.04, 1.06),
        ("nvbench_legacy", 1.0001, 1.003),
        ("nvbench_robust", 1.002, 1.02),
        ("benchstat", 1.0, 1.001),
        ("criterion", 1.005, 1.02),
        ("bencher", 1.0, 1.02),
        ("triton", 1.04, 1.07),
        ("tritonbench", 1.09, 1.11),
        ("simple", 1.004, 1.008),
    ],
)
def test_each_rule_calls_what_its_tool_would(name: str, quiet: float, seen: float) -> None:
    judge: rules.Rule = getattr(rules, name)
    past = [near(1e-3 * factor) for factor in (1.001, 0.999, 1.0)]
    assert not judge(past, [near(1e-3 * quiet, count=99)] if name != "benchstat" else [past[-1] * 0.999])
    assert judge(past, [near(1e-3 * seen)] * 5)


def test_the_simple_rule_asks_every_process_of_both_sides() -> None:
    past, new = [near(1e-3)] * 5, [near(1.02e-3)] * 5
    assert rules.simple(past, new)
    assert not rules.simple([*past[:4], near(1.03e-3)], new)
    assert not rules.simple(past, [*new[:4], near(1e-3)])
    assert rules.simple(past, [*new, near(1e-3)])  # the sixth is not one of the five


def test_pairs_are_judged_by_their_differences() -> None:
    old, new = np.array([1.0, 1.0, 1.0, 2.0, 2.0]), np.array([1.0, 1.0, 2.0, 2.0, 2.0])  # one of five is slower
    assert not rules.helion_paired(old, new)
    assert not rules.helion_paired(old, 1.009 * old)
    assert rules.helion_paired(old, 1.02 * old)


# Counts


def test_a_count_has_its_interval() -> None:
    assert share(0, 30) == "0 of 30 (< 9.5 %)"
    assert share(0, 0) == "–"
    assert share(30, 30) == "30 of 30 (> 90 %)"
    assert share(22, 30) == "22 of 30 (54 to 88 %)"
    assert share(2139, 2140) == "2139 of 2140 (99.74 to 100 %)"
    assert interval(0, 299)[1] == pytest.approx(0.01, rel=0.01)  # what it takes to support one per cent


def test_hits_of_one_case_are_not_independent() -> None:
    alike = {str(case): [case % 2 == 0] * 30 for case in range(10)}
    mixed = {str(case): [True, False] * 15 for case in range(10)}
    assert margin(alike) == pytest.approx(1.96 * 0.5 / 3)
    assert margin(mixed) == 0


# What runs are for


def test_every_committed_run_is_for_tuning_or_for_scoring() -> None:
    folders = {path.parent for path in (ROOT / "bench").rglob("*.json.xz")}
    purposes = {folder: purpose_of(run_files(folder)) for folder in folders}
    assert set(purposes.values()) == {TUNING, SCORING}
    assert all(purpose in folder.parts for folder, purpose in purposes.items() if "recordings" in folder.parts)


def test_runs_for_tuning_and_for_scoring_are_not_mixed() -> None:
    tuned, held_out = run_files(H200)[0], run_files(HELD_OUT)[0]
    with pytest.raises(BadRun, match=r"0003_fresh-work.json.xz is for scoring and .*0034_h200.json.xz is for tuning: .*"
                                     r"give runs of one kind"):  # fmt: skip
        Runs.read([tuned, held_out])


def test_a_folder_that_no_purpose_is_known_of_is_refused_and_ones_own_runs_are_not(tmp_path: Path) -> None:
    assert purpose_of([tmp_path / "0001_mine.json"]) == OWN
    (tmp_path / "purpose.toml").write_text('tuning = ["old"]\nscoring = ["new"]\n')
    assert purpose_of([tmp_path / "new" / "gpu" / "0001_a.json", tmp_path / "new" / "0001_b.json"]) == SCORING
    with pytest.raises(BadRun, match=r"older/0001_a.json: .*purpose.toml names its folder neither"):
        purpose_of([tmp_path / "older" / "0001_a.json"])


# Recordings


def test_one_run_shows_no_spread() -> None:
    with pytest.raises(BadRun, match="no two of these runs are whole runs of the same GPU alone"):
        record(read_runs(H200)[:1])


def test_thinned_runs_and_those_of_several_gpus_are_not_resampled() -> None:
    thinned = [read_run(path) for path in run_files(HELD_OUT)]
    assert thinned[0].gpu_uuid == thinned[1].gpu_uuid
    with pytest.raises(BadRun, match="that are not thinned"):
        record(thinned)


@pytest.mark.slow
def test_a_recording_is_of_the_same_machine_code_and_has_each_gpu_by_itself() -> None:
    runs = several()
    recording = record(read_runs(H200))
    assert (recording.runs, recording.gpus) == (len(runs), 2)
    assert set(recording.logs) <= set(runs[0].cases)
    assert len(recording.logs) > 400
    assert all(len(deviations) == len(runs) for deviations in recording.deviations.values())
    large = [name for name, log in recording.logs.items() if log > np.log(1e-4)]
    assert np.median([np.std(recording.deviations[name]) for name in large]) < 0.002
    made = recording.process(np.random.default_rng(1))
    ratios = [np.median(made[name]) / np.exp(recording.logs[name]) for name in large]
    assert np.median(np.abs(np.log(ratios))) < 0.005


# Our rule


@pytest.mark.slow
def test_ours_calls_nothing_of_a_few_played_runs_and_sees_what_is_slower() -> None:
    kept = [read_run(path) for path in sorted(RECORDINGS.glob("*_h200.json.xz"))]  # without pairs
    recording, rng = record([*read_runs(H200), *kept]), np.random.default_rng(3)
    found = []
    for _ in range(2):
        past = [medians_of(recording.process(rng)) for _ in range(5)]
        new = [medians_of(recording.process(rng)) for _ in range(MAX_PROCESSES)]
        judged = judge_saved(past, new)
        assert judged.called == set()
        assert judged.unsure < 0.05 * len(recording.logs)
        assert 1 <= judged.worth < 1.3
        slow = {name for name, log in recording.logs.items() if log > np.log(1e-4) and rng.random() < 0.1}
        slower = [{name: time * (1.03 if name in slow else 1) for name, time in process.items()} for process in new]
        called = judge_saved(past, slower).called
        assert called <= slow
        found += [name in called for name in slow]
    assert np.mean(found) >= 0.95


def fleet(own: Sequence[float]) -> tuple[list[RunRecord], list[RunRecord]]:
    """Return a baseline of three GPUs, and runs of another: 90 cases, each off by a share of ``own`` times noise."""
    run = read_run(run_files(H200)[0])
    names = [name for name, timed in run.cases.items() if timed.facts.cache == "cold" and "vendor" not in name][:90]
    rng = np.random.default_rng(5)

    def of(gpu: str, days: int, spread: float) -> RunRecord:
        samples = {name: (1e-3 * float(np.exp(rng.normal(0, spread))),) for name in names}
        facts = {name: replace(run.cases[name].facts, again=(), throttle=(), other_processes=()) for name in names}
        cases = {name: replace(run.cases[name], samples=samples[name], facts=facts[name]) for name in names}
        assert run.when
        when = run.when + timedelta(days=days)
        return replace(run, gpu=replace(run.gpu, uuid=gpu), cases=cases, when=when)

    return [of(f"GPU-{n}", 0, 0.0005) for n in range(3)], [of("GPU-new", 1, spread) for spread in own]


def test_later_runs_on_gpus_that_a_baseline_lacks_are_compared_with_it() -> None:
    baseline, (later,) = fleet([0.0005])
    early = replace(later, when=baseline[0].when)
    known = replace(later, gpu=baseline[0].gpu)
    assert unseen(baseline, [*baseline, early, known, later]) == [later]
    assert unseen([], [later]) == []


def test_an_unseen_gpu_that_differs_widens_floors_so_that_less_is_found() -> None:
    baseline, (alike, different) = fleet([0.0005, 0.01])
    found = []
    for run in (alike, different):
        score = play_unseen(baseline, [run])
        assert score.alarms == [0]
        shares = {slow: np.mean([hit for hits in cases.values() for hit in hits])
                  for (_, slow), cases in score.found.items()}  # fmt: skip
        assert all(len(hits) == 1 for cases in score.found.values() for hits in cases.values())
        assert shares[0.10] > 0.9
        found.append(shares[0.03])
    assert found[0] > 0.9
    assert found[1] < 0.5


@pytest.mark.slow
def test_the_table_has_a_row_for_each_rule_with_its_setting() -> None:
    runs = several()
    recording = record([run for run in runs if run.gpu_uuid == runs[0].gpu_uuid])
    text = table(play_saved(recording, trials=1), TUNING, recording.seconds)
    assert text.startswith(
        "| rule | setting | tuned on | alarms a run | runs with any | unsure | minutes | found, under"
    )
    for name in (OURS, *rules.RULES):
        assert f"\n| {name} | same GPU within the hour | {'tuning' if name == OURS else '–'} | " in text
    assert "(< 95 %)" in text
    assert "\nScored on runs that are for tuning." in text


def pairs(count: int = 300) -> PairRecording:
    rng = np.random.default_rng(4)
    medians = dict(zip(map(str, range(count)), np.exp(rng.uniform(np.log(4e-6), np.log(5e-3), count)), strict=True))
    logs = {name: list(rng.normal(0, 0.0006, 6)) for name in medians}
    samples = {name: [(near(time, 0.002), near(time, 0.002))] for name, time in medians.items()}
    return PairRecording(medians, logs, samples)


def test_pairs_are_played_as_they_were_recorded() -> None:
    played = play_pairs(pairs(), 2)
    for score in played.values():
        assert score.alarms == [0, 0]
        hits = {slow: [hit for each in cases.values() for hit in each] for (_, slow), cases in score.found.items()}
        assert all(np.mean(each) > 0.9 for slow, each in hits.items() if slow >= 0.03)
    assert max(played[PAIRED].unsure) < 0.05


def test_either_side_of_a_pair_is_played_as_the_new_one() -> None:
    recording = pairs(100)
    apart = {name: [(old, 1.02 * old)] for name, ((old, _),) in recording.samples.items()}
    (alarms,) = play_pairs(replace(recording, samples=apart), 1)[rules.HELION].alarms
    assert 25 < alarms < 75


# Other constants


def test_constants_are_set_for_a_while_alone() -> None:
    before = rule.FLOOR_SIGMAS
    with constants({"FLOOR_SIGMAS": 2.0}):
        assert rule.FLOOR_SIGMAS == 2
    assert before == rule.FLOOR_SIGMAS
    with pytest.raises(AttributeError), constants({"FLOOR_SIGMA": 2.0}):
        pass


def test_each_variant_of_the_rule_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [
        replace(PAIRS_AS_THEY_ARE, **changed)
        for changed in ({}, {"name": "low", "constants": {"FLOOR_SIGMAS": 2.0}}, {"name": "five", "first": 5})
    ]
    monkeypatch.setattr("tools.frontier.SIDE_BY_SIDE", few)
    noisy = pairs(100)
    noisy = replace(noisy, logs={name: [5 * log for log in logs] for name, logs in noisy.logs.items()})
    scores = play_variants_side_by_side(noisy, 2, 1)
    found = {name: sum(hit for hits in each.found.values() for case in hits.values() for hit in case)
             for name, each in scores.items()}  # fmt: skip
    assert found["low"] > found["as it is"]
    assert np.mean(scores["five"].processes) > np.mean(scores["as it is"].processes)


def test_recorded_pairs_are_judged_as_they_are_by_variants_that_measure_the_same() -> None:
    few = [read_run(RECORDINGS / "0015_self-check.json.xz")]
    assert not_same_as_recorded(few, PAIRS_AS_THEY_ARE) == "0 of 327"
    assert not_same_as_recorded(few, replace(PAIRS_AS_THEY_ARE, constants={"FLOOR_SIGMAS": 2.0})) == "5 of 327"
    assert not_same_as_recorded(few, replace(PAIRS_AS_THEY_ARE, most=5)) == "–"


def test_fewer_samples_and_runs_are_those_that_were_played(monkeypatch: pytest.MonkeyPatch) -> None:
    few = (AS_IT_IS, Variant("one sample", samples=1), Variant("two runs", runs=2), Variant("five", first=5))
    monkeypatch.setattr("tools.frontier.SAVED", few)
    names = [str(case) for case in range(60)]
    shapes = {name: [near(1.0, 0.01) for _ in range(4)] for name in names}
    deviations = {name: list(RNG.normal(0, 0.0005, 4)) for name in names}
    logs = dict.fromkeys(names, float(np.log(1e-3)))
    recording = Recording(logs=logs, deviations=deviations, shapes=shapes, offsets=[0.0] * 4, seconds=60.0, gpus=1)
    scores = play_variants_saved(recording, 2, 1)
    found = {name: np.mean([hit for hits in each.found.values() for case in hits.values() for hit in case])
             for name, each in scores.items()}  # fmt: skip
    assert found["one sample"] < found["two runs"] <= found["as it is"]
    assert np.mean(scores["as it is"].processes) < 2
    assert np.mean(scores["five"].processes) >= 5
