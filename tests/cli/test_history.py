"""Tests of what a night tells for the first time: slowdowns that stay, each once, with what finds their commit."""

from __future__ import annotations

import math
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import to_builtins

from tests.project import PROJECT
from tests.runs.identities import known
from warpwatch.cli.history import issue, new_steps, run
from warpwatch.runs.files import write_run
from warpwatch.runs.record import CaseRecord, Commit, Facts, Gpu, RunRecord

CASES = [f"copy-naive-{number}-float32" for number in range(40)]
FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)


def nights(count: int, slower: dict[str, tuple[int, float]]) -> list[RunRecord]:
    """Make runs of which some cases change: the night from which they do, and the factor."""
    draw, runs = random.Random(7), []
    for night in range(count):
        cases = {}
        for index, name in enumerate(CASES):
            begin, factor = slower.get(name, (count, 1.0))
            work = known(code=f"{factor}" if night >= begin else "old")
            seconds = 2e-5 * (1 + index) * math.exp(draw.gauss(0, 0.001)) * (factor if night >= begin else 1)
            cases[name] = CaseRecord(samples=(round(seconds, 10),), facts=Facts(cache="cold", identity=work))
        runs.append(
            RunRecord(
                path=Path(f"{night:04}_night.json"),
                gpu=Gpu(name="A GPU", slug="a-gpu"),
                cases=cases,
                commit=Commit(id=f"{night + 1:040x}", dirty=False),
                when=FIRST + timedelta(days=night),
            )
        )
    return runs


def test_a_slowdown_is_told_in_one_night_alone() -> None:
    runs = nights(30, {CASES[3]: (15, 1.05)})
    told = [number for number in range(6, 31) if new_steps(runs[:number])]
    assert len(told) == 1
    assert 16 <= told[0] <= 20
    (step,) = new_steps(runs[: told[0]])
    assert (step.case, step.after.path.name) == (CASES[3], "0015_night.json")


@pytest.mark.slow
def test_the_place_is_right_from_the_first_night_on_in_which_a_step_is_told() -> None:
    for night in range(8, 22):
        runs = nights(26, {CASES[3]: (night, 1.06)})
        told = next(filter(None, (new_steps(runs[:number]) for number in range(6, 27))))
        assert [step.after.path.name for step in told] == [f"{night:04}_night.json"]


def test_a_gain_and_no_change_are_not_told() -> None:
    for slower in ({}, {CASES[3]: (15, 0.9)}):
        runs = nights(24, slower)
        assert not [number for number in range(6, 25) if new_steps(runs[:number])]


def test_a_second_slowdown_of_the_same_case_is_told_again() -> None:
    runs = nights(40, {CASES[3]: (12, 1.05)})
    later = nights(40, {CASES[3]: (26, 1.2)})
    runs[26:] = later[26:]
    assert len([number for number in range(6, 41) if new_steps(runs[:number])]) == 2


def test_the_issue_names_commits_and_command_once_for_cases_that_changed_together() -> None:
    runs = nights(20, {CASES[3]: (15, 1.05), CASES[4]: (15, 1.1)})
    number = next(number for number in range(6, 21) if len(new_steps(runs[:number])) == 2)
    text = issue(new_steps(runs[:number]), runs[number - 1])
    assert text.startswith("**2 cases became slower permanently** on A GPU, night of 2026-01-")
    assert re.search(rf"- {CASES[4]}: \+(9.9|10.\d) % in ", text)
    before, after = runs[14].commit.id[:12], runs[15].commit.id[:12]
    assert f"python -m warpwatch bisect {CASES[4]} {CASES[3]} {before}..{after}" in text


def test_many_are_cut_off() -> None:
    runs = nights(20, dict.fromkeys(CASES[:1], (15, 1.05)))
    (step,) = new_steps(runs[: next(n for n in range(6, 21) if new_steps(runs[:n]))])
    text = issue([step] * 25, runs[-1])
    assert text.count(f"- {CASES[0]}") == 20
    assert "... and 5 more" in text


def test_too_few_runs_are_said_and_a_file_is_written_only_where_there_is_a_slowdown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = tmp_path / "a-gpu", tmp_path / "new.md"
    for night in nights(9, {CASES[3]: (5, 1.1)}):
        entries = [
            {
                "param": name,
                "stats": {"data": list(timed.samples)},
                "extra_info": {"cache": "cold", "identity": to_builtins(timed.facts.identity)},
            }
            for name, timed in night.cases.items()
        ]
        commit = {"id": night.commit.id, "dirty": False}
        moment = night.when.isoformat() if night.when else None
        write_run(folder, "night", {"benchmarks": entries, "commit_info": commit, "datetime": moment})
        assert run(PROJECT, case="", folder=folder, new=file) == 0
        if file.exists():
            break
    said = capsys.readouterr().out
    assert said.count("a lasting change takes 6 runs of one GPU") == 5
    assert f"1 new slowdown in {len(list(folder.iterdir()))} runs: {file}\n" in said
    assert file.read_text().startswith("**1 case became slower permanently**")
