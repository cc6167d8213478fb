"""The record of a run: its types, the form in which it is written, and its only reader.

It is part of the file that pytest-benchmark saves (files.py writes it), or a file of its own (--warpwatch-record).
Reading is the one edge where a file's content is checked, by msgspec. It fills plain frozen dataclasses, is strict (a
boolean, a text, NaN or an infinity is not a number), names the place of what is wrong, takes 34 ms for 900 cases of 100
samples, and has no dependencies; pydantic is as quick, and brings four packages. A ``RunRecord`` is checked then: every
time lies between SHORTEST and LONGEST, every text can be printed on one line, every count can be printed and
divided. Unknown fields are ignored, so that files of later versions can be read.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from warpwatch.catalogue.collector import without_collector
from warpwatch.devices.compile.compiler import CompileError, nvcc
from warpwatch.devices.info import DeviceInfo
from warpwatch.runs.explained import Explained
from warpwatch.runs.faults import UNPRINTABLE, Fault, Place
from warpwatch.runs.faults import Text as Text  # noqa: PLC0414  # users import it from here
from warpwatch.runs.files import LARGEST, read_content, run_files
from warpwatch.runs.identity import Identity
from warpwatch.runs.launched import LaunchedKernel
from warpwatch.verdict.contracts import Clause
from warpwatch.verdict.other_data import DataEffect
from warpwatch.verdict.rule import Decision, Verdict
from warpwatch.verdict.totals import Total

NO_GPU = "no-gpu"
# A run that differs from its baseline in one of these cannot be compared with it.
SETTINGS: Mapping[str, str] = {"slug": "GPU", "driver": "driver", "cache": "cache mode", "toolkit": "CUDA toolkit"}
SHORTEST, LONGEST = 1e-12, 1e9  # seconds of a sample: ratios and their logarithms stay far from overflow

VERSION = 1  # of what a run records beside pytest-benchmark's own; 0: it recorded no decisions and no tests
FolderName = Annotated[str, Meta(pattern=rf"^(?![.])[^/\\{UNPRINTABLE}]*\Z", max_length=100)]
Lines = Annotated[str, Meta(pattern=rf"^([^{UNPRINTABLE}]|[\n\t])*\Z", max_length=2**20)]
Seconds = Annotated[float, Meta(ge=SHORTEST, le=LONGEST)]
Share = Annotated[float, Meta(ge=0, le=1e6)]
Figure = Annotated[float, Meta(ge=1e-30, le=1e30)]  # seconds, joules or a ratio: logarithms stay far from overflow
Limited = Annotated[float, Meta(ge=0, le=1e30)]
Samples = Annotated[tuple[Seconds, ...], Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Megahertz = Annotated[int, Meta(ge=0, le=10**6)]
Joules = Annotated[float, Meta(ge=0, le=1e9)]
Clock = Annotated[float, Meta(gt=0, le=10**6)]  # in MHz
Rate = Annotated[float, Meta(ge=0, le=1e18)]
Moment = datetime  # the field ``datetime`` hides the type's own name
Compiling = Annotated[float, Meta(ge=0, le=LONGEST)]  # seconds of processor time
T = TypeVar("T")


LONG_AGO = datetime.min.replace(tzinfo=UTC)  # when a run was measured that does not say it


class BadRun(ValueError):
    """Raised when a file is not a readable run; the message names the file and what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Samples of both sides of a case that was measured in pairs: a tuple for each process, two samples a turn.

    ``old_mhz``, ``new_mhz``: the mean SM clock of each sample, of all processes or of none; empty in one without them.
    ``old_joules``, ``new_joules``, ``old_host_seconds``, ``new_host_seconds``: energies of a launch, and the host's
    times of one, where they were measured.
    """

    old: tuple[Samples, ...]
    new: tuple[Samples, ...]
    old_mhz: tuple[tuple[Clock, ...], ...] = ()
    new_mhz: tuple[tuple[Clock, ...], ...] = ()
    old_joules: tuple[tuple[Joules, ...], ...] = ()
    new_joules: tuple[tuple[Joules, ...], ...] = ()
    old_host_seconds: tuple[tuple[Seconds, ...], ...] = ()
    new_host_seconds: tuple[tuple[Seconds, ...], ...] = ()

    def __post_init__(self) -> None:
        lengths = [[len(samples) for samples in side] for side in (self.old, self.new)]
        if lengths[0] != lengths[1] or any(length % 2 for length in lengths[0]):
            raise ValueError("both sides need the same processes, and as many samples in each, two a turn")


@dataclass(frozen=True, kw_only=True)
class BuildCost:
    """Machine code of a build in bytes, and processor time of its compilers, on both sides.

    Bytes are 0, and seconds are None, where they are unknown: of PTX, and of what was compiled by an earlier run.
    """

    old_bytes: Count = 0
    new_bytes: Count = 0
    old_seconds: Compiling | None = None
    new_seconds: Compiling | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Facts that are recorded beside a case's samples. A fact that older runs do not have is None, empty or 0."""

    cache: Text = ""  # cold, warm or host
    how: Text = ""  # how its time was read: empty by events, or as the slope of wall time
    launch_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.0  # the host's, of an empty kernel, where that is a limit
    seed: Count = 0  # which inputs that differed in each launch were drawn by
    identity: Identity | None = None  # what decides the case's work
    image_hash: Text | None = None
    other_image_hash: Text = ""  # of the other side of its pairs
    source_hash: Text = ""
    grid: tuple[Count, ...] | None = None
    dynamic_shared_bytes: Count | None = None
    library: Text | None = None
    launches: tuple[Text, ...] = ()  # of a call, in words and in order: kernels, copies and fills
    kernels: tuple[LaunchedKernel, ...] = ()  # of these launches, with their figures and machine code
    shared_bytes: Count = 0
    registers: Count = 0
    fallback: Text = ""
    prints: bool = False  # to printf's buffer, in whose time the machine has a part
    sm_clock_mhz: tuple[Megahertz, ...] = ()  # before and after; 0 where unknown
    throttle: tuple[tuple[Text, ...], ...] = ()  # before and after
    other_processes: tuple[Text, ...] = ()  # at work on the GPU before or after
    pairs: Sides | None = None
    threshold: Share = 0.0  # smaller changes of its time are not called slower or faster
    gpu_uuid: Text = ""  # of a run on several GPUs: which of them it was
    verdict: Text = ""  # in runs of version 0: what the run concluded
    explanation: Text = ""  # in runs of version 0: the likely cause of that verdict
    again: tuple[Samples, ...] = ()  # samples of further processes, where the case was measured again
    local_bytes: Count = 0
    code_bytes: Count = 0  # of the build's machine code
    compile_seconds: Compiling | None = None  # processor time of its compilers; None where it was in the cache
    threads: Count = 0  # that a block may have at most
    occupancy: Annotated[float, Meta(ge=0, le=1)] | None = None
    operations: Count = 0
    bytes: Count = 0
    joules: Joules | None = None  # energy of a launch
    watts: Annotated[float, Meta(ge=0, le=1e9)] | None = None  # mean power while its energy was measured
    host_seconds: Seconds | None = None  # the host's, of a launch: median
    host_iqr: Annotated[float, Meta(ge=0, le=LONGEST)] | None = None  # their interquartile range
    graph_seconds: Seconds | None = None  # of a launch in a CUDA graph of many
    graph_of_one_seconds: Seconds | None = None  # of a graph that is one launch
    allocated_bytes: Count = 0  # by a call, in each launch
    places: Count = 0  # copies of the arrays, which launches use in turn
    hold_timeouts: Count = 0  # samples that were thrown away, because the hold ran into its limit
    gflops: Rate = 0.0  # operations, 10^9 a second
    gbs: Rate = 0.0  # gigabytes a second
    share: Share | None = None  # of the reference's rate
    overhead: Annotated[float, Meta(ge=0, le=1)] = 0.0  # seconds of each sample that are not the kernel's
    remarks: tuple[Text, ...] = ()  # what its reader should know, and no verdict rests on
    data: Mapping[Text, DataEffect] = field(default_factory=dict)  # by kind, where other data were timed too
    bits: Text = ""  # a digest of the results, where the same bits are required

    @property
    def way(self) -> tuple[str, int]:
        """The way in which its time was read, and in how many places its arrays lay (0: unknown).

        Where large arrays lie changes the time of a kernel that strides through them by up to 20 % (H200).
        """
        return self.how, self.places


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRecord:
    """Case of a saved run: its samples in seconds, at least one, and the facts beside them."""

    samples: tuple[float, ...]
    facts: Facts


