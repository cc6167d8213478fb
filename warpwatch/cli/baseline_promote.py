"""Makes saved runs the baseline of their GPU: ``warpwatch baseline promote``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add_runs
from warpwatch.compare.anchors import distances
from warpwatch.report.tables import changes
from warpwatch.runs.anchors import Anchors, spans
from warpwatch.runs.baseline import Baseline, objections
from warpwatch.runs.files import chosen_files, run_files
from warpwatch.runs.record import RunRecord, read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, "a file in .benchmarks/<gpu>/, or a folder of them")
    allowed = "failed, partial, dirty, mixed, same, drift"
    parser.add_argument("--allow", dest="allowed", nargs="+", default=[], metavar="WORD", help=allowed)
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")


def run(project: Project, *, runs: Sequence[Path], allowed: Sequence[str], dry_run: bool) -> int:
    """Make saved runs the baseline, after showing what changes; returns the exit status. Raises BadRun or OSError."""
    return promote(project, chosen_files(runs), allowed=allowed, dry_run=dry_run)


def promote(project: Project, paths: Sequence[Path], *, allowed: Sequence[str], dry_run: bool) -> int:
    """Make saved runs the baseline of their GPU, after showing what changes; returns the exit status.

    Raises BadRun or OSError.
    """
    runs = [read_run(path) for path in paths]
    Baseline.refuse_twice(runs)
    folder = project.baselines / runs[0].slug
    previous = [read_run(path) for path in run_files(folder)]
    print(f"{len(runs)} runs become the baseline of {runs[0].slug}; it has {len(previous)} now")
    for when, spanned in (("now", previous), ("then", runs)):
        print("".join(f"  {when}: {text}\n" for text in spans(spanned)), end="")
    print(changes(previous, runs))
    anchors = Anchors.choose(folder, runs, previous)
    drift = _drift(runs, anchors)
    found = objections(runs, previous) | ({"drift": drift} if drift else {})
    refused = {word: reasons for word, reasons in found.items() if word not in allowed}
    for word, reasons in refused.items():
        print("\n".join(reasons) + f"\n  refused; to do it all the same: --allow {word}", file=sys.stderr)
    if refused or dry_run:
        return 1 if refused else 0
    obsolete = anchors.write()
    for path in Baseline(folder, previous).replace(runs):
        print(f"wrote {path}")
    for path in obsolete:
        path.unlink(missing_ok=True)
    return 0


def _drift(runs: Sequence[RunRecord], anchors: Anchors) -> list[str]:
    """Say how many cases have anchors, and return lines on those that are far from them."""
    compared = distances(runs, anchors.runs)
    count = len({name for distance in compared for name in distance.decisions})
    kept = len(set().union(*anchors.cases.values()))
    print(f"anchors: earlier runs of {kept} cases at the same work, of {count} cases on the GPUs of these runs")
    return [line for distance in compared for line in distance.lines()]
