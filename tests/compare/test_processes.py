"""Tests which cases another process measures again, and beside which controls."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.project import EARLIER, ROOT
from tests.runs.identities import known
from warpwatch.compare.doubts import PRINTS
from warpwatch.compare.processes import CONTROL_BYTES, PROCESSES_OF_UNCHANGED, Processes, SampledCase
from warpwatch.compare.reference import on_gpu
from warpwatch.runs.record import CaseRecord, Facts, Gpu, RunRecord, by_gpu, read_runs
from warpwatch.verdict.rule import MIN_CONTROLS, SAME_WORK, SAVED_TIMES, Decision, Verdict

GPU, NOW = "GPU-1", datetime(2026, 11, 20, 8, tzinfo=UTC)
LARGE, SMALL = CONTROL_BYTES + 1, 2**20
UNSURE = Decision(verdict=Verdict.UNSURE)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case of this run.

    ``code``: a word for its machine code, which is 'old' in the baseline. ``slower``: factor on its time. ``spread``:
    factor between the baseline's runs, back and forth.
    """

    bytes: int = SMALL
    library: str = ""
    code: str = "old"
    slower: float = 1.0
    prints: bool = False
    spread: float = 1.0


def processes_of(
    cases: dict[str, Case],
    runs: int = 3,
    spread: float = 0.0,
    gpu: str = GPU,
    *,
    slower: float = 1.0,
    days: float | None = None,
) -> Processes:
    """Compare a run of these cases, all of 10 µs and a little more each, with a few of one GPU.

    ``spread``: the share by which each run's times are longer than those of the run before. ``slower``: factor on this
    run's times. ``days``: between the run and the baseline; None: the runs do not say when they were measured.
    """
    seconds = {name: 1e-5 * 1.005**number for number, name in enumerate(cases)}

    def facts(case: Case, code: str) -> Facts:
        identity = known(code=code, library=case.library)
        return Facts(cache="cold", identity=identity, bytes=case.bytes, library=case.library, prints=case.prints)

    past = [
        RunRecord(
            path=Path(f"{number}.json"),
            gpu=Gpu(uuid=gpu),
            when=None if days is None else NOW - timedelta(days=days),
            cases={
                name: CaseRecord(
                    samples=(seconds[name] * (1 + spread * number * (-1) ** place) * case.spread ** (number % 2),),
                    facts=facts(case, "old"),
                )
                for place, (name, case) in enumerate(cases.items())
            },
        )
        for number in range(runs)
    ]
    measured = {
        name: SampledCase(facts(case, case.code), [[slower * case.slower * seconds[name]]])
        for name, case in cases.items()
    }
    return Processes(past, measured, GPU, "", when=None if days is None else NOW)


def judge_by_saved_times(processes: Processes) -> None:
    """Take the pairs away, and give four more processes with the times of the first."""
    processes.by_pairs.clear()
    for _ in range(4):
        processes.absorb({name: case.processes[0] for name, case in processes.cases.items()})


def outlook(runs: int, spread: float, gpu: str = GPU) -> str:
    """Return what a comparison of 400 cases says of more runs."""
    processes = processes_of({f"case-{number}": Case() for number in range(400)}, runs, spread, gpu)
    processes.decide()
    return processes.outlook()


@pytest.mark.parametrize("runs", [3, 4])
def test_a_small_baseline_says_what_more_runs_would_bring(runs: int) -> None:
    told = outlook(runs, 0.003)
    said = rf"of 400 unchanged cases, about (\d+) stay unsure with a baseline of {runs} runs, about (\d+) with 5"
    match = re.fullmatch(said, told)
    assert match, told
    assert int(match[1]) > int(match[2])


def test_nothing_is_said_of_more_runs_where_they_bring_nothing() -> None:
    assert outlook(5, 0.003) == ""
    assert outlook(3, 0.003, "GPU-2") == ""  # how another GPU differs is no question of runs
    assert outlook(2, 0.003) == ""  # nor is anything unsure that two runs cannot decide


@pytest.mark.parametrize("slow", [Case(bytes=LARGE), Case(library="13.1.0")], ids=["large", "library"])
def test_controls_are_cases_that_are_measured_quickly(slow: Case) -> None:
    quick = {f"quick-{number}": Case() for number in range(MIN_CONTROLS)}
    wanted = processes_of(quick | {f"slow-{number}": slow for number in range(90)}).wanted({"quick-0": UNSURE})
    assert set(wanted) == set(quick)


