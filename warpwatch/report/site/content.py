"""Gathers what the site shows: the newest run with each case of it, the nights before, the baseline, the self-check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from statistics import median

from warpwatch.catalogue.project import Project
from warpwatch.compare.history import Cause, Step, common_effects, find_steps
from warpwatch.compare.saved_self_check import Checked, path_of, read
from warpwatch.compare.saved_verdicts import verdicts_of
from warpwatch.report.entries import Results
from warpwatch.runs.files import run_files
from warpwatch.runs.record import LONG_AGO, BadRun, CaseRecord, RunRecord, read_run, read_usable
from warpwatch.verdict.process_effects import ProcessEffect
from warpwatch.verdict.rule import Decision, Verdict


@dataclass(frozen=True, kw_only=True)
class Content(Results):
    """Everything that the pages are made of.

    ``runs``: the newest of the given runs alone, with all its samples. ``nights``: those of which there is a history,
    oldest first, that one among them; each case has its median alone. ``steps``: lasting changes in them, those of the
    environment last. ``effects``: what each of them did to every case. ``problems``: sentences on files and cases that
    were left out.
    """

    project: Project
    baseline: Sequence[RunRecord]
    nights: Sequence[RunRecord]
    steps: Sequence[Step]
    effects: Sequence[ProcessEffect]
    checked: Checked | None
    problems: Sequence[str]

    @classmethod
    def gather(cls, project: Project, paths: Iterable[Path]) -> Content:
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
            families=project.families,
            runs=[newest],
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
