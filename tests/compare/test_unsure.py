"""Tests of tools/unsure.py: what makes a case unsure is planted in runs, and the table says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tools.unsure import table
from warpwatch.runs.record import BadRun, CaseRecord, Facts, Gpu, RunRecord
from warpwatch.verdict.rule import Decision, Verdict

MEDIANS = {f"copy-{number}": float(seconds) for number, seconds in enumerate(np.geomspace(5e-6, 2e-3, 60))}
PRINTS, MODES, PROCESSES, CAPPED = "copy-10", "copy-50", "copy-51", "copy-52"


def run(gpu: int, number: int) -> RunRecord:
    """A run on a GPU where every kernel takes 0, 1 or 2 µs longer."""
    cases = {}
    for name, seconds in MEDIANS.items():
        median = seconds * (1 + 0.02 * number * (name == PROCESSES)) + 1e-6 * gpu * (3 if name == PRINTS else 1)
        samples = (median, 0.9 * median, 1.1 * median) if name == MODES else (median,) * 3
        facts = Facts(throttle=(("power",), ()) if name == CAPPED else ())
        again = (samples,) if name == MODES else ()
        cases[name] = CaseRecord(samples=samples, facts=replace(facts, again=again))
    decisions = {name: Decision(verdict=Verdict.UNSURE) for name in (PRINTS, MODES)}
    decisions |= {name: Decision(verdict=Verdict.UNSURE if number else Verdict.SAME) for name in (PROCESSES, CAPPED)}
    return RunRecord(path=Path("x"), gpu=Gpu(uuid=str(gpu), slug="a-gpu"), cases=cases, decisions=decisions)


RUNS = [run(gpu, number) for gpu in range(3) for number in range(2)]


def test_what_makes_a_case_unsure_is_seen() -> None:
    lines = [line.strip("| ").split(" | ") for line in table(RUNS, 4).splitlines()]
    cells = {name: rest for name, *rest in lines if name in MEDIANS}
    assert [cells[name][0] for name in (PRINTS, MODES, PROCESSES, CAPPED)] == ["6", "6", "3", "3"]
    assert (cells[PRINTS][5], cells[CAPPED][5]) == ("3.0", "1.0")  # moves with the offset
    assert (cells[MODES][2], cells[CAPPED][2]) == ("10.0 %", "0.0 %")  # in a process
    assert (cells[PROCESSES][3], cells[CAPPED][3]) == ("1.40 %", "0.00 %")  # between processes
    assert float(cells[PRINTS][4].split()[0]) > 5  # between GPUs
    assert cells[CAPPED][4] == "0.00 %"
    assert (cells[CAPPED][6], cells[MODES][6]) == ("6 of 6", "0 of 12")
    assert lines[-1] == ["18 unsure verdicts, 100 % of them listed; 12 processes of 3 GPUs."]


def test_words_of_older_runs_count_and_pairs_do_not() -> None:
    older = replace(RUNS[0], decisions={}, cases={**RUNS[0].cases, "copy-0": CaseRecord(
        samples=(5e-6,), facts=Facts(verdict="unsure"))})  # fmt: skip
    pairs = replace(RUNS[0], against="HEAD", decisions={})
    assert table([older, pairs], 9).splitlines()[2].startswith("| copy-0 | 1 | 5.0 µs | 0.0 % |")
    assert table([older, pairs], 9).endswith("1 unsure verdicts, 100 % of them listed; 2 processes of 1 GPUs.")


def test_runs_of_two_models_are_refused() -> None:
    other = replace(RUNS[0], gpu=Gpu(uuid="9", slug="b-gpu"))
    with pytest.raises(BadRun, match=r"several models \(a-gpu, b-gpu\)"):
        table([*RUNS, other], 4)
