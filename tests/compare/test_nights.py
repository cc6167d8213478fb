"""Tests the playing of whole nights: what is planted in recordings is found again, and the right cases are counted."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.runs.identities import known
from tools import nights
from tools.nights import Count, Counts, Experiment, World, count_all, tables, world_of
from tools.recording import record, record_pairs
from tools.score import Runs
from warpwatch.runs.record import BadRun, CaseRecord, Facts, Gpu, RunRecord, Sides

NAMES = [f"{family}-{number}" for family in ("copy", "matmul") for number in range(40)]
MEDIANS = dict(zip(NAMES, np.tile(np.geomspace(2e-6, 2e-3, 40), 2).tolist(), strict=True))
GPUS, ODD, ODD_BY = 5, "copy-30", 1.2  # one case takes a fifth longer on the first GPU


def recorded(gpu: int, number: int, rng: np.random.Generator) -> RunRecord:
    """A run whose processes differ by 0.1 %."""
    times = {name: MEDIANS[name] * np.exp(rng.normal(0, 0.001)) for name in NAMES}
    times[ODD] *= ODD_BY if gpu == 0 else 1
    return RunRecord(
        path=Path(f"{gpu}-{number}.json"),
        gpu=Gpu(uuid=f"GPU-{gpu}"),
        when=datetime(2026, 11, 1, tzinfo=UTC) + timedelta(minutes=2 * number),
        cases={name: CaseRecord(samples=(time,) * 20, facts=Facts(identity=known())) for name, time in times.items()},
    )


def side_by_side(rng: np.random.Generator) -> RunRecord:
    """A run of pairs in three processes, whose ratios differ by 0.05 %."""
    cases = {}
    for name, seconds in MEDIANS.items():
        new = tuple((seconds * float(np.exp(rng.normal(0, 0.0005))),) * 2 for _ in range(3))
        sides = Sides(old=((seconds,) * 2,) * 3, new=new)
        cases[name] = CaseRecord(samples=(seconds,), facts=Facts(identity=known(), pairs=sides))
    return RunRecord(path=Path("pairs.json"), gpu=Gpu(uuid="GPU-9"), against="--self-check", cases=cases)


def recordings(gpus: int = GPUS, pairs: int = 1) -> Runs:
    rng = np.random.default_rng(5)
    alone = [recorded(gpu, number, rng) for gpu in range(gpus) for number in range(2)]
    both = [side_by_side(rng) for _ in range(pairs)]
    return Runs("neither", alone, record(alone), both, record_pairs(both))


@pytest.fixture(scope="module")
def world() -> World:
    return world_of(recordings())


def counted(world: World, experiment: Experiment, trials: int = 4) -> Counts:
    return count_all(world, [experiment], trials, seed=1)[experiment.title]


def test_a_world_knows_how_its_gpus_differ(world: World) -> None:
    assert list(world.names) == NAMES
    odd = world.gpus[:, NAMES.index(ODD)]
    assert odd[0] - odd[1:].mean() == pytest.approx(np.log(ODD_BY), abs=0.003)
    assert np.abs(np.delete(world.gpus, NAMES.index(ODD), axis=1)).max() < 0.01


def test_processes_of_a_gpu_differ_as_recorded_ones(world: World) -> None:
    past = nights.draw_night(world, Experiment(title="x"), np.random.default_rng(2)).past
    logs = np.log([[run.cases[name].samples[0] for name in NAMES] for run in past])
    assert 0.0005 < np.median(logs.std(axis=0)) < 0.002


def test_a_night_differs_by_what_was_asked_for(world: World) -> None:
    rng = np.random.default_rng(2)
    experiment = Experiment(title="x", factor=1.03, family="matmul", seconds=1e-6, slowdown=0.1)
    night = nights.draw_night(world, experiment, rng)
    times, before = night.process(), {name: each.samples[0] for name, each in night.past[0].cases.items()}
    assert len(night.past) == 5
    for name in set(NAMES) - night.slow.keys():
        more = (before[name] * 1.03 + 1e-6) if name.startswith("matmul") else before[name]
        assert times[name] == pytest.approx(more, rel=0.01, abs=5e-8), name
    assert {round(np.exp(log), 9) for log in night.slow.values()} == {1.1}
    assert all(night.facts[name].identity == nights.MODIFIED for name in night.slow)


@pytest.mark.parametrize("unseen", [False, True])
def test_the_baseline_is_of_this_gpu_or_of_four_others(world: World, unseen: bool) -> None:
    night = nights.draw_night(world, Experiment(title="x", unseen=unseen), np.random.default_rng(2))
    gpus = {run.gpu_uuid for run in night.past}
    assert (len(gpus), night.gpu_uuid in gpus) == ((4, False) if unseen else (1, True))
    modified = sum(facts.identity == nights.MODIFIED for facts in night.facts.values())
    assert 10 <= modified <= 45


def test_nothing_is_false_on_the_same_night_and_much_on_others_unless_pairs_decide(world: World) -> None:
    quiet = counted(world, Experiment(title="quiet"))
    assert [sum(count.false) for count in (quiet.saved, quiet.pairs)] == [0, 0]
    nights_apart = counted(world, Experiment(title="nights", night=0.03))
    assert sum(nights_apart.saved.false) > 4
    assert nights_apart.pairs.false == [0] * 4
    assert [each.decided_by for each in (quiet, nights_apart)] == ["saved times", "pairs"]


def test_without_controls_saved_times_call_nothing_slower(world: World) -> None:
    counts = counted(world, Experiment(title="all", modified=1, factor=1.03), trials=2)
    assert (counts.saved.false, counts.pairs.false, counts.decided_by) == ([0, 0], [0, 0], "pairs")


def test_a_slowdown_is_found_and_is_not_false(world: World) -> None:
    counts = counted(world, Experiment(title="slower", slowdown=0.1))
    for count in (counts.saved, counts.pairs):
        assert sum(count.false) == 0
        assert len(count.found["above 100 µs"]) > 12
        assert np.mean(count.found["above 100 µs"]) > 0.95


def test_a_run_is_counted_by_what_was_slowed() -> None:
    count = Count()
    count.add({"a", "b"}, ["b", "c"], {"b": 1e-6, "c": 1e-3})
    assert count.false == [1]
    assert count.found == {"under 10 µs": [True], "above 100 µs": [False]}


def test_the_same_seed_gives_the_same_tables_and_each_experiment_has_a_row(world: World) -> None:
    experiments = [Experiment(title="nights", night=0.01, audit="86 %"), Experiment(title="slower", slowdown=0.05)]
    texts = [tables(experiments, count_all(world, experiments, 1, seed)) for seed in (1, 1)]
    assert texts[0] == texts[1]
    rows = [line.split(" | ")[0] for line in texts[0].splitlines()]
    assert [rows.count(f"| {title}") for title in ("nights", "slower")] == [1, 3]
    assert "| 86 % |" in texts[0]


def test_recordings_that_hold_too_little_are_refused() -> None:
    with pytest.raises(BadRun, match="hold no pairs of the recorded cases"):
        world_of(recordings(pairs=0))
    with pytest.raises(BadRun, match="are of 4 GPUs: it takes 5"):
        world_of(recordings(gpus=4))


def test_the_command_prints_its_seed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(nights, "chosen_files", lambda _: [])
    monkeypatch.setattr(Runs, "read", lambda _: recordings())
    monkeypatch.setattr(nights, "EXPERIMENTS", nights.EXPERIMENTS[:1])
    monkeypatch.setattr(sys, "argv", ["nights", "somewhere", "--trials", "1", "--seed", "7"])
    assert nights.main() == 0
    printed = capsys.readouterr().out
    assert "80 cases of 5 GPUs, recorded for neither; --seed 7." in printed
    assert "| own GPU, same night | 0 of 1 " in printed