class Outcome(StrEnum):
    """Outcomes of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXPECTED = "failed as expected"
    INTERRUPTED = "interrupted"


class TestRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A test of a run.

    ``id``: pytest's node id. ``case``: id of its case or build, where it is of one, and ``kernel``: family and variant.
    ``reason``: message of a failure, or why it was skipped. ``launched``: a kernel ran. ``place``: where the kernel
    begins, or else the test. ``declared``: where its family is. ``faults``: at least one of a failed test. ``again``:
    the command that runs it once more. ``remarks``: what its reader should know, and the outcome does not rest on.
    """

    __test__ = False  # pytest would take it for a class of tests

    id: Text
    outcome: Outcome
    case: Text = ""
    kernel: Text = ""
    reason: Lines = ""
    seconds: Annotated[float, Meta(ge=0, le=LONGEST)] = 0.0
    launched: bool = False
    place: Place = Place()
    declared: Place = Place()
    faults: tuple[Fault, ...] = ()
    again: Text = ""
    remarks: tuple[Text, ...] = ()

    @property
    def name(self) -> str:
        return self.id.partition("::")[2] or self.id


@dataclass(frozen=True, kw_only=True)
class RecordedDecision(Decision):
    """A decision as a run recorded it: its figures are finite, its texts can be printed on a line."""

    before: Figure = math.nan
    after: Figure = math.nan
    ratio: Figure = math.nan
    low: Figure = math.nan
    high: Figure = math.nan
    floor: Share = math.nan
    processes: Count = 0
    reason: Text = ""
    explanation: Text = ""
    decided_by: Text = ""


