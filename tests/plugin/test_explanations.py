"""Tests which baselines are built again to explain a slowdown, and what is said of those that are not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fake_gpu import INFO
from tests.project import ROOT
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.project import find_project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.devices.compile.compiler import CompileError, Target
from warpwatch.explain.commits import CommitCase
from warpwatch.plugin import explanations
from warpwatch.plugin.explanations import CALL, TOO_MANY, _built_again, _newest, _of_baseline, explain_cases
from warpwatch.runs.record import CaseRecord, Commit, Facts, RunRecord
from warpwatch.timing.parent_samples import Measured
from warpwatch.verdict.rule import Decision, Verdict

NIGHTS = [datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2, 3)]
CASE = "copy-naive-256-1048576-float32"


def run(day: int, commit: str, *, dirty: bool | None = False) -> RunRecord:
    return RunRecord(path=Path(f"{day}.json"), commit=Commit(id=commit, dirty=dirty), when=NIGHTS[day])


def test_the_newest_run_of_a_clean_commit_is_built() -> None:
    runs = [run(0, "a" * 40), run(1, "b" * 40), run(2, "c" * 40, dirty=True), RunRecord(path=Path("no commit"))]
    assert _newest(runs) is runs[1]
    assert _newest(runs[2:]) is None


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([run(0, "a" * 40, dirty=True)], "the baseline does not say which commit it was made of"),
        (
            [run(0, "a" * 40)],
            "aaaaaaaaaaaa, which the baseline was made of, is not in HEAD's history here",
        ),
    ],
)
def test_a_commit_that_is_not_this_branchs_own_is_not_run(runs: list[RunRecord], said: str) -> None:
    found = _of_baseline(BaselineComparison(runs=runs), [CASE], find_project(ROOT), Target("sm_90"))
    assert found == {CASE: said}


def measured(name: str) -> Measured:
    kernel: Any = None
    return Measured(kernel=kernel, case=find_case(find_project(ROOT).families, name), kind="cold")


def test_of_each_case_it_is_said_why_its_code_of_then_is_not_there() -> None:
    other: Any = None
    past = run(0, "a" * 40)
    assert _built_again(measured("copy-memcpy-vendor-1048576-float32"), None, past) == CALL
    assert _built_again(measured(CASE), None, past) == "aaaaaaaaaaaa, the baseline's newest, does not have it"
    had = RunRecord(
        path=Path("0.json"),
        commit=past.commit,
        cases={CASE: CaseRecord(samples=(1.0,), facts=Facts(image_hash="then"))},
    )
    broken = CommitCase(other=other, image=CompileError("copy.cu: no code\nin many lines"))
    assert _built_again(measured(CASE), broken, had) == "in aaaaaaaaaaaa, copy.cu: no code"


def test_more_slower_cases_than_are_explained_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [case.id for case in timed_cases(find_project(ROOT).families) if not case.variant.on_host][:3]
    slower = [Decision(verdict=Verdict.SLOWER, ratio=1.1 + number) for number in range(3)]
    comparison = BaselineComparison(
        runs=[run(0, "")],
        measured={name: measured(name) for name in names},
        decisions=dict(zip(names, slower, strict=True)),
    )
    monkeypatch.setattr(explanations, "EXPLAINED", 2)
    explain_cases(comparison, find_project(ROOT), INFO, lambda done, total: None)
    said = [comparison.decisions[name].explanation for name in names]
    assert said == [TOO_MANY, *["not explained: the baseline does not say which commit it was made of"] * 2]
