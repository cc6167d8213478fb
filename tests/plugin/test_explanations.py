"""Tests which slower cases of a run are explained."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_gpu import INFO
from tests.project import PROJECT
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.plugin import ending
from warpwatch.plugin.ending import TOO_MANY, Ending
from warpwatch.runs.record import RunRecord
from warpwatch.timing.measurement import Measured
from warpwatch.verdict.rule import Decision, Verdict


def measured(name: str) -> Measured:
    kernel: Any = None
    return Measured(kernel=kernel, case=find_case(PROJECT.families, name), kind="cold")


def test_more_slower_cases_than_are_explained_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [case.id for case in timed_cases(PROJECT.families) if not case.variant.on_host][:3]
    slower = [Decision(verdict=Verdict.SLOWER, ratio=1.1 + number) for number in range(3)]
    comparison = BaselineComparison(
        runs=[RunRecord(path=Path("0.json"))],
        measured={name: measured(name) for name in names},
        decisions=dict(zip(names, slower, strict=True)),
    )
    monkeypatch.setattr(ending, "EXPLAINED", 2)
    run: Any = SimpleNamespace(config=None, comparison=comparison, device=INFO, project=PROJECT)
    Ending(run).explain(lambda done, total: None)
    said = [comparison.decisions[name].explanation for name in names]
    assert said == [TOO_MANY, *["not explained: the baseline does not say which commit it was made of"] * 2]
