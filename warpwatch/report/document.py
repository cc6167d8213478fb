"""The document of a run for programs (``--json``): one schema for pytest and subcommands, made from the run's record.

docs/agents.md describes it, and docs/document.schema.json is its JSON schema. A field may be added at any time; where
one changes its meaning or goes, SCHEMA becomes the next number.
"""

from __future__ import annotations

import math
import os
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from warpwatch import __version__
from warpwatch.compare.code_difference import CodeDifference
from warpwatch.devices.atomic_write import replaced
from warpwatch.devices.mismatch import WrongElements
from warpwatch.runs.explained import Explained, Figure, RecordedCause
from warpwatch.runs.faults import Fault, Place, merged
from warpwatch.runs.identity import digest_of_work
from warpwatch.runs.record import BuildCost, CaseRecord, Outcome, RunRecord, TestRecord
from warpwatch.verdict.contracts import Clause
from warpwatch.verdict.other_data import DataEffect
from warpwatch.verdict.rule import Decision, Verdict
from warpwatch.verdict.totals import Total

SCHEMA = 1
NOT_RUN = "not run"
UNVERSIONED = "unversioned"  # pytest-benchmark's id of a commit where there is none
PARTS_OF_AN_ID = 5  # of a case's; a build's has no shape
MISSING = "the other side has it, this run has not"
UNFINISHED = "the run has not ended: it still runs, or was killed"


class End(StrEnum):
    """Ends of a run. ``PASSED``: kernels were checked, and none is wrong or slower; nothing else is good news.

    ``DONE``: a command that checks no kernel, such as diff, did what it was asked. ``UNFINISHED``: the run still runs,
    or was killed.
    """

    PASSED = "passed"
    FAILED = "failed"
    NOTHING = "nothing checked"
    DONE = "done"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"
    BROKEN = "internal error"
    UNFINISHED = "unfinished"


PYTEST_ENDS = {0: End.PASSED, 1: End.FAILED, 2: End.INTERRUPTED, 4: End.REFUSED, 5: End.NOTHING}
COMMAND_ENDS = {0: End.DONE, 1: End.FAILED, 2: End.REFUSED, 130: End.INTERRUPTED}


class Machine(Struct, frozen=True, kw_only=True):
    """GPU and toolchain; texts are empty and numbers 0 where they are unknown. ``note``: what its times mean.

    ``cache``: cold or warm. ``driver``, ``toolkit``, ``cuda``: versions.
    """

    slug: str
    name: str
    uuid: str
    uuids: tuple[str, ...]
    driver: str
    toolkit: str
    cuda: str
    cache: str
    note: str
    capability: str
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    peak_bytes_per_second: float
    remarks: tuple[str, ...]


class Revision(Struct, frozen=True, kw_only=True):
    """Commit that is checked, empty where it is unknown. ``dirty``: with changes that are not committed."""

    id: str
    dirty: bool | None


class Location(Struct, frozen=True, kw_only=True):
    """Line of a file, relative to the repository, and what happens there; to which thread, where that is known."""

    file: str
    line: int
    message: str
    thread: tuple[int, ...]
    block: tuple[int, ...]


class FaultEntry(Struct, frozen=True, kw_only=True):
    """Fault of a case. ``place``: its line, or where the kernel begins (``in_source`` says which).

    ``others``: places of its other side, such as the other access of a race. ``declaration``: of the kernel's family.
    ``elements``: of each result that is wrong. ``tests``: that found it.
    """

    kind: str
    message: str
    kernel: str
    in_source: bool
    place: Location | None
    others: tuple[Location, ...]
    declaration: Location | None
    elements: tuple[WrongElements, ...]
    tests: tuple[str, ...]


class Comparison(Struct, frozen=True, kw_only=True):
    """Verdict on a case's time or host time in seconds, or energy in joules, with its figures; None: not measured.

    ``ratio``: new over old, with its 95 % interval ``low`` to ``high``. ``floor``: the noise floor, a share.
    ``suspect``: probably slower. ``turn_by_turn``: the ratio comes from samples taken in turns, and that of the medians
    ``before`` and ``after`` lies outside the interval. ``decided_by``: with a baseline, "pairs" with its commit, "saved
    times", or "the same work"; else empty.
    """

    verdict: Verdict
    reason: str
    before: float | None
    after: float | None
    ratio: float | None
    low: float | None
    high: float | None
    floor: float | None
    processes: int
    suspect: bool
    turn_by_turn: bool
    decided_by: str


