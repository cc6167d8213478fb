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
from warpwatch.compare.history import SHORTEST, Step, find_steps, load
from warpwatch.runs.files import write_whole
from warpwatch.runs.identity import difference
from warpwatch.runs.record import RunRecord

MOST_LINES = 20
FEWEST = 2 * SHORTEST  # runs, in which two levels have room
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
    steps = find_steps(runs)
    if not case:
        print(f"{len(runs)} runs, {len(steps)} steps, the largest slowdown first")
        print("\n".join(map(str, steps)))
    elif not any(case in run.cases for run in runs):
        error = f"error: no run in {folder} has {case!r}; `python -m warpwatch list` shows what there is"
        print(error, file=sys.stderr)
        return 2
    else:
        steps = [step for step in steps if step.case == case]
        _show_case(runs, case, steps)
    if any(step.ratio > 1 for step in steps):
        print(f"{HOW_TO_FIND} {case or 'CASE'}")
    return 0


def _show_case(runs: Sequence[RunRecord], case: str, steps: Sequence[Step]) -> None:
    recorded = [run for run in runs if case in run.cases]
    ratios = {step.after.path: step.ratio for step in steps}
    for past, run in pairwise([recorded[0], *recorded]):
        samples = run.cases[case].samples
        middle, (low, high) = median(samples), np.percentile(samples, [25, 75])
        ratio = ratios.get(run.path)
        note = f"  <- {100 * (ratio - 1):+.1f} % from here on" if ratio else ""
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
    if len(runs) < FEWEST:
        print(f"too few to find any: a lasting change takes {FEWEST} runs of one GPU")


def new_steps(runs: Sequence[RunRecord]) -> list[Step]:
    """Find the slowdowns that were not found without the newest run, the largest first.

    A level lasts SHORTEST nights at least, so a step is found some nights after it happened, and may then be placed a
    night or two earlier or later than before: the same case's step within SHORTEST nights is the same step.
    """
    number = {run.path: index for index, run in enumerate(runs)}
    known: dict[str, list[int]] = {}
    for step in find_steps(runs[:-1]):
        if step.ratio > 1:
            known.setdefault(step.case, []).append(number[step.after.path])

    def is_known(step: Step) -> bool:
        return any(abs(night - number[step.after.path]) <= SHORTEST for night in known.get(step.case, ()))

    return [step for step in find_steps(runs) if step.ratio > 1 and not is_known(step)]


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
