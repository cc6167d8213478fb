"""Tests of tools/spread.py: the figures, and what has no spread."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.spread import table
from warpwatch.runs.record import CaseRecord, Commit, Facts, Gpu, RunRecord


def run(median: float, *cases: str) -> RunRecord:
    timed = CaseRecord(samples=(0.5 * median, median, 3 * median), facts=Facts())
    return RunRecord(
        path=Path("run.json"), gpu=Gpu(uuid="GPU-1"), cases=dict.fromkeys(cases, timed), commit=Commit(id="abc")
    )


RUNS = [run(0.99e-4, "one", "two"), run(1.00e-4, "one"), run(1.01e-4, "one", "two")]


def test_the_spread_is_of_the_runs_medians_and_names_what_is_left_out() -> None:
    head, line, last = table(RUNS)
    assert head.endswith("of 3 processes")
    assert line.split() == ["one", "100.00", "µs", "1.000%", "2.000%"]
    assert last == "1 cases are left out: not every run has them"


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (RUNS[:2], "at least three runs, and these are 2"),
        ([*RUNS, replace(RUNS[0], gpu=Gpu(uuid="GPU-2"))], "of several GPUs: GPU-1, GPU-2"),
        ([*RUNS, replace(RUNS[0], commit=Commit(id="def"))], "of several commits: abc, def"),
        ([*RUNS, run(1e-4, "three")], "no case is in all of these runs"),
    ],
)
def test_what_has_no_spread_is_said(runs: list[RunRecord], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        table(runs)