class Measurement(Struct, frozen=True, kw_only=True):
    """Samples of a case in this run, in seconds, and what is recorded beside them; None or 0 where it is unknown.

    ``samples``: how many. ``iqr``: the interquartile range, as pytest-benchmark computes it. ``how``: a time was read,
    empty by events. ``launch_seconds``: the host's, of an empty kernel, below which there is no time by a slope.
    ``seed``: by which inputs were drawn that differed in each launch. ``share``: of the reference's rate. ``joules``:
    of a launch. ``data``: times on other data, by kind, where they were asked for. ``host_seconds``, ``host_iqr``: the
    host's time of a launch, its median and interquartile range. ``graph_seconds``, ``graph_of_one_seconds``: of a
    launch in a CUDA graph of a hundred, and of one. ``allocated_bytes``: by a call in each launch. ``code``: checksum
    of the machine code. ``work``: digest of all that decides the case's work, equal where the same work is known to be
    done; empty where a part is unknown.
    """

    samples: int
    median: float
    mean: float
    stddev: float
    iqr: float
    min: float
    max: float
    cache: str
    how: str
    launch_seconds: float
    seed: int
    gflops: float
    gbs: float
    share: float | None
    joules: float | None
    watts: float | None
    host_seconds: float | None
    host_iqr: float | None
    graph_seconds: float | None
    graph_of_one_seconds: float | None
    allocated_bytes: int
    data: Mapping[str, DataEffect]
    registers: int
    local_bytes: int
    shared_bytes: int
    occupancy: float | None
    grid: tuple[int, ...] | None
    code_bytes: int
    compile_seconds: float | None
    code: str
    work: str


class Cause(Struct, frozen=True, kw_only=True):
    """Explanation of a verdict: in a sentence, by cause, and by the figures of both sides that differ."""

    sentence: str
    causes: tuple[RecordedCause, ...] = ()
    figures: tuple[Figure, ...] = ()
    besides: str = ""
    note: str = ""


class TestEntry(Struct, frozen=True, kw_only=True):
    """Test, with the whole message of its failure or the reason of its skip. ``again``: the command that repeats it."""

    __test__ = False  # pytest would take it for a class of tests

    id: str
    outcome: Outcome
    seconds: float
    launched: bool
    message: str
    again: str


class CommitEntry(Struct, frozen=True, kw_only=True):
    """Commit as git describes it."""

    id: str
    author: str
    day: str
    subject: str


class Step(Struct, frozen=True, kw_only=True):
    """Commit that changed what a kernel costs. ``possible``: commits before it that may be the cause instead.

    ``share``: of the whole slowdown. ``comparison``: None where nothing was measured.
    """

    commit: CommitEntry
    comparison: Comparison | None
    share: float | None
    cause: Cause
    possible: tuple[CommitEntry, ...]


class SlowerRange(Struct, frozen=True, kw_only=True):
    """Range of commits that is slower as a whole, while no commit between is by itself."""

    first: str
    last: str
    comparison: Comparison


class BisectionEntry(Struct, frozen=True, kw_only=True):
    """Result of a bisection: of ``commits`` with ``codes`` different machine codes or launches.

    ``unusable``: why commits take no part, by id. ``drawn``: those that changed how inputs are drawn. ``ends``: the
    last one against the first. ``steps``: commits that made the case slower; where nothing was measured, all that
    changed its work. ``note``: why nothing was measured or found.
    """

    commits: int
    codes: int
    unusable: dict[str, str]
    drawn: tuple[str, ...] = ()
    ends: Comparison | None = None
    steps: tuple[Step, ...] = ()
    ranges: tuple[SlowerRange, ...] = ()
    note: str = ""


class CaseEntry(Struct, frozen=True, kw_only=True):
    """All that a run knows of a case, or of a build that was tested.

    ``outcome``: of its tests, failed before passed before skipped; "not run" without any. ``control``: verdict of a
    case of the same work that was measured all the same. ``reason``: why it has no better outcome or verdict, in a
    line. ``again``: the command that repeats it. ``next``: the command of the next step, or empty. ``contract``: how it
    stands to its limits.
    """

    id: str
    kernel: str
    outcome: str
    verdict: Verdict | None
    control: str
    reason: str
    comparison: Comparison | None
    energy: Comparison | None
    host: Comparison | None
    measured: Measurement | None
    cause: Cause | None
    bisection: BisectionEntry | None
    faults: tuple[FaultEntry, ...]
    remarks: tuple[str, ...]
    tests: tuple[TestEntry, ...]
    again: str
    next: str
    contract: tuple[Clause, ...] = ()


