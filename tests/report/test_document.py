"""Tests of the document for programs: it has what the terminal says, and calls nothing good by accident."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tests.project import ROOT
from tests.said import lost
from warpwatch.compare.beside import HOST_TIME, lines
from warpwatch.report.document import (
    MISSING,
    Document,
    End,
    document_of,
    encoded,
    json_schema,
    unwritable,
)
from warpwatch.report.tables import summary
from warpwatch.runs.explained import Explained, Figure, RecordedCause
from warpwatch.runs.faults import Fault, Place
from warpwatch.runs.identity import Array, Identity, Pointer, Step
from warpwatch.runs.record import CaseRecord, Facts, Outcome, RunRecord, TestRecord
from warpwatch.verdict.rule import Decision, Verdict

SCHEMA = ROOT / "docs" / "document.schema.json"
CASES = {verdict: f"copy-naive-256-{100 + number}-float32" for number, verdict in enumerate(Verdict)}
SHOWN = (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNSURE)


def decision(verdict: Verdict, before: float = 45.237e-6, **more: Any) -> Decision:
    if verdict not in SHOWN:
        return Decision(verdict=verdict, **more)
    ratio = {Verdict.SLOWER: 1.0671, Verdict.FASTER: 0.921}.get(verdict, 1.003)
    sides: dict[str, Any] = {
        "before": before,
        "after": before * ratio,
        "ratio": ratio,
        "low": ratio - 0.004,
        "high": ratio + 0.005,
    }
    return Decision(verdict=verdict, **sides | {"floor": 0.0123, "processes": 5} | more)


def run(**more: Any) -> RunRecord:
    """A run with a case of each verdict."""
    reasons: dict[Verdict, dict[str, Any]] = {
        Verdict.UNSURE: {"reason": "clock throttled: power", "suspect": True},
        Verdict.INCOMPARABLE: {"reason": "another CUDA toolkit: 12.9 and 13.0"},
        Verdict.SLOWER: {"explanation": "likely cause: registers 40 -> 128"},
    }
    decisions = {name: decision(verdict, **reasons.get(verdict, {})) for verdict, name in CASES.items()}
    del decisions[CASES[Verdict.MISSING]]
    slower = CASES[Verdict.SLOWER]
    explained = Explained(
        causes=(RecordedCause(kernel="k", sentence="registers 40 -> 128", effect="slower", likely=True),),
        figures=(Figure(kernel="k", name="registers", old="40", new="128"),),
    )
    facts: dict[str, Any] = {
        "path": Path("run.json"),
        "decisions": decisions,
        "energies": {
            slower: decision(Verdict.SLOWER, 0.0513, ratio=1.31, low=1.28, high=1.37, floor=0.034),
            CASES[Verdict.SAME]: decision(Verdict.UNSURE, 0.0513),
        },
        "hosts": {
            slower: decision(Verdict.SLOWER, 8.76e-6, ratio=1.42, low=1.36, high=1.48, floor=0.087),
            CASES[Verdict.SAME]: decision(Verdict.UNSURE, 9.87e-6),
        },
        "missing": [CASES[Verdict.MISSING]],
        "explained": {slower: explained},
        "next_steps": {slower: f"python -m warpwatch explain {slower} --against HEAD"},
        "tests": [TestRecord(id=f"b::k[{name}]", case=name, outcome=Outcome.PASSED) for name in decisions],
    }
    return RunRecord(**facts | more)


def document(record: RunRecord, end: End = End.PASSED, message: str = "", root: Path = ROOT) -> Any:
    """The document as a program reads it, which the struct reads too."""
    text = encoded(document_of(record, "pytest bench", root, end, message))
    msgspec.json.decode(text, type=Document)
    return json.loads(text)


def printed(record: RunRecord) -> str:
    beside = [*lines(record.energies), *lines(record.hosts, HOST_TIME)]
    return "\n".join([*summary(record.decisions, record.missing), *beside])


def test_the_document_has_what_is_printed_of_each_verdict() -> None:
    record = run()
    assert lost(printed(record), document(record)) == []
    cases = {case["id"]: case for case in document(record)["cases"]}
    assert {name: cases[name]["verdict"] for name in CASES.values()} == {n: str(v) for v, n in CASES.items()}
    slower = cases[CASES[Verdict.SLOWER]]
    assert slower["cause"]["figures"] == [{"kernel": "k", "name": "registers", "old": "40", "new": "128"}]
    assert slower["next"].startswith("python -m warpwatch explain copy-naive-256-")


def _without(*path: str) -> Callable[[Any], None]:
    def change(case: Any) -> None:
        for key in path[:-1]:
            case = case[key]
        case[path[-1]] = None

    return change


@pytest.mark.parametrize(
    ("verdict", "change"),
    [
        (Verdict.SLOWER, _without("comparison", "ratio")),
        (Verdict.SLOWER, _without("comparison", "low")),
        (Verdict.SLOWER, _without("comparison", "floor")),
        (Verdict.SLOWER, _without("cause")),
        (Verdict.SLOWER, _without("energy", "before")),
        (Verdict.SLOWER, _without("host", "before")),
        (Verdict.UNSURE, _without("comparison", "suspect")),
        (Verdict.FASTER, _without("comparison", "processes")),
        (Verdict.MISSING, _without("reason")),
    ],
)
def test_a_fact_that_the_document_lacks_is_noticed(verdict: Verdict, change: Callable[[Any], None]) -> None:
    record = run()
    made = document(record)
    (case,) = (case for case in made["cases"] if case["id"] == CASES[verdict])
    case["tests"], case["next"] = [], ""
    if verdict == Verdict.MISSING:
        case["comparison"]["reason"] = ""
    change(case)
    assert lost(printed(record), made)


def _test(outcome: Outcome, **more: Any) -> TestRecord:
    return TestRecord(id=f"t::{outcome}", outcome=outcome, **more)


PASSED, FAILED, SKIPPED = (_test(outcome) for outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED))


@pytest.mark.parametrize(
    ("end", "tests", "nothing", "expected"),
    [
        (End.PASSED, [PASSED, SKIPPED], [], End.PASSED),
        (End.PASSED, [], [], End.NOTHING),
        (End.PASSED, [SKIPPED, _test(Outcome.EXPECTED)], [], End.NOTHING),
        (End.PASSED, [PASSED], ["NOTHING WAS COMPARED"], End.NOTHING),
        (End.FAILED, [PASSED], ["NOTHING WAS COMPARED"], End.NOTHING),
        (End.FAILED, [PASSED, FAILED], ["NOTHING WAS COMPARED"], End.FAILED),
        (End.FAILED, [PASSED], [], End.FAILED),
        (End.INTERRUPTED, [PASSED], [], End.INTERRUPTED),
        (End.BROKEN, [PASSED], [], End.BROKEN),
    ],
)
def test_a_run_is_passed_only_where_something_was_checked(
    end: End, tests: list[TestRecord], nothing: list[str], expected: End
) -> None:
    made = document(RunRecord(path=Path("run.json"), tests=tests, nothing=nothing), end)
    assert made["outcome"] == expected
    assert bool(made["message"]) == (bool(nothing) or expected == End.NOTHING)


def test_a_fault_has_both_places_its_elements_and_the_command(tmp_path: Path) -> None:
    places = [
        Place(file=str(tmp_path / "k" / "a.cu"), line=line, message=f"thread does {line}", thread=(1, 0), block=(0, 0))
        for line in (28, 21)
    ]
    fault = Fault(kind="race", kernel="k", place=places[0], others=(places[1],), in_source=True)
    case = "copy-naive-256-4096-float32"
    test = _test(
        Outcome.FAILED, case=case, faults=(fault,), again='pytest "t::x"', declared=Place(file="/else/a.py", line=3)
    )
    made = document(RunRecord(path=Path("r"), tests=[test], settings={"device": "software"}), End.FAILED, root=tmp_path)
    (entry,) = made["cases"]
    (shown,) = entry["faults"]
    assert (shown["place"]["file"], shown["place"]["line"]) == ("k/a.cu", 28)
    assert (shown["others"][0]["line"], shown["others"][0]["thread"]) == (21, [1, 0])
    assert (shown["declaration"]["file"], shown["declaration"]["line"]) == ("/else/a.py", 3)
    assert entry["again"] == 'pytest "t::x"'
    assert entry["next"] == f"python -m warpwatch run {case} --device software"
    untrusted = RunRecord(path=Path("r"), tests=[test], settings={"untrusted": "True"})
    (entry,) = document(untrusted, End.FAILED, root=tmp_path)["cases"]
    assert entry["next"] == entry["again"]  # the other command would import the declarations


def test_remarks_and_faults_of_any_kind_are_handed_on() -> None:
    case = "copy-naive-256-4096-float32"
    odd = Fault(kind="faster than the hardware", place=Place(message="8.1 TB/s of 4.8"))
    tests = [_test(Outcome.FAILED, case=case, faults=(odd,), remarks=("it reads a clock",))]
    cases = {case: CaseRecord(samples=(1e-6, 2e-6), facts=Facts(remarks=("bits differ",)))}
    (entry,) = document(RunRecord(path=Path("r"), tests=tests, cases=cases), End.FAILED)["cases"]
    assert [(each["kind"], each["message"], each["place"]) for each in entry["faults"]] == [
        ("faster than the hardware", "8.1 TB/s of 4.8", None)
    ]
    assert entry["remarks"] == ["bits differ", "it reads a clock"]


STEP = Step(entry="k", grid=(1, 1, 1), block=(32, 1, 1), arguments=(Pointer("x", 0),), names=("x",))
WORK = Identity(
    version=1, code="c0de", steps=(STEP,), arrays=(Array(name="x", role="in", shape=(4,), dtype="int32"),),
    symbols={}, draw="", call="", source="", library="",
)  # fmt: skip


def measured(identity: Identity | None, **facts: Any) -> Any:
    cases = {"a-b-1-2-int32": CaseRecord(samples=(1e-6,), facts=Facts(identity=identity, **facts))}
    return document(RunRecord(path=Path("r"), cases=cases))["cases"][0]["measured"]


def test_a_measurement_says_how_it_was_taken_and_of_what_work() -> None:
    made = measured(WORK, how="slope of wall time", launch_seconds=4e-6, seed=2**61 + 1)
    assert (made["how"], made["launch_seconds"], made["seed"]) == ("slope of wall time", 4e-6, 2**61 + 1)
    assert made["code"] == "c0de"
    others = [
        structs.replace(WORK, code="other"),
        structs.replace(WORK, steps=(structs.replace(STEP, block=(64, 1, 1)),)),
        structs.replace(WORK, draw="sha"),
    ]
    assert len({made["work"], *(measured(other)["work"] for other in others)}) == 4
    renamed = structs.replace(WORK, steps=(structs.replace(STEP, names=("y",)),))
    assert measured(renamed)["work"] == made["work"]
    assert measured(structs.replace(WORK, library=None))["work"] == measured(None)["work"] == ""


def test_what_was_not_checked_has_its_reasons() -> None:
    record = run(
        tests=[
            _test(Outcome.SKIPPED, reason="needs a device: none", case="copy-naive-256-7-float32"),
            _test(Outcome.EXPECTED, reason="known"),
        ],
        left_out={"serial, and over a second": ["copy-serial-host-9-float32"]},
    )
    reasons = {each["reason"]: each["names"] for each in document(record)["not_checked"]}
    assert reasons["needs a device: none"] == ["t::skipped"]
    assert reasons["failed as expected: known"] == ["t::failed as expected"]
    assert reasons["serial, and over a second"] == ["copy-serial-host-9-float32"]
    assert reasons["not compared: incomparable: another CUDA toolkit: 12.9 and 13.0"]
    assert reasons[MISSING] == [CASES[Verdict.MISSING]]


def written_schema() -> str:
    return json.dumps(json_schema(), indent=1) + "\n"


def test_the_schema_in_docs_is_that_of_the_document() -> None:
    """Where this fails: ``python -m tests.report.test_document`` writes it anew."""
    assert SCHEMA.read_text() == written_schema()


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    assert unwritable(tmp_path / "a.json") == ""
    assert unwritable(tmp_path) == f"{tmp_path} cannot be written: Is a directory"
    assert unwritable(tmp_path / "none" / "a.json").endswith(f"there is no folder {tmp_path / 'none'}")


if __name__ == "__main__":
    SCHEMA.write_text(written_schema())
