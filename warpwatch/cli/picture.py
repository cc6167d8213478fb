"""Draws one picture a family: how far each rung is from its reference, shape by shape: ``warpwatch picture``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add_runs
from warpwatch.report.entries import Results
from warpwatch.report.ladder import listed, runs_of_same_work
from warpwatch.report.pictures import shares
from warpwatch.runs.files import chosen_files, write_whole
from warpwatch.runs.record import BadRun, RunRecord, read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    parser.add_argument(
        "--to", dest="folder", type=Path, metavar="FOLDER", help="where the SVG files go (beside the last run)"
    )


def run(project: Project, *, runs: Sequence[Path], folder: Path | None) -> int:
    """Draw a picture for each family; returns the exit status. Raises BadRun, ImportError or OSError."""
    paths = chosen_files(runs)
    print(*pictures(project, [read_run(path) for path in paths], folder or paths[-1].parent), sep="\n")
    return 0


def pictures(project: Project, runs: Sequence[RunRecord], folder: Path) -> list[Path]:
    """Draw the families and element types that have ``ladder_shapes``. Raises BadRun where no run has one of them."""
    results, drawn = Results(families=project.families, runs=runs_of_same_work(runs)), dict[Path, bytes]()
    for family, dtype in dict.fromkeys(
        (family, dtype) for family, dtype, _ in listed(project.families, "ladder_shapes")
    ):
        cases = results.by_type(family.name).get(dtype)
        if cases and (picture := shares(cases)).lines:
            path = folder / f"{family.name}-{dtype}.svg"
            drawn[path] = picture.drawn(results, ["svg"])["svg"]
    if not drawn:
        cure = "time both (docs/your-kernels.md, ladders), or draw times by `warpwatch study FAMILY --from RUN`"
        raise BadRun(f"{runs[-1].path}: no case of a family with ladder_shapes was timed beside its reference: {cure}")
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in drawn.items():
        write_whole(path, content)
    return list(drawn)
