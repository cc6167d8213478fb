"""Draws how far each kernel is from its reference, as SVG: ``warpwatch picture``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add_runs
from warpwatch.runs.files import chosen_files
from warpwatch.runs.record import read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    place = "where the SVG files go (beside the last run)"
    parser.add_argument("--to", dest="folder", type=Path, metavar="FOLDER", help=place)


def run(project: Project, *, runs: Sequence[Path], folder: Path | None) -> int:
    """Draw a picture for each family; returns the exit status. Raises BadRun, ImportError or OSError."""
    from warpwatch.report.picture import pictures  # noqa: PLC0415  # matplotlib is an extra

    paths = chosen_files(runs)
    drawn = pictures([read_run(path) for path in paths], project.families, folder or paths[-1].parent)
    print(*drawn, sep="\n")
    return 0