@dataclass(frozen=True, kw_only=True)
class RecordedClause(Clause):
    """A limit of a contract as a run recorded it: its figures are finite, its texts can be printed on a line."""

    name: Text
    limit: Limited
    figure: Limited | None = None
    low: Limited | None = None
    high: Limited | None = None
    processes: Count = 0
    reason: Text = ""
    since: Text = ""
    next: Text = ""


@dataclass(frozen=True, kw_only=True)
class RecordedTotal(Total):
    """A weighted total as a run recorded it: its figures are finite, its texts can be printed on a line."""

    before: Figure | None = None
    after: Figure | None = None
    ratio: Figure | None = None
    low: Figure | None = None
    high: Figure | None = None
    mean: Figure | None = None
    mean_low: Figure | None = None
    mean_high: Figure | None = None
    shares: Mapping[Text, Share] = field(default_factory=dict)
    reason: Text = ""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """GPU that a run was measured on, and how. All fields are empty where there was none."""

    slug: FolderName = ""
    name: Text = ""
    uuid: Text = ""
    driver: Text = ""
    toolkit: Text = ""
    cache: Text = ""  # cold or warm
    note: Text = ""  # what a reader of its times must know
    peak_bytes_per_second: Rate = 0.0
    capability: Text = ""
    multiprocessors: Count = 0
    memory_bytes: Count = 0
    l2_bytes: Count = 0
    cuda: Text = ""  # version of the driver's API
    coldness: Rate = 0.0  # time to read half of L2 after a scrub, over that without one
    overhead: Annotated[float, Meta(ge=0, le=1)] = 0.0  # seconds that events read with nothing between them
    remarks: tuple[Text, ...] = ()  # on clocks, cooling and host
    uuids: tuple[Text, ...] = ()  # of a run on several GPUs


def facts_of(device: DeviceInfo) -> dict[str, Any]:
    """Return what is recorded of a device that nothing is timed on: fields of ``Gpu``."""
    names = ("name", "slug", "driver", "note", "multiprocessors", "memory_bytes", "l2_bytes", "peak_bytes_per_second")
    facts = {name: getattr(device, name) for name in names} | {"capability": str(device.capability)}
    with contextlib.suppress(CompileError):
        facts["toolkit"] = nvcc(device.target.program).version
    return facts


@dataclass(frozen=True, kw_only=True)
class Commit:
    """Git revision that was measured. ``dirty`` is None where the file does not say."""

    id: Text = ""
    dirty: bool | None = None

    def __str__(self) -> str:
        return (self.id or "unknown")[:12] + ("+" if self.dirty else "")


