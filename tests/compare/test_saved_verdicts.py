"""Tests that a saved run's verdicts can be worked out again from its samples, as the run itself gave them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.project import EARLIER, ROOT
from warpwatch.compare.saved_verdicts import against_baseline, side_by_side, verdicts_of
from warpwatch.runs.record import CaseRecord, RunRecord, Sides, read_run, read_runs
from warpwatch.verdict.rule import Decision, Verdict

RECORDED = ROOT / "bench" / "recordings" / "tuning" / "nvidia-h200"
CASE = "matmul-tiled-16x16-2048x2048x2048-float32"
UNSTEADY = "matmul-rowstrip-64x1-2048x2048x2048-float64"  # its floor is above 20 %, which was unsure then


@pytest.fixture(scope="module")
def baseline() -> list[RunRecord]:
    return read_runs(EARLIER / "nvidia-h200")


@pytest.fixture(scope="module")
def run() -> RunRecord:
    """A run that was compared with that very baseline when it was made."""
    return read_run(RECORDED / "0012_h200.json.xz")


def slowed(timed: CaseRecord, factor: float, processes: int) -> CaseRecord:
    """Return a case of other machine code that is slower in so many processes."""
    samples = tuple(factor * sample for sample in timed.samples)
    facts = replace(timed.facts, identity=None, again=(samples,) * (processes - 1))
    return CaseRecord(samples=samples, facts=facts)


def test_the_verdicts_are_those_that_the_run_recorded(run: RunRecord, baseline: list[RunRecord]) -> None:
    found = against_baseline(run, baseline)
    recorded = {name: timed.facts.verdict for name, timed in run.cases.items() if timed.facts.verdict}
    assert len(recorded) == 872
    now = {name: str(decision.verdict) for name, decision in found.decisions.items()}
    assert now == recorded | {UNSTEADY: "identical"}
    assert set(recorded.values()) == {"same", "unsure"}
    assert found.missing == []
    assert {other.gpu_uuid for other in found.past} == {run.gpu_uuid}


def test_a_run_that_recorded_its_decisions_is_not_decided_again(run: RunRecord, baseline: list[RunRecord]) -> None:
    slower = Decision(verdict=Verdict.SLOWER, ratio=1.5, reason="as it was said then")
    past = [baseline[0].path.name]
    record = replace(run, version=1, decisions={CASE: slower}, past=past, notes=["a note"], missing=["x"])
    found = verdicts_of(record, baseline)
    assert found.decisions == {CASE: slower}
    assert (list(found.past), found.notes, found.missing) == ([baseline[0]], ["a note"], ["x"])


@pytest.mark.slow
def test_an_older_run_keeps_its_words_and_figures_only_where_they_agree(
    run: RunRecord, baseline: list[RunRecord]
) -> None:
    other = replace(run, decisions={**run.decisions, CASE: Decision(verdict=Verdict.FASTER)})
    found = verdicts_of(other, baseline).decisions
    assert (found[CASE].verdict, found[CASE].processes) == (Verdict.FASTER, 0)
    assert {name: each.verdict for name, each in found.items()} == {
        name: each.verdict for name, each in other.decisions.items()
    }
    assert sum(each.processes > 0 for each in found.values()) == len(found) - len({CASE, UNSTEADY})


@pytest.mark.slow
def test_each_gpu_of_a_run_decides_about_its_own_cases() -> None:
    two = read_run(ROOT / "bench/recordings/tuning/nvidia-h100-80gb-hbm3/0001_two-gpus.json.xz")
    found = against_baseline(two, read_runs(EARLIER / "nvidia-h100-80gb-hbm3"))
    recorded = {name: timed.facts.verdict for name, timed in two.cases.items() if timed.facts.verdict}
    excused = {Verdict.IDENTICAL: "unsure"}  # as unchanged work was called then that this GPU took longer for
    now = {name: excused.get(each.verdict, str(each.verdict)) for name, each in found.decisions.items()}
    assert now == recorded
    effects = [re.fullmatch(r"common to this run, .*, by (\d+) unchanged cases", note) for note in found.notes]
    assert [int(effect[1]) > 300 for effect in effects if effect] == [True, True]


@pytest.mark.slow
def test_a_slower_case_needs_its_processes(run: RunRecord, baseline: list[RunRecord]) -> None:
    for processes, verdict in ((1, Verdict.UNSURE), (5, Verdict.SLOWER)):
        cases = {**run.cases, CASE: slowed(run.cases[CASE], 1.05, processes)}
        decision = against_baseline(replace(run, cases=cases), baseline).decisions[CASE]
        assert decision.verdict == verdict
        assert decision.processes == processes
        assert decision.ratio == pytest.approx(1.05, abs=0.01)


@pytest.mark.slow
def test_of_a_disturbed_case_the_fresh_process_counts(run: RunRecord, baseline: list[RunRecord]) -> None:
    timed = run.cases[CASE]
    facts = replace(timed.facts, other_processes=("python (pid 12)",))
    twice = tuple(2 * sample for sample in timed.samples)

    def decided(again: tuple[tuple[float, ...], ...]) -> Decision:
        disturbed = CaseRecord(samples=twice, facts=replace(facts, again=again))
        return against_baseline(replace(run, cases={**run.cases, CASE: disturbed}), baseline).decisions[CASE]

    assert decided((timed.samples,)).verdict == Verdict.SAME
    disturbed = decided(())
    assert disturbed.verdict == Verdict.UNSURE
    assert disturbed.ratio == pytest.approx(2, abs=0.02)
    assert disturbed.reason == "another process was at work on the GPU: python (pid 12)"


def test_a_run_is_not_compared_with_itself(baseline: list[RunRecord]) -> None:
    assert against_baseline(baseline[0], baseline[:1]).decisions == {}
    assert baseline[0] not in against_baseline(baseline[0], baseline).past


def test_new_missing_and_incomparable_cases_are_told(run: RunRecord, baseline: list[RunRecord]) -> None:
    cases = {name: timed for name, timed in run.cases.items() if name != CASE}
    cases["matmul-newest-16x16-128x128x128-float32"] = run.cases[CASE]
    found = against_baseline(replace(run, cases=cases), baseline)
    assert found.missing == [CASE]
    assert found.decisions["matmul-newest-16x16-128x128x128-float32"].verdict == Verdict.NEW
    assert against_baseline(replace(run, cases=cases, whole=False), baseline).missing == ()
    driver = replace(run, gpu=replace(run.gpu, driver="999.1"))
    decisions = against_baseline(driver, baseline).decisions
    assert {decision.verdict for decision in decisions.values()} == {Verdict.INCOMPARABLE}
    assert decisions[CASE].reason == "another driver (580 then, 999 now)"


@pytest.mark.slow
def test_pairs_are_decided_from_both_sides() -> None:
    run = read_run(RECORDED / "0013_against.json.xz")
    few = {name: timed for name, timed in run.cases.items() if name.startswith(("matmul-tiled", "transpose"))}
    assert {str(each.verdict) for each in side_by_side(replace(run, cases=few)).decisions.values()} == {"same"}
    sides = few[CASE].facts.pairs
    assert sides
    processes = 5
    slow = Sides(
        old=(sides.old[0],) * processes,
        new=(tuple(1.05 * sample for sample in sides.new[0]),) * processes,
    )
    few[CASE] = replace(few[CASE], facts=replace(few[CASE].facts, pairs=slow))
    decision = side_by_side(replace(run, cases=few)).decisions[CASE]
    assert decision.verdict == Verdict.SLOWER
    assert decision.ratio == pytest.approx(1.05, abs=0.01)