class NotChecked(Struct, frozen=True, kw_only=True):
    """Cases or tests that were not checked, compared or run, for one reason."""

    reason: str
    names: tuple[str, ...]


class Document(Struct, frozen=True, kw_only=True):
    """Document of a run. ``schema``: its version. ``message``: why it ended as it did, where no case says so.

    ``against``: commit of the other side; ``past``: files of the saved runs that were compared with. ``counts``: of
    outcomes of tests, and of verdicts on times, energies and host times. ``others``: tests of no kernel that did not
    pass. ``notes``: on the run as a whole; ``alarm``: what changed for all cases together. ``next``: what to do.
    ``costs``: of builds on both sides. ``totals``: of builds whose family gives weights. ``code``: of ``warpwatch
    diff``.
    """

    schema: int = SCHEMA
    warpwatch: str = __version__
    command: str
    outcome: End
    exit_status: int | None
    message: str
    written: datetime
    gpu: Machine
    commit: Revision
    against: str
    past: tuple[str, ...]
    settings: Mapping[str, str]
    counts: Mapping[str, Mapping[str, int]]
    cases: tuple[CaseEntry, ...]
    others: tuple[TestEntry, ...]
    not_checked: tuple[NotChecked, ...]
    notes: tuple[str, ...]
    alarm: str
    next: tuple[str, ...]
    costs: Mapping[str, BuildCost] = {}
    totals: Mapping[str, Total] = {}
    code: CodeDifference | None = None


def document_of(
    record: RunRecord,
    command: str,
    root: Path,
    end: End,
    message: str = "",
    *,
    causes: Mapping[str, Cause] | None = None,
    bisections: Mapping[str, BisectionEntry] | None = None,
) -> Document:
    """Return the document of a run's record.

    ``command``: as it was called. ``root``: the repository, from which files are named. ``end``: as far as the exit
    status tells it. ``causes``, ``bisections``: of cases, where those were looked for alone. A run is called passed
    only where a test of it passed, and nothing says that nothing was checked.
    """
    known, end = record.commit.id != UNVERSIONED, _end(record, end)
    texts = list(filter(None, [message, *record.nothing])) or ["no test passed or failed"] * (end == End.NOTHING)
    return Document(
        command=command,
        outcome=end,
        exit_status=record.exit_status,
        message="\n".join(texts),
        written=datetime.now(UTC),
        gpu=Machine(**{name: getattr(record.gpu, name) for name in Machine.__struct_fields__}),
        commit=Revision(id=record.commit.id if known else "", dirty=record.commit.dirty if known else None),
        against=record.against,
        past=tuple(record.past),
        settings=record.settings,
        counts=_counts(record),
        cases=_cases(record, root, causes or {}, bisections or {}),
        others=tuple(_test(t) for t in record.tests if not t.case and t.outcome != Outcome.PASSED),
        not_checked=_not_checked(record),
        notes=tuple(dict.fromkeys((*record.remarks, *record.notes))),
        alarm=record.alarm,
        next=tuple(record.next),
        costs=record.costs,
        totals=record.totals,
    )


def _counts(record: RunRecord) -> dict[str, Counter[str]]:
    judged = {"verdicts": record.decisions, "energies": record.energies, "hosts": record.hosts}
    verdicts = {name: Counter(str(each.verdict) for each in decisions.values()) for name, decisions in judged.items()}
    return {"tests": Counter(str(test.outcome) for test in record.tests)} | verdicts


def _end(record: RunRecord, end: End) -> End:
    """Return how a run ended, which its exit status alone does not tell where nothing was checked."""
    outcomes = {test.outcome for test in record.tests}
    if end == End.PASSED and (record.nothing or Outcome.PASSED not in outcomes):
        return End.NOTHING
    return End.NOTHING if end == End.FAILED and record.nothing and Outcome.FAILED not in outcomes else end


