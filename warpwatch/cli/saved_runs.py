"""Shows saved runs and makes them baselines: ``warpwatch baseline``, ``history``, ``report``, ``ladder``, ``score``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tools import score
from tools.recording import record, record_pairs
from warpwatch.catalogue.project import Project
from warpwatch.compare.history import FEWEST, issue, load, new_steps
from warpwatch.compare.saved_self_check import merge, read, table
from warpwatch.compare.with_baseline import MIN_GPUS
from warpwatch.report import ladder, tables
from warpwatch.runs.baseline import objections, refuse_twice, replace_baseline
from warpwatch.runs.files import run_files, write_whole
from warpwatch.runs.record import read_run


def promote(project: Project, paths: Sequence[Path], *, allowed: Sequence[str], dry_run: bool) -> int:
    """Make saved runs the baseline of their GPU, after showing what changes; returns the exit status.

    Raises BadRun or OSError.
    """
    runs = [read_run(path) for path in paths]
    refuse_twice(runs)
    folder = project.baselines / runs[0].slug
    previous = [read_run(path) for path in run_files(folder)]
    print(f"{len(runs)} runs become the baseline of {runs[0].slug}; it has {len(previous)} now")
    print(tables.changes(previous, runs))
    refused = {word: what for word, what in objections(runs, previous).items() if word not in set(allowed)}
    for word, what in refused.items():
        print("\n".join(what) + f"\n  refused; to do it all the same: --allow {word}", file=sys.stderr)
    if refused or dry_run:
        return 1 if refused else 0
    for path in replace_baseline(folder, runs, previous):
        print(f"wrote {path}")
    return 0


def report(project: Project, paths: Sequence[Path]) -> int:
    """Print time and rate of each kernel on each shape, in Markdown; returns the exit status. Raises BadRun."""
    print(tables.tables([read_run(path) for path in paths], project))
    return 0


def show_ladders(project: Project, paths: Sequence[Path]) -> int:
    """Print how far each kernel is from its reference, in Markdown; returns the exit status. Raises BadRun."""
    print(ladder.tables([read_run(path) for path in paths], project.families))
    return 0


def draw(project: Project, paths: Sequence[Path], folder: Path | None) -> int:
    """Draw a picture for each family, beside the last run unless a folder is given. Raises BadRun, ImportError."""
    from warpwatch.report.picture import pictures  # noqa: PLC0415  # matplotlib takes a second

    runs = [read_run(path) for path in paths]
    print("\n".join(map(str, pictures(runs, project.families, folder or paths[-1].parent))))
    return 0


def score_rules(paths: Sequence[Path], trials: int) -> int:
    """Print what each rule for regressions would have said of recorded runs; returns the exit status. Raises BadRun."""
    runs = [read_run(path) for path in paths]
    alone = [run for run in runs if not run.against]
    recording = record(alone)
    side_by_side = [run for run in runs if run.against]
    scores = score.score(recording, trials)
    if side_by_side:
        pairs = score.play_pairs(record_pairs(side_by_side), trials)
        scores = {score.OURS: scores[score.OURS], score.PAIRED: pairs} | scores
    if len({run.gpu_uuid for run in alone}) > MIN_GPUS:
        scores = {score.OURS: scores[score.OURS], score.OTHER_GPU: score.play_other_gpus(alone)} | scores
    print(score.table(recording, scores))
    return 0


def merge_self_check(project: Project, parts: Sequence[Path]) -> int:
    """Join parts of a self-check that were made with -k, and save it beside the baseline; returns the exit status.

    Raises BadRun or OSError.
    """
    path = merge(parts, project.families, project.baselines)
    print("\n".join([*table(read(path)), f"saved {path}"]))
    return 0


def write_new(folder: Path, file: Path) -> int:
    """Write the slowdowns that the newest run shows for the first time; no file where there are none.

    Raises BadRun or OSError.
    """
    runs, problems = load(folder)
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    steps = new_steps(runs)
    if steps:
        write_whole(file, issue(steps, runs[-1]))
    print(f"{len(steps)} new slowdown{'s' * (len(steps) != 1)} in {len(runs)} runs{f': {file}' if steps else ''}")
    if len(runs) < FEWEST:
        print(f"too few to find any: a lasting change takes {FEWEST} runs of one GPU")
    return 0
