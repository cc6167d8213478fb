"""Makes a job's result of the records that its runs left behind, and of the JSON of ``warpwatch diff``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path

import msgspec

from warpwatch.compare.code_difference import BuildChange, State
from warpwatch.compare.contracts import broken
from warpwatch.report.document import Document
from warpwatch.report.pull_request.result import (
    MOST,
    MOST_CHARACTERS,
    MOST_NOTES,
    MOST_TOTALS,
    Finding,
    Kind,
    Result,
    one_line,
    worst_first,
)
from warpwatch.report.tables import sentence as sentence_of
from warpwatch.report.tables import total_lines
from warpwatch.runs.faults import COMPILE_ERROR, CONTRACT, Place, merged, sentence
from warpwatch.runs.record import Outcome, RunRecord, TestRecord
from warpwatch.verdict.rule import Verdict

LISTED = {Verdict.SLOWER: Kind.SLOWER, Verdict.UNSURE: Kind.UNSURE, Verdict.FASTER: Kind.FASTER}
IDLE = "ran no kernel"
OUTCOMES = (*(str(each) for each in (Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED, Outcome.EXPECTED)), IDLE)


@dataclass(kw_only=True)
class Gathered:
    """Findings of a job so far. ``notes``: what was not done, and why. ``failed``: the job is red."""

    root: Path
    tests: RunRecord = field(default_factory=lambda: RunRecord(path=Path()))
    timed: RunRecord = field(default_factory=lambda: RunRecord(path=Path()))
    code: Mapping[str, Mapping[State, int]] = field(default_factory=dict)
    worse: Sequence[Finding] = ()
    notes: list[str] = field(default_factory=list)
    failed: bool = False

    def fail(self, note: str) -> None:
        """Note what ended badly: the job is red."""
        self.failed = True
        self.notes.append(one_line(note))

    def take_tests(self, record: RunRecord) -> None:
        """Take the record of the tests, and fail where they show nothing of any kernel."""
        self.tests, counts = record, count_tests(record)
        if not counts.keys() & {Outcome.PASSED, Outcome.FAILED}:
            words = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
            ran = f"{len(record.tests):,} tests ran, and none is of a case or build" if record.tests else "no test ran"
            self.fail(f"no kernel was tested: {f'of the tests of kernels, {words}' if words else ran}")

    def take_code(self, path: Path) -> None:
        """Take the JSON of ``warpwatch diff``. Raises OSError, or ValueError where it is something else."""
        difference = msgspec.json.decode(path.read_bytes(), type=Document).code
        if difference is None:
            raise ValueError(f"{path}: holds no difference of machine code")
        self.code = difference.counts
        self.worse = [
            Finding(kind=Kind.WORSE_CODE, name=one_line(str(build)), said=one_line(message))
            for build in difference.builds
            if (message := _worse(build))
        ]

    def take_times(self, record: RunRecord) -> None:
        """Take the record of the benchmark, and fail where it compared nothing."""
        self.timed = record
        if not record.decisions:
            self.fail("no kernel was timed: no case of the benchmark has a verdict")

    def result(self, *, job: str, where: str, commit: str, against: str, inside: str) -> Result:
        """Return the result of the job. ``inside``: the folder of the checkout in which the repository's files lie."""
        every = [*findings([self.tests, self.timed], self.root), *self.worse]
        named = [replace(e, file=f"{inside}{e.file}") if e.file and not e.file.startswith("/") else e for e in every]
        shown, more = limited(named)
        return Result(
            job=one_line(job),
            where=one_line(where),
            commit=commit,
            against=against,
            tests=count_tests(self.tests),
            verdicts=dict(Counter(str(each.verdict) for each in self.timed.decisions.values()).most_common()),
            code={arch: {str(state): count for state, count in counts.items()} for arch, counts in self.code.items()},
            findings=shown,
            more=more,
            totals=tuple(map(one_line, total_lines(self.timed.totals, MOST_TOTALS - 1))),
            notes=tuple(few_notes(self.notes)),
            failed=self.failed,
        )


def few_notes(notes: Sequence[str]) -> Sequence[str]:
    """Return as many notes as a result holds: the last ones, which say what ended badly."""
    left = len(notes) - MOST_NOTES + 1
    if left < 2:
        return notes
    return [notes[0], f"{left:,} more things, which the job's log has", *notes[left + 1 :]]