@dataclass(frozen=True, kw_only=True)
class _RunFacts:
    """Facts that a run records of itself.

    ``failed``: cases that were wrong or could not run; ``slower``: cases called slower. ``against``: the commit that it
    was measured side by side with, if it was. ``decisions``: the verdict of each case that was compared, and of each
    that could not be; ``energies``, ``hosts``: of the energies of cases, and of the host's times; ``controls``:
    verdicts of cases of the same work that were measured all the same. ``tests``: in a saved benchmark those that did
    not pass, in another record all. ``missing``: cases that the other side has and a whole run had not. ``past``: the
    files of the runs that it was compared with. ``notes``: what holds for the comparison as a whole; ``alarm``: what
    changed for all cases together. ``contracts``: how cases stand to their limits. ``totals``: weighted ones, by build.
    ``costs``: of builds whose work differs from the other revision's, and of all those that another toolchain compiles.
    ``nothing``: says that nothing was compared, tested or measured. ``settings``: options of this run by name.
    ``explained``: why cases are slower or faster. ``next``: what to do after the run; ``next_steps``: after a case's
    verdict. In a record of its own: ``remarks``: on the run; ``left_out``: cases or tests that the run did not have, by
    the reason; ``exit_status``: pytest's.
    """

    version: int = 0
    whole: bool = False
    failed: tuple[Text, ...] = ()
    slower: tuple[Text, ...] = ()
    against: Text = ""
    decisions: Mapping[Text, Decision] = field(default_factory=dict)
    energies: Mapping[Text, Decision] = field(default_factory=dict)
    hosts: Mapping[Text, Decision] = field(default_factory=dict)
    controls: Mapping[Text, Text] = field(default_factory=dict)
    contracts: Mapping[Text, tuple[Clause, ...]] = field(default_factory=dict)
    totals: Mapping[Text, Total] = field(default_factory=dict)
    tests: Sequence[TestRecord] = ()
    costs: Mapping[Text, BuildCost] = field(default_factory=dict)
    missing: Sequence[Text] = ()
    past: Sequence[Text] = ()
    notes: Sequence[Text] = ()
    alarm: Text = ""
    nothing: Sequence[Text] = ()
    settings: Mapping[Text, Text] = field(default_factory=dict)
    explained: Mapping[Text, Explained] = field(default_factory=dict)
    next: Sequence[Text] = ()
    next_steps: Mapping[Text, Text] = field(default_factory=dict)
    remarks: Sequence[Text] = ()
    left_out: Mapping[Text, Sequence[Text]] = field(default_factory=dict)
    exit_status: int | None = 0


@dataclass(frozen=True, kw_only=True)
class About(_RunFacts):
    """Facts of a run as its file has them, under ``warpwatch``: their figures and texts are checked."""

    decisions: Mapping[Text, RecordedDecision] = field(default_factory=dict)
    energies: Mapping[Text, RecordedDecision] = field(default_factory=dict)
    hosts: Mapping[Text, RecordedDecision] = field(default_factory=dict)
    contracts: Mapping[Text, tuple[RecordedClause, ...]] = field(default_factory=dict)
    totals: Mapping[Text, RecordedTotal] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunRecord(_RunFacts):
    """Record of a run: of a benchmark that was saved, or of any run of pytest (--warpwatch-record).

    ``cases``: those that were timed, by id. ``when``: in UTC. ``problems``: what is wrong with each case that was left
    out.
    """

    path: Path
    gpu: Gpu = field(default_factory=Gpu)
    cases: Mapping[str, CaseRecord] = field(default_factory=dict)
    commit: Commit = field(default_factory=Commit)
    when: datetime | None = None
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """Name of the GPU as a folder is named."""
        return self.gpu.slug or NO_GPU

    @property
    def gpu_uuid(self) -> str:
        return self.gpu.uuid

    @property
    def day(self) -> str:
        """Day on which it was measured, in words."""
        return self.when.date().isoformat() if self.when else "no known day"

    def is_slower(self, test: TestRecord) -> bool:
        """Tell whether a test failed for its case's time alone."""
        decision = self.decisions.get(test.case)
        return test.outcome == Outcome.FAILED and decision is not None and decision.verdict == Verdict.SLOWER

    def setting(self, name: str) -> str:
        """Return a setting as it is compared: of driver and toolkit, the major version alone."""
        if name == "slug":
            return self.slug
        value: str = getattr(self.gpu, name)
        return value.split(".", maxsplit=1)[0] if name in ("driver", "toolkit") else value


