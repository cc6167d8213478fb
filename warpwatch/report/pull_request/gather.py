"""Makes findings of the records that a job's runs left behind, and of the JSON of ``warpwatch diff``."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from warpwatch.report.pull_request.result import Finding, Kind, one_line
from warpwatch.report.tables import sentence as sentence_of
from warpwatch.runs.faults import COMPILE_ERROR, Place, merged, sentence
from warpwatch.runs.record import Outcome, RunRecord, TestRecord
from warpwatch.verdict.rule import Decision, Verdict

LISTED = {Verdict.SLOWER: Kind.SLOWER, Verdict.UNSURE: Kind.UNSURE, Verdict.FASTER: Kind.FASTER}
IDLE = "ran no kernel"
OUTCOMES = (*(str(each) for each in (Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED, Outcome.EXPECTED)), IDLE)


def count_tests(record: RunRecord) -> dict[str, int]:
    """Count the tests of kernels by outcome. A case that is slower is right: its test failed for its time alone."""
    counts = Counter(_outcome(record, test) for test in record.tests if test.case)
    return {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}


def _outcome(record: RunRecord, test: TestRecord) -> str:
    passed = test.outcome == Outcome.PASSED or record.is_slower(test)
    return IDLE if passed and not test.launched else str(Outcome.PASSED if passed else test.outcome)


def why_untested(record: RunRecord) -> str:
    """Say why the tests of a run show nothing of any kernel; empty where one passed or failed."""
    counts = count_tests(record)
    if counts.get(Outcome.PASSED) or counts.get(Outcome.FAILED):
        return ""
    words = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
    none = f"{len(record.tests):,} tests ran, and none is of a case or build" if record.tests else "no test ran"
    return f"no kernel was tested: {f'of the tests of kernels, {words}' if words else none}"


def count_verdicts(record: RunRecord) -> dict[str, int]:
    """Count the cases of each verdict."""
    return dict(Counter(str(decision.verdict) for decision in record.decisions.values()).most_common())


def findings(records: Sequence[RunRecord], root: Path) -> Iterator[Finding]:
    """Yield what failed tests and verdicts say: each fault once, and the first failure of each kernel."""
    failed = [
        test for run in records for test in run.tests if test.outcome == Outcome.FAILED and not run.is_slower(test)
    ]
    wrong: dict[str, list[TestRecord]] = {}
    for test in failed:
        if not any(fault.in_source for fault in test.faults):
            wrong.setdefault(test.kernel or test.name, []).append(test)
    for first, *others in wrong.values():
        more = f"; {len(others)} more tests of this kernel failed" if others else ""
        yield _wrong(first, more, root)
    located = ((fault, test.case or test.name) for test in failed for fault in test.faults if fault.in_source)
    for fault, tests in merged(located):
        kind = Kind.NOT_COMPILED if fault.kind == COMPILE_ERROR else Kind.FAULT
        name = f"{fault.kind}{f' in {fault.kernel}' if fault.kernel else ''}"
        yield _at(fault.place, root, Finding(kind=kind, name=one_line(name), said=one_line(sentence(fault, tests))))
    for run in records:
        yield from _compared(run, root)


def _wrong(test: TestRecord, more: str, root: Path) -> Finding:
    message = test.faults[0].place.message.removeprefix(f"{test.case} ")
    name = one_line(test.case or test.name)
    finding = Finding(kind=Kind.WRONG, name=name, said=f"{one_line(message)}{more}")
    return _at(test.place, root, finding) if test.kernel else finding


def _compared(run: RunRecord, root: Path) -> Iterator[Finding]:
    """Yield the cases of the verdicts that are listed, the slowest first."""
    places = {test.case: test.place for test in run.tests}
    cases = [(name, each) for name, each in run.decisions.items() if each.verdict in LISTED]
    for name, decision in sorted(cases, key=lambda case: -_ratio(case[1])):
        figures, likely = one_line(sentence_of(decision, verdict=False)), one_line(decision.explanation)
        finding = Finding(kind=LISTED[decision.verdict], name=one_line(name), said=figures, likely=likely)
        yield _at(places.get(name, Place()), root, finding)


def _ratio(decision: Decision) -> float:
    return 1.0 if math.isnan(decision.ratio) else decision.ratio


def _at(place: Place, root: Path, finding: Finding) -> Finding:
    """Return a finding with its place, whose file is named from the root where it lies in it."""
    path = Path(place.file)
    if path.is_absolute() and path.is_relative_to(root):
        path = path.relative_to(root)
    return replace(finding, file=one_line(path.as_posix()), line=place.line) if place.file else finding


def read_code(path: Path) -> tuple[dict[str, dict[str, int]], list[Finding], list[str]]:
    """Read the JSON of ``warpwatch diff``: counts by architecture, builds that got worse, and notes."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    worse = [
        Finding(kind=Kind.WORSE_CODE, name=one_line(f"{build['id']} ({build['arch']})"), said=one_line(message))
        for build in document["builds"]
        if (message := _worse(build))
    ]
    return document["counts"], worse, [one_line(note) for note in document["notes"]]


def _worse(build: dict[str, Any]) -> str:
    """Say by which figures a build got worse: local memory and occupancy; empty where it did not."""
    changes = []
    for kernel in build.get("kernels", ()):
        old, new = kernel.get("old"), kernel.get("new")
        if not old or not new:
            continue
        before, after = old["needs"]["local_bytes"], new["needs"]["local_bytes"]
        if after > before:
            changes.append(f"local memory {before:,} -> {after:,} B")
        shares = [min((o["occupancy"]["share"] for o in side["occupancies"] if o["occupancy"]), default=0.0)
                  for side in (old, new)]  # fmt: skip
        if shares[1] < shares[0]:
            registers = f"{old['needs']['registers']} -> {new['needs']['registers']}"
            changes.append(f"occupancy {shares[0]:.2f} -> {shares[1]:.2f} (registers {registers})")
    return ", ".join(dict.fromkeys(changes))
