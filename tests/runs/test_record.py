"""Tests of the record of a run: all that is written has a type, and what is written is read as it was."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.project import EARLIER, PROJECT, ROOT
from warpwatch.catalogue.selection import timed_cases
from warpwatch.runs.faults import Fault, Place
from warpwatch.runs.files import compact_json, run_files
from warpwatch.runs.record import (
    About,
    BadRun,
    Facts,
    Gpu,
    Outcome,
    Sides,
    TestRecord,
    read_document,
    read_run,
    recorded,
)
from warpwatch.verdict.rule import Decision, Verdict

OLD = {"verdict", "energy"}  # which runs of version 0 have among a case's facts
DECISION = Decision(
    verdict=Verdict.SLOWER, before=1e-3, after=2e-3, ratio=2.0, low=1.9, high=2.1, floor=0.01, processes=5, reason="why"
)


def untyped(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a run's file, of what is Warpwatch's own, that no type knows."""
    gpu, about = document["machine_info"]["gpu"], document["warpwatch"]
    parts: list[tuple[type, Mapping[str, Any]]] = [(Gpu, gpu), (About, about)]
    for entry in document["benchmarks"]:
        parts.append((Facts, entry["extra_info"]))
        parts.append((Sides, entry["extra_info"].get("pairs", {})))
    for kind, part in parts:
        yield from part.keys() - {each.name for each in fields(kind)} - OLD


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("folder", ["nvidia-h200", "nvidia-h100-80gb-hbm3"])
def test_all_that_committed_runs_hold_has_a_type(folder: str) -> None:
    paths = [*run_files(EARLIER / folder), *run_files(ROOT / "bench" / "recordings" / "tuning" / folder)]
    assert paths
    for path in paths:
        document = read_document(path)
        document["warpwatch"].pop("thinned", None)
        assert set(untyped(document)) == set(), path


def written(folder: Path, **about: Any) -> Path:
    (folder / "run.json").write_bytes(compact_json({"benchmarks": [], "warpwatch": recorded(about)}))
    return folder / "run.json"


def test_what_is_recorded_is_read_as_it_was(tmp_path: Path) -> None:
    place, other = Place(file="a.cu", line=3, message="reads"), Place(file="b.cu", line=4, message="writes")
    fault = Fault(kind="race", kernel="copy", place=place, others=(other,), in_source=True)
    test = TestRecord(id="x::y[z]", outcome=Outcome.FAILED, case="z", reason="two\nlines", seconds=0.5, faults=(fault,))
    new = Decision(verdict=Verdict.NEW)
    record = read_run(
        written(tmp_path, decisions={"a": DECISION, "b": new}, tests=[test], notes=["note"], exit_status=1)
    )
    assert asdict(record.decisions["a"]) == asdict(DECISION)
    assert math.isnan(record.decisions["b"].ratio)
    assert (list(record.tests), list(record.notes), record.exit_status) == ([test], ["note"], 1)


def test_a_file_of_any_name_is_recorded(tmp_path: Path) -> None:
    case = timed_cases(PROJECT.families)[0]
    for name in ("line\nbreak", "not \udcff UTF-8", "a  b"):
        family = replace(case.family, arrays=FunctionType(compile("0", f"{ROOT}/{name}", "exec"), {}))
        place = Place.of_declaration(replace(case, build=replace(case.build, family=family)))
        test = TestRecord(id="x", outcome=Outcome.FAILED, faults=(Fault(kind="race", place=place),))
        assert read_run(written(tmp_path, tests=[test])).tests[0].faults[0].place == place
    assert place.file == f"{ROOT}/a  b"


def test_verdicts_of_runs_that_recorded_no_decisions_are_read() -> None:
    run = read_run(run_files(EARLIER / "nvidia-h200")[-1])
    assert run.version == 0
    assert {each.verdict for each in run.decisions.values()} <= set(Verdict)
    assert all(math.isnan(each.ratio) for each in run.decisions.values())


@pytest.mark.parametrize(
    "about",
    [
        {"decisions": {"a": {"verdict": "slow"}}},
        {"decisions": {"a": {"verdict": "slower", "ratio": 0.0}}},
        {"decisions": {"a": {"verdict": "slower", "reason": "\x1b[31m"}}},
        {"decisions": {"a": {"verdict": "slower", "processes": True}}},
        {"tests": [{"id": "x", "outcome": "lost"}]},
        {"tests": [{"id": "x", "outcome": "failed", "faults": [{"kind": "race"}]}]},
        {"tests": [{"id": "x", "outcome": "failed", "reason": "\x1b[31m"}]},
    ],
)
def test_a_record_that_is_damaged_is_refused_by_name(tmp_path: Path, about: dict[str, Any]) -> None:
    with pytest.raises(BadRun, match=r"run\.json: is not a run of this suite"):
        read_run(written(tmp_path, **about))


FIGURES = st.floats(min_value=1e-30, max_value=1e30)


@given(figures=st.lists(FIGURES | st.just(math.nan), min_size=5, max_size=5), verdict=st.sampled_from(Verdict))
def test_every_figure_survives_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, figures: list[float], verdict: Verdict
) -> None:
    before, after, ratio, low, high = figures
    decision = Decision(verdict=verdict, before=before, after=after, ratio=ratio, low=low, high=high)
    read = read_run(written(tmp_path_factory.mktemp("run"), decisions={"a": decision})).decisions["a"]
    assert list(map(str, asdict(read).values())) == list(map(str, asdict(decision).values()))