def test_where_too_few_are_quick_others_are_controls_too() -> None:
    quick = {f"quick-{number}": Case() for number in range(MIN_CONTROLS - 1)}
    slow = {f"slow-{number}": Case(bytes=LARGE) for number in range(MIN_CONTROLS)}
    wanted = processes_of(quick | slow).wanted({"quick-0": UNSURE})
    assert len(wanted) >= MIN_CONTROLS
    assert set(wanted) & set(slow)


def test_unchanged_code_is_measured_in_three_processes_and_changed_code_in_more() -> None:
    cases = {f"case-{number}": Case() for number in range(MIN_CONTROLS)} | {"changed": Case(code="new")}
    processes = processes_of(cases)
    for _ in range(PROCESSES_OF_UNCHANGED - 1):
        assert "case-3" in processes.wanted({"case-3": UNSURE})
        processes.absorb({name: [1e-5] for name in cases})
    assert processes.wanted({"case-3": UNSURE}) == []
    assert "changed" in processes.wanted({"changed": UNSURE})


NEWEST = "(the newest: 2026-11-19)"
CONTROLS = {f"case-{number}": Case() for number in range(MIN_CONTROLS)}
CHANGED = {"changed": Case(code="new", slower=1.05)}


@pytest.mark.parametrize(
    ("runs", "gpu", "days", "said"),
    [
        (3, GPU, 0.9, ""),
        (3, GPU, None, ""),
        (2, GPU, 0.9, "the baseline has 2 runs of this GPU, and 3 show its noise"),
        (5, "GPU-2", 0.9, "the baseline has no runs of this GPU, and 3 show its noise"),
        (
            5,
            GPU,
            1.1,
            "the baseline has no runs of this GPU of the last day (the newest: 2026-11-19), and 3 show its noise",
        ),
    ],
)
def test_pairs_decide_where_the_baseline_does_not_span_this_gpu_and_day(
    runs: int, gpu: str, days: float | None, said: str
) -> None:
    processes = processes_of(CONTROLS | CHANGED, runs, gpu=gpu, days=days)
    assert processes.unspanned == said
    assert processes.by_pairs == (CHANGED.keys() if said else set())
    assert ("changed" in processes.decide()) == (not said)


def test_pairs_decide_where_too_few_cases_do_the_baselines_work() -> None:
    few = dict(list(CONTROLS.items())[1:])
    processes = processes_of(few | CHANGED)
    assert (processes.unspanned, processes.by_pairs) == ("", {"changed"})
    assert processes.few_controls == "29 cases of the baseline's work, and it takes 30 to see what this run does to all"


def test_without_controls_and_pairs_nothing_is_slower_or_faster_and_the_reason_is_said() -> None:
    """All cases changed, and the run takes 20 % longer: nothing tells its effect from theirs."""
    for slower in (1.2, 0.8):
        processes = processes_of({name: Case(code="new") for name in CONTROLS}, 5, slower=slower)
        judge_by_saved_times(processes)
        decisions = processes.decide().values()
        assert {decision.verdict for decision in decisions} == {Verdict.UNSURE}
        assert {decision.reason for decision in decisions} == {processes.few_controls}
        assert not any(decision.suspect for decision in decisions)
        assert processes.floor_note() == f"saved times call no case slower or faster: {processes.few_controls}"


def test_unchanged_work_is_identical_and_not_unsure_where_this_gpu_differs() -> None:
    slow = CONTROLS | {"odd": Case(slower=1.5)}
    decision = processes_of(slow, gpu="GPU-2").decide()["odd"]
    assert (decision.verdict, decision.decided_by) == (Verdict.IDENTICAL, SAME_WORK)
    assert decision.reason.startswith("its machine code, launches, arguments and inputs are the baseline's")
    known = processes_of(slow).decide()
    assert (known["odd"].verdict, known["case-0"].verdict) == (Verdict.UNSURE, Verdict.SAME)
    assert known["case-0"].decided_by == SAVED_TIMES