def _cases(
    record: RunRecord, root: Path, causes: Mapping[str, Cause], bisections: Mapping[str, BisectionEntry]
) -> tuple[CaseEntry, ...]:
    tests: dict[str, list[TestRecord]] = {}
    for test in record.tests:
        if test.case:
            tests.setdefault(test.case, []).append(test)
    names = (
        *tests,
        *record.cases,
        *record.decisions,
        *record.energies,
        *record.hosts,
        *record.controls,
        *record.missing,
    )
    entries = []
    for name in dict.fromkeys((*names, *causes, *bisections)):
        entry = _case(name, record, tests.get(name, []), root)
        cause, bisection = causes.get(name, entry.cause), bisections.get(name)
        entries.append(msgspec.structs.replace(entry, cause=cause, bisection=bisection))
    return tuple(entries)


def _case(name: str, record: RunRecord, tests: Sequence[TestRecord], root: Path) -> CaseEntry:
    decision = record.decisions.get(name)
    if decision is None and name in record.missing:
        decision = Decision(verdict=Verdict.MISSING, reason=MISSING)
    energy, host, timed = record.energies.get(name), record.hosts.get(name), record.cases.get(name)
    worst = next((test for outcome in WORST_FIRST for test in tests if test.outcome == outcome), None)
    explained, faults = decision.explanation if decision else "", _faults(tests, root)
    of_tests = worst.reason.partition("\n")[0] if worst else ""
    remarks = (*(timed.facts.remarks if timed else ()), *(remark for test in tests for remark in test.remarks))
    entry = CaseEntry(
        id=name,
        kernel=next((test.kernel for test in tests if test.kernel), "-".join(name.split("-")[:2])),
        outcome=str(worst.outcome) if worst else NOT_RUN,
        verdict=decision.verdict if decision else None,
        control=record.controls.get(name, ""),
        reason=(decision.reason if decision else "") or of_tests,
        comparison=comparison_of(decision) if decision else None,
        energy=comparison_of(energy) if energy else None,
        host=comparison_of(host) if host else None,
        measured=_measurement(timed) if timed else None,
        cause=cause_of(explained, record.explained.get(name, Explained())) if explained else None,
        bisection=None,
        faults=faults,
        remarks=tuple(dict.fromkeys(remarks)),
        tests=tuple(map(_test, tests)),
        again=worst.again if worst else "",
        next=record.next_steps.get(name, ""),
        contract=record.contracts.get(name, ()),
    )
    return entry if entry.next or not faults else msgspec.structs.replace(entry, next=_next_step(entry, record))


WORST_FIRST = (Outcome.FAILED, Outcome.INTERRUPTED, Outcome.PASSED, Outcome.EXPECTED, Outcome.SKIPPED)


def _next_step(entry: CaseEntry, record: RunRecord) -> str:
    """Return the command that shows a faulty case by itself; of code that is not trusted, in the same kind of run."""
    if record.settings.get("untrusted"):
        return entry.again
    device = record.settings.get("device", "")
    on = f" --device {device}" if device in ("gpu", "software") else ""
    return f"python -m warpwatch run {entry.id}{on}" if len(entry.id.split("-")) == PARTS_OF_AN_ID else entry.again


