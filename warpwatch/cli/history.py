"""Shows a case's times in saved runs, and where cases changed permanently: ``warpwatch history``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from warpwatch.catalogue.project import Project
from warpwatch.compare.history import FEWEST, SHORTEST, Cause, Step, find_steps, load
from warpwatch.runs.files import write_whole
from warpwatch.runs.identity import difference
from warpwatch.runs.record import RunRecord, by_uuid

MOST_LINES = 20
HOW_TO_FIND = "which commit it was: python -m warpwatch bisect --from-history"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("case", nargs="?", default="", help="a case's id; without one, every step of every case")
    parser.add_argument(
        "--runs", dest="folder", type=Path, metavar="FOLDER", help="folder of one GPU's saved runs (.benchmarks)"
    )
    parser.add_argument(
        "--new",
        type=Path,
        metavar="FILE",
        help="write the cases that became permanently slower by the last run, as the text of an issue",
    )


def run(project: Project, *, case: str, folder: Path | None, new: Path | None) -> int:
    """Show the times, or write the new slowdowns; returns the exit status. Raises BadRun or OSError."""
    folder = folder or project.saved_runs
    runs, problems = load(folder)
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    if new:
        _write_new(runs, new)
        return 0
    if case and not any(case in run.cases for run in runs):
        error = f"error: no run in {folder} has {case!r}; `python -m warpwatch list` shows what there is"
        print(error, file=sys.stderr)
        return 2
    slower, gpus = False, by_uuid(runs)
    for uuid, own in gpus.items():
        if not case and len(own) < FEWEST:
            print(f"{_name(uuid)}: {len(own)} runs, left out: a lasting change takes {FEWEST} of one GPU")
            continue
        steps = [step for step in find_steps(own) if case in ("", step.case)]
        if case and any(case in run.cases for run in own):
            print(f"{_name(uuid)}:\n" * (len(gpus) > 1), end="")
            _show_case(own, case, steps)
        elif not case:
            _show_all(uuid, own, steps)
        slower |= any(step.ratio > 1 and step.cause != Cause.ENVIRONMENT for step in steps)
    if slower:
        print(f"{HOW_TO_FIND} {case or 'CASE'}")
    return 0


def _name(uuid: str) -> str:
    return uuid or "a GPU without a UUID"


TITLES = {
    Cause.KERNEL: "of kernels, whose work changed there",
    Cause.UNKNOWN: "of kernels or not: timed otherwise, or work not recorded (`python -m warpwatch baseline migrate`)",
    Cause.ENVIRONMENT: "of the environment: of GPU, driver, memory or way of timing, and not of kernels",
}


def _show_all(uuid: str, runs: Sequence[RunRecord], steps: Sequence[Step]) -> None:
    """Print the steps in the runs of a GPU by their causes."""
    print(f"{_name(uuid)}: {len(runs)} runs, {len(steps)} steps, the largest slowdown first")
    for cause, title in TITLES.items():
        own = [step for step in steps if step.cause == cause]
        if own:
            print("\n".join([f"{len(own)} {title}:", *map(str, own)]))


def _show_case(runs: Sequence[RunRecord], case: str, steps: Sequence[Step]) -> None:
    recorded = [run for run in runs if case in run.cases]
    begins = {step.after.path: step for step in steps}
    for past, run in pairwise([recorded[0], *recorded]):
        samples = run.cases[case].samples
        middle, (low, high) = median(samples), np.percentile(samples, [25, 75])
        step = begins.get(run.path)
        note = f"  <- {100 * (step.ratio - 1):+.1f} % from here on ({step.cause})" if step else ""
        changed = difference(past.cases[case].facts.identity, run.cases[case].facts.identity)
        note += f"  (changed: {changed.words})" if changed.changed else ""
        minute = run.when.isoformat(timespec="minutes")[:16] if run.when else "at no known time"
        spread = f"{100 * (high - low) / middle:.1f} %"
        print(f"{minute}  {run.commit!s:<13} {middle * 1e6:12,.2f} µs  IQR {spread:>6}{note}")


def _write_new(runs: Sequence[RunRecord], file: Path) -> None:
    """Write the slowdowns that the newest run shows for the first time, if there are any. Raises OSError."""
    steps = new_steps(runs)
    if steps:
        write_whole(file, issue(steps, runs[-1]))
    print(f"{len(steps)} new slowdown{'s' * (len(steps) != 1)} in {len(runs)} runs{f': {file}' if steps else ''}")
    for uuid, own in by_uuid(runs).items():
        if len(own) < FEWEST and own[-1].path == runs[-1].path:
            print(f"too few on {_name(uuid)}, {len(own)}: a lasting change takes {FEWEST} runs of one GPU")


def new_steps(runs: Sequence[RunRecord]) -> list[Step]:
    """Find the slowdowns that were not found without the newest run, the largest first.

    What the environment made slower is none: no commit did it, and no search finds it.
    """
    found = [step for step in find_steps(runs) if step.ratio > 1 and step.cause != Cause.ENVIRONMENT]
    return unknown_before(find_steps([run for run in runs if run.path != runs[-1].path]), found, runs)


def unknown_before(known: Sequence[Step], found: Sequence[Step], runs: Sequence[RunRecord]) -> list[Step]:
    """Select the steps that are not known.

    A level lasts SHORTEST nights at least, so a step is found some nights after it happened, and may then be placed a
    night or two earlier or later than before: the same case's step within SHORTEST nights is the same step.
    """
    number = {run.path: index for index, run in enumerate(runs)}
    nights: dict[tuple[str, bool], list[int]] = {}
    for step in known:
        nights.setdefault((step.case, step.ratio > 1), []).append(number[step.after.path])

    def is_known(step: Step) -> bool:
        own = nights.get((step.case, step.ratio > 1), ())
        return any(abs(night - number[step.after.path]) <= SHORTEST for night in own)

    return [step for step in found if not is_known(step)]


def issue(steps: Sequence[Step], newest: RunRecord) -> str:
    """Return, in Markdown, the cases that became permanently slower, the commits between, and how to find which one."""
    count = f"{len(steps)} case{'s' * (len(steps) != 1)}"
    when = f", night of {newest.when.date().isoformat()}" if newest.when else ""
    lines = [f"**{count} became slower permanently** on {newest.gpu.name or newest.slug}{when}:", ""]
    lines += [f"- {step}" for step in steps[:MOST_LINES]]
    if len(steps) > MOST_LINES:
        lines.append(f"- ... and {len(steps) - MOST_LINES} more: `python -m warpwatch history` shows all")
    lines += ["", "Which commit it was:", "", "```sh"]
    ranges: dict[str, list[str]] = {}  # one search finds the commit for all cases that changed between the same ones
    for step in steps[:MOST_LINES]:
        before, after = (run.commit.id[:12] for run in (step.before, step.after))
        if before and after:
            ranges.setdefault(f"{before}..{after}", []).append(step.case)
    lines += [f"python -m warpwatch bisect {' '.join(cases[:3])} {span}" for span, cases in ranges.items()]
    return "\n".join([*lines, "```", ""])
