"""Gathers what the site shows: the newest run with each case of it, the nights before, the baseline, the self-check."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median

from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.names import BadCase, split_id
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.history import LONG_AGO, Step, find_steps
from warpwatch.compare.reference import on_gpu
from warpwatch.compare.saved_self_check import Checked, path_of, read
from warpwatch.compare.saved_verdicts import Verdicts, verdicts_of
from warpwatch.report.ladder import share
from warpwatch.runs.files import run_files
from warpwatch.runs.record import BadRun, CaseRecord, RunRecord, read_run, read_usable
from warpwatch.timing.timer import kernel_seconds
from warpwatch.verdict.process_effects import ProcessEffect, mean_of, process_effect
from warpwatch.verdict.rule import Decision, Verdict


@dataclass(frozen=True, kw_only=True)
class Material:
    """Everything that the pages are made of.

    ``today``: the newest of the given runs, with all its samples. ``nights``: those of which there is a history, oldest
    first, ``today`` among them; each case has its median alone. ``steps``: lasting changes in them. ``effects``: what
    each of them did to every case. ``problems``: sentences on files and cases that were left out.
    """

    project: Project
    today: RunRecord
    verdicts: Verdicts = field(default_factory=Verdicts)
    baseline: Sequence[RunRecord] = ()
    nights: Sequence[RunRecord] = ()
    steps: Sequence[Step] = ()
    effects: Sequence[ProcessEffect] = ()
    checked: Checked | None = None
    problems: Sequence[str] = ()

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        """The declared cases, and those of today's run that the catalogue still knows, by their ids."""
        known = {case.id: case for case in timed_cases(self.project.families)}
        for name in {*self.today.cases, *self.verdicts.missing} - known.keys():
            try:
                known[name] = find_case(self.project.families, name)
            except BadCase:  # renamed or taken away since
                continue
        return known

    @cached_property
    def medians(self) -> Mapping[str, float]:
        """Median of each case of today's run, in seconds."""
        return {name: median(timed.samples) for name, timed in self.today.cases.items()}

    @cached_property
    def kernel_times(self) -> Mapping[str, float]:
        """Seconds of each case without what a reading holds beside the kernel, for rates and shares."""
        cases = self.today.cases
        return {name: kernel_seconds(seconds, cases[name].facts.overhead) for name, seconds in self.medians.items()}


def without_samples(run: RunRecord) -> RunRecord:
    """Return a run with medians in place of samples and verdicts without figures: a hundred runs fill the memory."""
    cases = {
        name: CaseRecord(samples=(median(timed.samples),), facts=replace(timed.facts, again=(), pairs=None))
        for name, timed in run.cases.items()
    }
    words = {verdict: Decision(verdict=verdict) for verdict in Verdict}
    return replace(run, cases=cases, decisions={name: words[each.verdict] for name, each in run.decisions.items()})


def read_nights(paths: Iterable[Path]) -> tuple[RunRecord, list[RunRecord], list[str]]:
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
        if newest and run.slug != newest.slug:
            raise BadRun(
                f"{path}: is of {run.slug}, and {newest.path} of {newest.slug}: give the runs of one GPU model"
            )
        nights.append(without_samples(run))
        if newest is None or (run.when or LONG_AGO) >= (newest.when or LONG_AGO):
            newest = run
    if newest is None:
        raise BadRun(problems[0] if problems else "no run was given")
    nights.sort(key=lambda run: run.when or LONG_AGO)
    return newest, nights, problems


def with_history(newest: RunRecord, nights: Sequence[RunRecord]) -> tuple[list[RunRecord], list[str]]:
    """Select what has a history in common with the newest run, with sentences on the rest.

    Of every run only the cases count that the newest run's GPUs measured: two GPUs of one model differ permanently.
    """
    chosen, problems, elsewhere = [], [], 0
    uuids = gpus_of(newest)
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


def gpus_of(run: RunRecord) -> set[str]:
    """UUIDs of the GPUs that measured a run's cases."""
    return {timed.facts.gpu_uuid or run.gpu_uuid for timed in run.cases.values()}