def limited(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], dict[Kind, int]]:
    """Return the worst findings that a file holds, at most MOST, and how many of each kind are left out."""
    ordered = worst_first(findings)
    lengths = accumulate(len(each.name) + len(each.said) + len(each.likely) + len(each.file) for each in ordered)
    count = sum(length <= MOST_CHARACTERS for length in islice(lengths, MOST))
    return tuple(ordered[:count]), dict(Counter(finding.kind for finding in ordered[count:]))


def count_tests(record: RunRecord) -> dict[str, int]:
    """Count the tests of kernels by outcome. A case that is slower is right: its test failed for its time alone."""
    counts = Counter(_outcome(record, test) for test in record.tests if test.case)
    return {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}


def _outcome(record: RunRecord, test: TestRecord) -> str:
    passed = test.outcome == Outcome.PASSED or record.is_slower(test)
    return IDLE if passed and not test.launched else str(Outcome.PASSED if passed else test.outcome)


def findings(records: Sequence[RunRecord], root: Path) -> Iterator[Finding]:
    """Yield what failed tests and verdicts say: each fault once, and the first failure of each kernel."""
    failed = [
        test for run in records for test in run.tests if test.outcome == Outcome.FAILED and not run.is_slower(test)
    ]
    wrong: dict[tuple[Kind, str], list[TestRecord]] = {}
    for test in failed:
        if not any(fault.in_source for fault in test.faults):
            kind = Kind.BROKEN if all(fault.kind == CONTRACT for fault in test.faults) else Kind.WRONG
            wrong.setdefault((kind, test.kernel or test.name), []).append(test)
    for (kind, _), (first, *others) in wrong.items():
        more = f"; {len(others)} more tests of this kernel failed" if others else ""
        message = one_line(first.faults[0].place.message.removeprefix(f"{first.case} "))
        place = first.place if first.kernel else Place()
        yield _finding(kind, first.case or first.name, f"{message}{more}", place, root)
    located = ((fault, test.case or test.name) for test in failed for fault in test.faults if fault.in_source)
    for fault, tests in merged(located):
        kind = Kind.NOT_COMPILED if fault.kind == COMPILE_ERROR else Kind.FAULT
        name = f"{fault.kind}{f' in {fault.kernel}' if fault.kernel else ''}"
        yield _finding(kind, name, one_line(sentence(fault, tests)), fault.place, root)
    for run in records:
        yield from _compared(run, root)


def _compared(run: RunRecord, root: Path) -> Iterator[Finding]:
    """Yield the cases of the verdicts that are listed, the slowest first."""
    places = {test.case: test.place for test in run.tests}
    cases = [(name, each) for name, each in run.decisions.items() if each.verdict in LISTED]
    for name, decision in sorted(cases, key=lambda case: -1.0 if math.isnan(case[1].ratio) else -case[1].ratio):
        place, limits = places.get(name, Place()), broken(run.contracts.get(name, ()))
        figures = one_line("; ".join([sentence_of(decision, verdict=False), *limits]))
        yield _finding(LISTED[decision.verdict], name, figures, place, root, decision.explanation)


def _finding(kind: Kind, name: str, said: str, place: Place, root: Path, likely: str = "") -> Finding:
    """Return a finding at a place, whose file is named from the root where it lies in it."""
    path = Path(place.file)
    if path.is_absolute() and path.is_relative_to(root):
        path = path.relative_to(root)
    finding = Finding(kind=kind, name=one_line(name), said=said, likely=one_line(likely))
    return replace(finding, file=one_line(path.as_posix()), line=place.line) if place.file else finding


def _worse(build: BuildChange) -> str:
    """Say by which figures a build got worse: local memory and occupancy; empty where it did not."""
    changes = []
    for old, new in ((kernel.old, kernel.new) for kernel in build.kernels):
        if not old or not new:
            continue
        bytes_before, bytes_after = old.needs.local_bytes, new.needs.local_bytes
        if bytes_after > bytes_before:
            changes.append(f"local memory {bytes_before:,} -> {bytes_after:,} B")
        before, after = old.least_share or 0.0, new.least_share or 0.0
        if after < before:
            registers = f"{old.needs.registers} -> {new.needs.registers}"
            changes.append(f"occupancy {before:.2f} -> {after:.2f} (registers {registers})")
    return ", ".join(dict.fromkeys(changes))