@pytest.mark.parametrize(("slower", "verdict"), [(1.008, Verdict.SAME), (1.05, Verdict.SLOWER)])
def test_on_another_day_saved_times_allow_for_what_days_differ(slower: float, verdict: Verdict) -> None:
    processes = processes_of(CONTROLS | {"changed": Case(code="new", slower=slower)}, 5, days=3)
    judge_by_saved_times(processes)
    decision = processes.decide()["changed"]
    assert (decision.verdict, decision.decided_by) == (verdict, SAVED_TIMES)
    said = "noise floors of saved times are 1.0 % wider: the baseline has no runs of this GPU of the last day"
    assert processes.floor_note().startswith(said)


def test_no_process_measures_what_pairs_decide_or_the_work_excuses() -> None:
    processes = processes_of(CONTROLS | CHANGED, gpu="GPU-2")
    assert processes.wanted(processes.decide()) == []
    processes.by_pairs.clear()
    assert "changed" in processes.wanted({"changed": UNSURE})


def test_a_kernel_that_prints_is_no_control_and_not_judged_by_saved_times() -> None:
    few = dict(list(CONTROLS.items())[1:]) | {"hello": Case(prints=True, slower=1.5)}
    processes = processes_of(few)
    assert processes.few_controls.startswith("29 cases of the baseline's work")
    assert (processes.by_pairs, processes.controls) == (set(), few.keys() - {"hello"})
    decision = processes.decide()["hello"]
    assert (decision.verdict, decision.reason, decision.decided_by) == (Verdict.IDENTICAL, PRINTS, SAME_WORK)
    assert processes_of(CONTROLS | {"hello": Case(prints=True)}).decide()["hello"].verdict == Verdict.SAME


def test_pairs_alone_judge_a_modified_kernel_that_prints() -> None:
    processes = processes_of(CONTROLS | CHANGED | {"hello": Case(prints=True, code="new", slower=1.5)}, 5)
    assert processes.by_pairs == {"hello"}
    assert {"changed", "case-0"} < processes.decide().keys()
    judge_by_saved_times(processes)
    decisions = processes.decide()
    assert (decisions["hello"].verdict, decisions["hello"].reason) == (Verdict.UNSURE, PRINTS)
    assert "hello" not in processes.wanted({"changed": UNSURE, "hello": decisions["hello"]})


@pytest.mark.parametrize(
    ("case", "verdict", "processes"),
    [(Case(spread=1.4), Verdict.IDENTICAL, 0), (Case(spread=1.4, code="new"), Verdict.UNSURE, 1)],
)
def test_unchanged_work_whose_time_does_not_settle_is_identical(case: Case, verdict: Verdict, processes: int) -> None:
    compared = processes_of(CONTROLS | {"odd": case}, 5)
    decisions = compared.decide()
    assert decisions["odd"].verdict == verdict
    assert decisions["odd"].reason.startswith("varies too much between processes: no change below")
    assert compared.wanted(decisions).count("odd") == processes


@pytest.mark.slow
@pytest.mark.parametrize(("gpu", "runs"), [("nvidia-h200", 20), ("nvidia-h100-80gb-hbm3", 6)])
def test_on_gpus_that_an_earlier_baseline_lacks_no_unchanged_case_is_unsure(gpu: str, runs: int) -> None:
    """Recorded runs of whole lists, one process each."""
    baseline = read_runs(EARLIER / gpu)
    there = {run.gpu_uuid for run in baseline}
    alone = [run for run in read_runs(ROOT / "bench" / "recordings" / "tuning" / gpu) if not run.against]
    parts = [part for run in alone for part in by_gpu(run)]
    unseen = [part for part in parts if part.gpu_uuid not in there and len(part.cases) > 400]
    assert len(unseen) >= runs
    for run in unseen:
        shared = {name: timed for name, timed in on_gpu(run).items() if any(name in past.cases for past in baseline)}
        cases = {name: SampledCase(timed.facts, [timed.samples]) for name, timed in shared.items()}
        verdicts = Counter(each.verdict for each in Processes(baseline, cases, run.gpu_uuid, "").decide().values())
        assert verdicts[Verdict.SAME] + verdicts[Verdict.IDENTICAL] == verdicts.total() > 400
        assert verdicts[Verdict.IDENTICAL] < 40