@dataclass(frozen=True, kw_only=True)
class _Machine:
    gpu: Gpu = field(default_factory=Gpu)


@dataclass(frozen=True, kw_only=True)
class _Document(Generic[T]):
    benchmarks: list[T]
    machine_info: _Machine = field(default_factory=_Machine)
    commit_info: Commit = field(default_factory=Commit)
    warpwatch: About = field(default_factory=About)
    datetime: Moment | None = None


@dataclass(frozen=True, kw_only=True)
class _Named:
    param: Text | None = None
    name: Text | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stats(Generic[T]):
    data: T


@dataclass(frozen=True, kw_only=True)
class _Entry:
    stats: _Stats[list[Any]]
    extra_info: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _GoodEntry:
    param: Text | None = None
    name: Text | None = None
    stats: _Stats[Samples]
    extra_info: Facts


_read_good = msgspec.json.Decoder(_Document[_GoodEntry], strict=True).decode


def read_document(path: Path) -> Any:
    """Read a JSON file, which may be compressed by xz. Raises BadRun."""
    return _document(path, _content(path))


def _content(path: Path) -> bytes:
    try:
        content = read_content(path)
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise BadRun(f"{path}: cannot be read ({error})") from None
    if len(content) > LARGEST:
        raise BadRun(f"{path}: holds more than {LARGEST:,} bytes, and no run does")
    return content


def _document(path: Path, content: bytes) -> Any:
    try:
        return json.loads(content.decode())
    except UnicodeDecodeError as error:
        raise BadRun(f"{path}: cannot be read ({error})") from None
    except RecursionError:
        raise BadRun(f"{path}: is nested too deeply to be a run") from None
    except ValueError as error:
        raise BadRun(f"{path}: is not whole JSON ({error})") from None


def typed(value: Any, kind: type[T]) -> T:
    """Convert what a file holds to ``kind``. Raises ValueError, which says what is wrong and where."""
    return msgspec.convert(value, kind, strict=True)


def read_run(path: Path, tolerant: bool = False) -> RunRecord:
    """Read a run that pytest-benchmark saved; the file may be compressed by xz.

    Raises BadRun; if ``tolerant``, a bad case costs only that case.
    """
    return parse_run(path, _content(path), tolerant)


def parse_run(path: Path, content: bytes, tolerant: bool = False) -> RunRecord:
    """Read a run as ``read_run`` does. ``content``: of its file."""
    with contextlib.suppress(ValueError, OverflowError, RecursionError):  # all at once, three times as fast
        good = _read_good(content)
        named = {entry.param or entry.name or "": entry for entry in good.benchmarks}
        if len(named) == len(good.benchmarks) and "" not in named:
            cases = {
                name: CaseRecord(samples=entry.stats.data, facts=entry.extra_info) for name, entry in named.items()
            }
            return _run(path, good, cases, {})
    document = _document(path, content)
    if not isinstance(document, dict) or not isinstance(document.get("benchmarks"), list):
        raise BadRun(f"{path}: is not a run of pytest-benchmark (it has no list of benchmarks)")
    try:
        read = typed(document, _Document[Any])
        cases, problems = _read_cases(path, read.benchmarks)
        run = _run(path, read, cases, problems)
    except (ValueError, OverflowError) as error:
        raise BadRun(f"{path}: is not a run of this suite ({error})") from None
    if problems and not tolerant:
        raise BadRun(next(iter(problems.values())))
    return run


def _run(path: Path, read: _Document[Any], cases: Mapping[str, CaseRecord], problems: Mapping[str, str]) -> RunRecord:
    about = {each.name: getattr(read.warpwatch, each.name) for each in fields(About)}
    return RunRecord(
        path=path,
        gpu=read.machine_info.gpu,
        cases=cases,
        commit=read.commit_info,
        when=read.datetime and _in_utc(read.datetime),
        problems=problems,
        **about | {"decisions": about["decisions"] or _verdicts_alone(cases)},
    )


def _verdicts_alone(cases: Mapping[str, CaseRecord]) -> dict[str, Decision]:
    """Return the verdicts of a run of version 0, which recorded no figures beside them."""
    facts = {name: case.facts for name, case in cases.items() if case.facts.verdict in set(Verdict)}
    return {n: Decision(verdict=Verdict(f.verdict), explanation=f.explanation) for n, f in facts.items()}


