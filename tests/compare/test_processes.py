"""Tests which cases another process measures again, and beside which controls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runs.identities import known
from warpwatch.compare.with_baseline import CONTROL_BYTES, PROCESSES_OF_UNCHANGED, Processes, SampledCase
from warpwatch.runs.record import CaseRecord, Facts, Gpu, RunRecord
from warpwatch.verdict.rule import MIN_CONTROLS, Decision, Verdict

GPU = "GPU-1"
LARGE, SMALL = CONTROL_BYTES + 1, 2**20
UNSURE = Decision(verdict=Verdict.UNSURE)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case of this run. ``code``: a word for its machine code, which is 'old' in the baseline."""

    bytes: int = SMALL
    library: str = ""
    code: str = "old"


def processes_of(cases: dict[str, Case], runs: int = 3, spread: float = 0.0, gpu: str = GPU) -> Processes:
    """Compare a run of these cases, all of 10 µs and a little more each, with a few of one GPU.

    ``spread``: the share by which each run's times are longer than those of the run before.
    """
    seconds = {name: 1e-5 * 1.005**number for number, name in enumerate(cases)}

    def facts(case: Case, code: str) -> Facts:
        identity = known(code=code, library=case.library)
        return Facts(cache="cold", identity=identity, bytes=case.bytes, library=case.library)

    past = [
        RunRecord(
            path=Path(f"{number}.json"),
            gpu=Gpu(uuid=gpu),
            cases={
                name: CaseRecord(
                    samples=(seconds[name] * (1 + spread * number * (-1) ** place),), facts=facts(case, "old")
                )
                for place, (name, case) in enumerate(cases.items())
            },
        )
        for number in range(runs)
    ]
    measured = {name: SampledCase(facts(case, case.code), [[seconds[name]]]) for name, case in cases.items()}
    return Processes(past, measured, GPU, "")


def outlook(runs: int, spread: float, gpu: str = GPU) -> str:
    """Return what a comparison of 400 cases says of more runs."""
    processes = processes_of({f"case-{number}": Case() for number in range(400)}, runs, spread, gpu)
    processes.decide()
    return processes.outlook()


@pytest.mark.once
@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (1, r"about \d+ stay unsure with a baseline of 1 run, about \d+ with 3 and about \d+ with 5"),
        (2, r"about \d+ stay unsure with a baseline of 2 runs, about \d+ with 3 and about \d+ with 5"),
        (3, r"about \d+ stay unsure with a baseline of 3 runs, about \d+ with 5"),
    ],
)
def test_a_small_baseline_says_what_more_runs_would_bring(runs: int, said: str) -> None:
    told = outlook(runs, 0.003)
    assert re.fullmatch(f"of 400 unchanged cases, {said}", told), told
    counts = [int(number) for number in re.findall(r"about (\d+)", told)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_nothing_is_said_of_more_runs_where_they_bring_nothing() -> None:
    assert outlook(5, 0.003) == ""
    assert outlook(3, 0.003, "GPU-2") == ""  # how another GPU differs is no question of runs


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
