"""Shows a case's times in saved runs, and where cases changed permanently: ``warpwatch history``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.compare.history import FEWEST, issue, load, new_steps, show
from warpwatch.runs.files import write_whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("case", nargs="?", default="", help="a case's id; without one, every step of every case")
    folder = "folder of one GPU's saved runs (.benchmarks)"
    parser.add_argument("--runs", dest="folder", type=Path, metavar="FOLDER", help=folder)
    text = "write the cases that became permanently slower by the last run, as the text of an issue"
    parser.add_argument("--new", type=Path, metavar="FILE", help=text)


def run(project: Project, *, case: str, folder: Path | None, new: Path | None) -> int:
    """Show the times, or write the new slowdowns; returns the exit status. Raises BadRun or OSError."""
    folder = folder or project.saved_runs
    return write_new(folder, new) if new else show(folder, case)


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