def recorded(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of ``About`` as they are written: what is known, and those of version 0 in any case."""
    known = {name: value for name, value in about.items() if value or name in ("failed", "slower", "whole", "against")}
    return {"version": VERSION} | {name: _plain(value) for name, value in known.items()}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it. A figure of a decision that is not known is left out, as JSON has no NaN."""
    if isinstance(value, Decision):
        pairs = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: _plain(v) for f, v in pairs if v != f.default and not (isinstance(v, float) and math.isnan(v))}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return msgspec.to_builtins(value)


def _in_utc(when: datetime) -> datetime:
    """Convert a moment to UTC, which is assumed where no zone is named. Raises OverflowError near year 1 or 9999."""
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def _read_cases(path: Path, entries: Sequence[Any]) -> tuple[dict[str, CaseRecord], dict[str, str]]:
    """Read the cases of a run, with a sentence for each that cannot be used."""
    cases: dict[str, CaseRecord] = {}
    problems: dict[str, str] = {}
    for index, entry in enumerate(entries):
        name = _name(entry)
        key = name or f"benchmarks[{index}]"
        try:
            timed = _read_case(name or "a benchmark", entry)
            if not name:
                raise ValueError(f"{key} has no name")
            if name in cases:
                raise ValueError(f"lists {name} twice")
            cases[name] = timed
        except ValueError as error:
            problems[key] = f"{path}: {error}"
    return {name: timed for name, timed in cases.items() if name not in problems}, problems


def _name(entry: Any) -> str:
    """Id of a case, or the name of a benchmark without parameters; empty where it has none."""
    try:
        named = typed(entry, _Named)
    except ValueError:
        return ""
    return named.param or named.name or ""


def _read_case(name: str, entry: Any) -> CaseRecord:
    try:
        read = typed(entry, _Entry)
    except ValueError as error:
        raise ValueError(f"{name} has no samples ({error}); save with --benchmark-save-data") from None
    try:
        samples = typed(read.stats.data, Samples)
    except ValueError as error:
        wrong = f"NaN, infinite, zero or negative, no number, or none: {error}"
        raise ValueError(f"{name} has samples that are no times ({wrong})") from None
    try:
        return CaseRecord(samples=samples, facts=typed(read.extra_info, Facts))
    except ValueError as error:
        raise ValueError(f"{name} has an extra_info that cannot be used ({error})") from None


def read_runs(folder: Path) -> list[RunRecord]:
    """Read every run in a folder, in the order of their names. Raises BadRun."""
    return [read_run(path) for path in run_files(folder)]


def by_gpu(run: RunRecord) -> list[RunRecord]:
    """Split a run on several GPUs into a run for each of them, with its cases; a run on one GPU stays as it is."""
    owners = {name: timed.facts.gpu_uuid or run.gpu_uuid for name, timed in run.cases.items()}
    uuids = list(dict.fromkeys(owners.values()))
    if uuids in ([], [run.gpu_uuid]):
        return [run]
    return [
        replace(
            run,
            gpu=replace(run.gpu, uuid=uuid),
            cases={name: timed for name, timed in run.cases.items() if owners[name] == uuid},
            whole=run.whole and len(uuids) == 1,
        )
        for uuid in uuids
    ]


def by_uuid(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Sort runs by the UUID of their GPU. A run on several is split, because two of one model differ permanently."""
    own: dict[str, list[RunRecord]] = {}
    for run in runs:
        for part in by_gpu(run):
            own.setdefault(part.gpu_uuid, []).append(part)
    return own


def read_usable(paths: Sequence[Path]) -> tuple[list[RunRecord], list[str]]:
    """Read the runs that can be read, with a sentence for each file or case that cannot.

    A file of several GPUs gives a run for each of them.

    Raises BadRun where there are files and none can be read.
    """
    runs: list[RunRecord] = []
    problems: list[str] = []
    # A year of nights is millions of objects, and none of them is garbage.
    with without_collector(), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:  # to unpack leaves Python free
        for read in pool.map(_attempt, paths):
            if isinstance(read, BadRun):
                problems.append(str(read))
                continue
            problems += read.problems.values()
            runs += by_gpu(read)
    if problems and not runs:
        raise BadRun(problems[0])
    return runs, problems


def _attempt(path: Path) -> RunRecord | BadRun:
    try:
        return read_run(path, tolerant=True)
    except BadRun as error:
        return error
