"""Tests the scoring of rules: other tools' rules do what their tools say, and recordings are replayed faithfully."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.project import BASELINES
from tools import other_rules as rules
from tools.recording import PairRecording, record
from tools.score import OURS, called_by_baseline_rule, play_other_gpus, play_pairs, score, table
from warpwatch.compare.with_baseline import MAX_PROCESSES
from warpwatch.runs.record import BadRun, RunRecord, read_run, read_runs

H200 = BASELINES / "nvidia-h200"
RECORDINGS = BASELINES.parent / "recordings" / "tuning" / "nvidia-h200"
RNG = np.random.default_rng(9)


def near(seconds: float, spread: float = 0.001, count: int = 100) -> rules.Samples:
    return np.asarray(seconds * RNG.normal(1, spread, count))


def several() -> list[RunRecord]:
    """The baseline's runs on GPUs that have more than one."""
    runs = read_runs(H200)
    gpu_uuids = [run.gpu_uuid for run in runs]
    return [run for run in runs if gpu_uuids.count(run.gpu_uuid) > 1]


def test_one_run_shows_no_spread() -> None:
    with pytest.raises(BadRun, match="no two of these runs are of the same GPU"):
        record(read_runs(H200)[:1])


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
    ],
)
def test_each_rule_calls_what_its_tool_would(name: str, quiet: float, seen: float) -> None:
    rule: rules.Rule = getattr(rules, name)
    past = [near(1e-3 * factor) for factor in (1.001, 0.999, 1.0)]
    assert not rule(past, near(1e-3 * quiet, count=99) if name != "benchstat" else past[-1] * 0.999)
    assert rule(past, near(1e-3 * seen))


@pytest.mark.slow
def test_a_recording_is_of_the_same_machine_code_and_has_each_gpu_by_itself() -> None:
    runs = several()
    recording = record(read_runs(H200))
    assert set(recording.logs) <= set(runs[0].cases)
    assert len(recording.logs) > 400
    assert all(len(deviations) == len(runs) for deviations in recording.deviations.values())
    large = [name for name, log in recording.logs.items() if log > np.log(1e-4)]
    assert np.median([np.std(recording.deviations[name]) for name in large]) < 0.002
    made = recording.process(np.random.default_rng(1))
    ratios = [np.median(made[name]) / np.exp(recording.logs[name]) for name in large]
    assert np.median(np.abs(np.log(ratios))) < 0.005


@pytest.mark.slow
def test_ours_calls_nothing_of_a_few_played_runs_and_sees_what_is_slower() -> None:
    kept = [read_run(path) for path in sorted(RECORDINGS.glob("*_h200.json.xz"))]  # without pairs
    recording, rng = record([*read_runs(H200), *kept]), np.random.default_rng(3)
    found = []
    for _ in range(2):
        past = [recording.process(rng) for _ in range(5)]
        new = [recording.process(rng) for _ in range(MAX_PROCESSES)]
        called, unsure, worth = called_by_baseline_rule(past, new)
        assert called == set()
        assert unsure < 0.05 * len(recording.logs)
        assert 1 <= worth < 1.3
        slow = {name for name, log in recording.logs.items() if log > np.log(1e-4) and rng.random() < 0.1}
        slower = [{name: times * (1.03 if name in slow else 1) for name, times in process.items()} for process in new]
        called, _, _ = called_by_baseline_rule(past, slower)
        assert called <= slow
        found += [name in called for name in slow]
    assert np.mean(found) >= 0.95


@pytest.mark.slow
def test_a_run_is_replayed_against_other_gpus() -> None:
    runs = list({run.gpu_uuid: run for run in read_runs(H200)}.values())
    played = play_other_gpus(runs)
    assert played.alarms == [0] * 10 * len(runs)  # each case changed once a run
    found = {slowdown: hits for (size, slowdown), hits in played.found.items() if size == "above 100 µs"}
    assert not any(found[0.0])
    assert np.mean(found[0.01]) < 0.1
    assert np.mean(found[0.10]) > 0.5


LIBRARIES = ("matmul-cublas-vendor-1024x1024x1024-float32", "matmul-cublas-vendor-4096x4096x4096-float32")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ((), "share 0 cases of the same machine code, 0 of them not a library's"),
        (("matmul-naive-8x8-128x128x128-float32",), "share 1 cases .*, 1 of them not"),
        (LIBRARIES, "share 2 cases .*, 0 of them not"),
    ],
)
def test_a_replay_against_other_gpus_needs_a_modified_case_and_another(kept: tuple[str, ...], said: str) -> None:
    runs = list({run.gpu_uuid: run for run in read_runs(H200)}.values())
    few = [replace(run, cases={name: run.cases[name] for name in kept}) for run in runs]
    with pytest.raises(BadRun, match=f"these runs of several GPUs {said}"):
        play_other_gpus(few)


@pytest.mark.slow
def test_the_table_has_a_row_for_each_rule() -> None:
    runs = several()
    recording = record([run for run in runs if run.gpu_uuid == runs[0].gpu_uuid])
    text = table(recording, score(recording, trials=1))
    assert text.startswith("| rule | alarms a run | runs with any | minutes | found, under 10 µs |")
    for name in (OURS, *rules.RULES):
        assert f"\n| {name} | " in text


def test_pairs_are_played_as_they_were_recorded() -> None:
    rng = np.random.default_rng(4)
    medians = dict(zip(map(str, range(300)), np.exp(rng.uniform(np.log(4e-6), np.log(5e-3), 300)), strict=True))
    recording = PairRecording(medians, {name: list(rng.normal(0, 0.0006, 6)) for name in medians})
    played = play_pairs(recording, 2)
    assert played.alarms == [0, 0]
    assert max(played.unsure) < 0.05 * len(medians)
    assert all(np.mean(hits) > 0.9 for (_, slowdown), hits in played.found.items() if slowdown >= 0.03)
