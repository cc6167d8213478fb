"""Tests which baselines are built again to explain a slowdown, and what is said of those that are not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.project import ROOT
from warpwatch.catalogue.project import find_project
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.devices.compiler import Target
from warpwatch.plugin.explanations import _newest, _of_baseline
from warpwatch.runs.saved import Commit, Run

NIGHTS = [datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2, 3)]
CASE = "copy-naive-256-1048576-float32"


def run(day: int, commit: str, *, dirty: bool | None = False) -> Run:
    return Run(path=Path(f"{day}.json"), commit=Commit(id=commit, dirty=dirty), when=NIGHTS[day])


def test_the_newest_run_of_a_clean_commit_is_built() -> None:
    runs = [run(0, "a" * 40), run(1, "b" * 40), run(2, "c" * 40, dirty=True), Run(path=Path("no commit"))]
    assert _newest(runs) is runs[1]
    assert _newest(runs[2:]) is None


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([run(0, "a" * 40, dirty=True)], "not explained: the baseline does not say which commit it was made of"),
        (
            [run(0, "a" * 40)],
            "not explained: aaaaaaaaaaaa, which the baseline was made of, is not in HEAD's history here",
        ),
    ],
)
def test_a_commit_that_is_not_this_branchs_own_is_not_run(runs: list[Run], said: str) -> None:
    found, why = _of_baseline(BaselineComparison(runs=runs), [CASE], find_project(ROOT), Target("sm_90"))
    assert not found
    assert why == said