def comparison_of(decision: Decision) -> Comparison:
    """Return a decision with what is not a number left out."""
    figures = ("before", "after", "ratio", "low", "high", "floor")
    known = {name: _finite(getattr(decision, name)) for name in figures}
    return Comparison(
        verdict=decision.verdict,
        reason=decision.reason,
        processes=decision.processes,
        suspect=decision.suspect,
        turn_by_turn=known["ratio"] is not None and bool(decision.basis),
        decided_by=decision.decided_by,
        **known,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _measurement(timed: CaseRecord) -> Measurement:
    facts, samples = timed.facts, timed.samples
    names = [
        *("cache", "how", "launch_seconds", "seed", "gflops", "gbs", "share", "joules", "watts", "data"),
        *("host_seconds", "host_iqr", "graph_seconds", "graph_of_one_seconds", "allocated_bytes"),
        *("registers", "local_bytes", "shared_bytes", "occupancy", "grid", "code_bytes", "compile_seconds"),
    ]
    return Measurement(
        samples=len(samples),
        median=statistics.median(samples),
        mean=statistics.fmean(samples),
        stddev=float(np.std(samples, ddof=1)) if len(samples) > 1 else 0.0,
        iqr=_interquartile_range(sorted(samples)),
        min=min(samples),
        max=max(samples),
        code=(facts.identity and facts.identity.code) or "",
        work=digest_of_work(facts.identity),
        **{name: getattr(facts, name) for name in names},
    )


def _interquartile_range(samples: Sequence[float]) -> float:
    """Return the range as pytest-benchmark computes it: by methods 2 and 3 of Wikipedia's page on quartiles."""
    quarter, rest = divmod(len(samples), 4)
    if len(samples) == 1:
        return 0.0
    if rest % 2 == 0:
        half = len(samples) // 2
        return statistics.median(samples[half:]) - statistics.median(samples[:half])
    below, above = (quarter - 1, 3 * quarter + 1) if rest == 1 else (quarter + 1, 3 * quarter + 1)
    inner, outer = (quarter, 3 * quarter) if rest == 1 else (quarter, 3 * quarter + 2)
    return 0.75 * (samples[outer] - samples[inner]) + 0.25 * (samples[above] - samples[below])


def cause_of(sentence: str, explained: Explained) -> Cause:
    """Return an explanation with its figures."""
    return Cause(
        sentence=sentence,
        causes=explained.causes,
        figures=explained.figures,
        besides=explained.besides,
        note=explained.note,
    )


def _test(test: TestRecord) -> TestEntry:
    return TestEntry(
        id=test.id,
        outcome=test.outcome,
        seconds=test.seconds,
        launched=test.launched,
        message=test.reason,
        again=test.again,
    )


def _faults(tests: Iterable[TestRecord], root: Path) -> tuple[FaultEntry, ...]:
    declared = {test.id: test.declared for test in tests}
    every = merged((fault, test.id) for test in tests for fault in test.faults)
    return tuple(_fault(fault, names, declared[names[0]], root) for fault, names in every)


def _fault(fault: Fault, tests: tuple[str, ...], declared: Place, root: Path) -> FaultEntry:
    return FaultEntry(
        kind=fault.kind,
        message=fault.place.message,
        kernel=fault.kernel,
        in_source=fault.in_source,
        place=_location(fault.place, root),
        others=tuple(filter(None, (_location(other, root) for other in fault.others))),
        declaration=_location(declared, root),
        elements=fault.elements,
        tests=tests,
    )


def _location(place: Place, root: Path) -> Location | None:
    """Return a place with its file relative to the repository, where it lies in it; None where it is unknown."""
    if not place.file:
        return None
    path = Path(place.file)
    file = str(path.relative_to(root)) if path.is_relative_to(root) else place.file
    return Location(file=file, line=place.line, message=place.message, thread=place.thread, block=place.block)


def _not_checked(record: RunRecord) -> tuple[NotChecked, ...]:
    """List what a run did not check, compare or run, by the reason."""
    reasons: dict[str, list[str]] = {reason: list(names) for reason, names in record.left_out.items()}
    for test in record.tests:
        if test.outcome in (Outcome.SKIPPED, Outcome.EXPECTED, Outcome.INTERRUPTED):
            why = test.reason.partition("\n")[0]
            reason = why if test.outcome == Outcome.SKIPPED else ": ".join(filter(None, [str(test.outcome), why]))
            reasons.setdefault(reason, []).append(test.id)
    for name, decision in record.decisions.items():
        if decision.verdict in (Verdict.NEW, Verdict.MISSING, Verdict.INCOMPARABLE):
            reason = ": ".join(filter(None, [f"not compared: {decision.verdict}", decision.reason]))
            reasons.setdefault(reason, []).append(name)
    if record.missing:
        reasons.setdefault(MISSING, []).extend(record.missing)
    return tuple(NotChecked(reason=reason, names=tuple(names)) for reason, names in reasons.items())


# The file


def unwritable(path: Path) -> str:
    """Say why a file cannot be written, before a run begins; empty where it can."""
    try:
        target = replaced(path)
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}"
    if target and not target.parent.is_dir():
        return f"{path} cannot be written: there is no folder {path.parent}"
    if target and not os.access(target if target.exists() else target.parent, os.W_OK):
        return f"{path} cannot be written: you may not write to {target}"
    return ""


def encoded(document: Document) -> bytes:
    """Return a document as JSON in lines."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the document."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | msgspec.json.schema(Document)
