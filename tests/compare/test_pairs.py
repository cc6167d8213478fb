"""Tests how many processes a comparison of pairs has open the GPU, when some pairs are undecided."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from warpwatch.compare import pairs
from warpwatch.compare.pairs import SCREENING_PROCESSES, Pair, PairComparison
from warpwatch.timing.parent_samples import Again
from warpwatch.verdict.rule import MIN_PROCESSES, Decision, Verdict


class FakeWorker:
    """Counts the processes that it is asked to open the GPU with."""

    def __init__(self, *, has_spares: bool) -> None:
        self.has_spares, self.opened = has_spares, 0

    def renew(self) -> None:
        pass

    def open_spares(self, count: int, get_ready: object, kind: str) -> None:
        self.opened += count


@pytest.mark.parametrize(
    ("has_spares", "undecided", "opened"),
    [(False, True, MIN_PROCESSES - SCREENING_PROCESSES), (True, True, 0), (False, False, 0)],
)
def test_more_processes_open_the_gpu_only_for_undecided_pairs_that_have_none(
    has_spares: bool, undecided: bool, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = FakeWorker(has_spares=has_spares)
    measured = SimpleNamespace(kernel=SimpleNamespace(worker=worker), case=None, kind="cold")
    pair = SimpleNamespace(measured=measured, take=lambda process: None)
    decision = Decision(verdict=Verdict.UNSURE if undecided else Verdict.SAME)
    monkeypatch.setattr(PairComparison, "_decide", lambda self: {"one": decision})
    monkeypatch.setattr(PairComparison, "_decide_energy", lambda self: {})
    monkeypatch.setattr(pairs, "_may_change", lambda decision: decision.verdict == Verdict.UNSURE)
    comparison = PairComparison(pairs={"one": cast("Pair", pair)})
    comparison.decide(Again(cold=True, progress=lambda done, of: None, broken={}))
    assert worker.opened == opened
