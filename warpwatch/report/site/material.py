"""Gathers what the site shows: the newest run with each case of it, the nights before, the baseline, the self-check."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from statistics import median

from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.names import BadCase, split_id
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.history import Cause, Step, common_effects, find_steps
from warpwatch.compare.saved_self_check import Checked, path_of, read
from warpwatch.compare.saved_verdicts import Verdicts, verdicts_of
from warpwatch.report.ladder import share
from warpwatch.report.tables import kernel_times
from warpwatch.runs.files import run_files
from warpwatch.runs.record import LONG_AGO, BadRun, CaseRecord, RunRecord, read_run, read_usable
from warpwatch.verdict.process_effects import ProcessEffect
from warpwatch.verdict.rule import Decision, Verdict

HOST = "serial"
NOT_COMPARED = "not compared"
FAILED = "failed"
MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Roof:
    """Limits of a roofline: the memory's peak in bytes a second, and the highest rate that was measured."""

    bytes_per_second: float
    rate: float
    of: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Case of today's run, or one that is missing from it.

    ``verdict``: that of ``decision``, or why there is none. ``seconds``: the median, and ``own_seconds`` that without
    the fixed overhead of events; 0 where there is none. ``operations``, ``bytes``: the least work of a launch.
    ``share``: of the reference.
    """

    id: str
    family: str
    variant: str
    block: str
    shape: str
    dtype: str
    verdict: str
    seconds: float
    own_seconds: float
    timed: CaseRecord | None
    case: Case | None
    decision: Decision | None
    operations: int
    bytes: int
    share: float | None

    @cached_property
    def page(self) -> str:
        """Path of its page: its id where that is a plain file name."""
        plain = re.fullmatch(r"[\w-][\w.+-]{0,150}", self.id, re.ASCII)
        return f"c/{self.id if plain else f'{zlib.crc32(self.id.encode()):08x}'}.html"

    @property
    def on_host(self) -> bool:
        return self.verdict == HOST

    @property
    def is_library(self) -> bool:
        """True for a call, such as a vendor's library."""
        return self.case is not None and self.case.variant.call is not None

    @property
    def unit(self) -> str:
        return "Gop/s" if self.operations and self.dtype.startswith("int") else "GFLOP/s" if self.operations else "GB/s"

    @property
    def rate(self) -> float | None:
        """Rate in units a second (``unit``), or None where work or time is unknown."""
        work = self.operations or self.bytes
        return work / self.own_seconds / 1e9 if work and self.own_seconds else None

    @property
    def intensity_and_rate(self) -> tuple[float, float] | None:
        """Operations a byte and operations a second; None where they are unknown, and on the host."""
        known = self.operations and self.bytes and self.own_seconds and not self.on_host
        return (self.operations / self.bytes, self.operations / self.own_seconds) if known else None

    @cached_property
    def ratio(self) -> float | None:
        """Time now over time before; None where the two were not compared."""
        compared = self.decision is not None and self.decision.ratio == self.decision.ratio  # not NaN
        return self.decision.ratio if self.decision and compared else None


