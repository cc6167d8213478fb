"""Tests which cases another process measures again, and beside which controls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from warpwatch.compare.with_baseline import CONTROL_BYTES, PROCESSES_OF_UNCHANGED, Processes
from warpwatch.runs.saved import Facts, Gpu, Run, Timed
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


@dataclass(frozen=True)
class Sampled:
    """What this run's processes showed of a case."""

    facts: Facts
    processes: list[list[float]]


def processes_of(cases: dict[str, Case]) -> Processes:
    """Compare a run of these cases, all of 10 µs and a little more each, with three of the same GPU."""
    seconds = {name: 1e-5 * 1.01**number for number, name in enumerate(cases)}

    def facts(case: Case, code: str) -> Facts:
        return Facts(cache="cold", image_hash=code, bytes=case.bytes, library=case.library)

    past = [
        Run(
            path=Path(f"{number}.json"),
            gpu=Gpu(uuid=GPU),
            cases={name: Timed(samples=(seconds[name],), facts=facts(case, "old")) for name, case in cases.items()},
        )
        for number in range(3)
    ]
    measured = {name: Sampled(facts(case, case.code), [[seconds[name]]]) for name, case in cases.items()}
    return Processes(past, measured, GPU, "")


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