def gather(project: Project, paths: Iterable[Path]) -> Material:
    """Read runs, and beside them the baseline and the self-check of their GPU. Raises BadRun."""
    newest, read_ones, problems = read_nights(paths)
    nights, left_out = with_history(newest, read_ones)
    baseline: list[RunRecord] = []
    if not newest.against:
        baseline, bad = read_usable(run_files(project.baselines / newest.slug))
        left_out += bad
    check = path_of(newest.slug, project.baselines)
    return Material(
        project=project,
        today=newest,
        verdicts=verdicts_of(newest, baseline),
        baseline=baseline,
        nights=nights,
        steps=find_steps(nights),
        effects=common_effects(nights),
        checked=read(check) if check.exists() else None,
        problems=[*problems, *left_out],
    )


def common_effects(nights: Sequence[RunRecord]) -> list[ProcessEffect]:
    """Estimate what each run did to every case, against the mean of all runs."""
    times = [{name: timed.samples[0] for name, timed in on_gpu(run).items()} for run in nights]
    shared = set.intersection(*map(set, times)) if times else set()
    centre = mean_of([{name: run[name] for name in run if name in shared} for run in times])
    return [process_effect(centre, run) for run in times]


HOST = "serial"
NOT_COMPARED = "not compared"
FAILED = "failed"
MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Case of today's run, or one that is missing from it.

    ``verdict``: that of ``decision``, or why there is none. ``own_seconds``: the median without the fixed overhead of
    events. ``operations``, ``bytes``: the least work of a launch. ``share``: of the reference.
    """

    id: str
    page: str
    family: str
    variant: str
    block: str
    shape: str
    dtype: str
    verdict: str
    seconds: float | None = None
    own_seconds: float | None = None
    timed: CaseRecord | None = None
    case: Case | None = None
    decision: Decision | None = None
    operations: int = 0
    bytes: int = 0
    share: float | None = None

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

    @cached_property
    def ratio(self) -> float | None:
        """Time now over time before; None where the two were not compared."""
        compared = self.decision is not None and self.decision.ratio == self.decision.ratio  # not NaN
        return self.decision.ratio if self.decision and compared else None


def page_of(name: str) -> str:
    """Path of a case's page: its id where that is a plain file name."""
    plain = re.fullmatch(r"[\w-][\w.+-]{0,150}", name, re.ASCII)
    return f"c/{name if plain else f'{zlib.crc32(name.encode()):08x}'}.html"


def names_of(name: str) -> tuple[str, str, str, str, str]:
    """Parts of an id; one that is of another form is a variant of no family."""
    try:
        return split_id(name)
    except BadCase:
        return "other", name, "", "", ""


def entries(material: Material) -> list[Entry]:
    """List the cases of today's run, those that failed in it and those that are missing, in the catalogue's order."""
    today = material.today
    order = {name: i for i, name in enumerate(material.cases)}
    names = dict.fromkeys([*today.cases, *today.failed, *material.verdicts.missing])
    shown = [_entry(material, name) for name in names]
    return sorted(shown, key=lambda entry: (order.get(entry.id, len(order)), entry.id))


def _entry(material: Material, name: str) -> Entry:
    timed, case = material.today.cases.get(name), material.cases.get(name)
    decision = material.verdicts.decisions.get(name)
    facts = timed.facts if timed else None
    if name in material.today.failed:
        verdict = FAILED
    elif facts is None:
        verdict = MISSING
    elif facts.cache == "host":
        verdict = HOST
    else:
        verdict = str(decision.verdict) if decision else NOT_COMPARED
    work = case.work if case else facts
    return Entry(
        id=name,
        page=page_of(name),
        **dict(zip(("family", "variant", "block", "shape", "dtype"), names_of(name), strict=True)),
        verdict=verdict,
        seconds=material.medians.get(name),
        own_seconds=material.kernel_times.get(name),
        timed=timed,
        case=case,
        decision=decision,
        operations=work.operations if work else 0,
        bytes=work.bytes if work else 0,
        share=share(material.cases, case, material.kernel_times) if case else None,
    )


def of_family(entries: Sequence[Entry], family: str, dtype: str = "") -> list[Entry]:
    """Select the measured cases of a family, and of an element type."""
    return [e for e in entries if e.family == family and e.seconds and dtype in ("", e.dtype)]