@dataclass(frozen=True, kw_only=True)
class Material:
    """Everything that the pages are made of.

    ``today``: the newest of the given runs, with all its samples. ``nights``: those of which there is a history, oldest
    first, ``today`` among them; each case has its median alone. ``steps``: lasting changes in them, those of the
    environment last. ``effects``: what each of them did to every case. ``problems``: sentences on files and cases that
    were left out.
    """

    project: Project
    today: RunRecord
    verdicts: Verdicts
    baseline: Sequence[RunRecord]
    nights: Sequence[RunRecord]
    steps: Sequence[Step]
    effects: Sequence[ProcessEffect]
    checked: Checked | None
    problems: Sequence[str]

    @classmethod
    def gather(cls, project: Project, paths: Iterable[Path]) -> Material:
        """Read runs, and beside them the baseline and the self-check of their GPU. Raises BadRun."""
        newest, runs, problems = _read_nights(paths)
        nights, left_out = _with_history(newest, runs)
        baseline: list[RunRecord] = []
        if not newest.against:
            baseline, bad = read_usable(run_files(project.baselines / newest.slug))
            left_out += bad
        check = path_of(newest.slug, project.baselines)
        return cls(
            project=project,
            today=newest,
            verdicts=verdicts_of(newest, baseline),
            baseline=baseline,
            nights=nights,
            steps=sorted(find_steps(nights), key=lambda step: step.cause == Cause.ENVIRONMENT),
            effects=common_effects(nights),
            checked=read(check) if check.exists() else None,
            problems=[*problems, *left_out],
        )

    @cached_property
    def kernel_steps(self) -> Sequence[Step]:
        """Lasting changes that may be a kernel's."""
        return [step for step in self.steps if step.cause != Cause.ENVIRONMENT]

    @cached_property
    def numbers(self) -> Mapping[Path, int]:
        """Place of each night in the history, from which links are made."""
        return {run.path: i for i, run in enumerate(self.nights)}

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """Cases of today's run, those that failed in it and those that are missing, in the catalogue's order."""
        known = {case.id: case for case in timed_cases(self.project.families)}
        names = dict.fromkeys([*self.today.cases, *self.today.failed, *self.verdicts.missing])
        for name in {*self.today.cases, *self.verdicts.missing} - known.keys():
            try:
                known[name] = find_case(self.project.families, name)
            except BadCase:  # renamed or taken away since
                continue
        order, times = {name: i for i, name in enumerate(known)}, kernel_times([self.today])
        shown = [self._entry(name, known, times) for name in names]
        return sorted(shown, key=lambda entry: (order.get(entry.id, len(order)), entry.id))

    def _entry(self, name: str, known: Mapping[str, Case], times: Mapping[str, float]) -> Entry:
        timed, case, decision = self.today.cases.get(name), known.get(name), self.verdicts.decisions.get(name)
        facts = timed.facts if timed else None
        if name in self.today.failed:
            verdict = FAILED
        elif facts is None:
            verdict = MISSING
        elif facts.cache == "host":
            verdict = HOST
        else:
            verdict = str(decision.verdict) if decision else NOT_COMPARED
        try:
            family, variant, block, shape, dtype = split_id(name)
        except BadCase:
            family, variant, block, shape, dtype = "other", name, "", "", ""
        work = case.work if case else facts
        return Entry(
            id=name,
            family=family,
            variant=variant,
            block=block,
            shape=shape,
            dtype=dtype,
            verdict=verdict,
            seconds=median(timed.samples) if timed else 0.0,
            own_seconds=times.get(name, 0.0),
            timed=timed,
            case=case,
            decision=decision,
            operations=work.operations if work else 0,
            bytes=work.bytes if work else 0,
            share=share(known, case, times) if case else None,
        )

    @cached_property
    def roofs(self) -> Mapping[str, Roof]:
        """The roof of each element type: the memory's peak, and the highest rate that any case of it reached."""
        peak, roofs = self.today.gpu.peak_bytes_per_second, dict[str, Roof]()
        for entry in self.entries if peak else ():
            point = entry.intensity_and_rate
            if point and (entry.dtype not in roofs or point[1] > roofs[entry.dtype].rate):
                roofs[entry.dtype] = Roof(bytes_per_second=peak, rate=point[1], of=entry.id)
        return roofs


def _read_nights(paths: Iterable[Path]) -> tuple[RunRecord, list[RunRecord], list[str]]:
    """Read the newest run whole and all of them without samples, oldest first, with sentences on what was left out.

    Raises BadRun where none can be read, or where they are of several GPU models.
    """
    newest: RunRecord | None = None
    nights: list[RunRecord] = []
    problems: list[str] = []
    for path in dict.fromkeys(paths):
        try:
            run = read_run(path, tolerant=True)
        except BadRun as error:
            problems.append(str(error))
            continue
        problems += run.problems.values()
        if not run.cases:
            problems.append(f"{path}: holds no case that can be used")
            continue
        newest = newest or run
        if run.slug != newest.slug:
            raise BadRun(
                f"{path}: is of {run.slug}, and {newest.path} of {newest.slug}: give the runs of one GPU model"
            )
        nights.append(_without_samples(run))
        newest = max(run, newest, key=_moment)  # of two at once the later one
    if newest is None:
        raise BadRun(problems[0] if problems else "no run was given")
    return newest, sorted(nights, key=_moment), problems


def _moment(run: RunRecord) -> datetime:
    return run.when or LONG_AGO


def _without_samples(run: RunRecord) -> RunRecord:
    """Return a run with medians in place of samples and verdicts without figures: a hundred runs fill the memory."""
    cases = {
        name: CaseRecord(samples=(median(timed.samples),), facts=replace(timed.facts, again=(), pairs=None))
        for name, timed in run.cases.items()
    }
    words = {verdict: Decision(verdict=verdict) for verdict in Verdict}
    return replace(run, cases=cases, decisions={name: words[each.verdict] for name, each in run.decisions.items()})


def _with_history(newest: RunRecord, nights: Sequence[RunRecord]) -> tuple[list[RunRecord], list[str]]:
    """Select what has a history in common with the newest run, with sentences on the rest.

    Of every run only the cases count that the newest run's GPUs measured: two GPUs of one model differ permanently.
    """
    chosen, problems, elsewhere = [], [], 0
    uuids = {timed.facts.gpu_uuid or newest.gpu_uuid for timed in newest.cases.values()}
    for run in nights:
        if run.against:
            why = f"was measured side by side with {run.against[:12]}, in fewer samples"
        elif run.setting("cache") != newest.setting("cache"):
            why = "was measured with another cache mode than the newest run"
        elif run.when is None:
            why = "does not say when it was measured"
        else:
            cases = {n: t for n, t in run.cases.items() if (t.facts.gpu_uuid or run.gpu_uuid) in uuids}
            elsewhere += not cases
            chosen += [replace(run, cases=cases)] if cases else []
            continue
        problems.append(f"{run.path}: {why}, and is not part of the history")
    if elsewhere:
        runs = f"{elsewhere} runs are" if elsewhere > 1 else "1 run is"
        problems.append(f"{runs} of other GPUs of this model, and no part of the history of this one")
    return chosen, problems
