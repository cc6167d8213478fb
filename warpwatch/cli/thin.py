"""Thins the older saved runs of a folder: ``warpwatch thin``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from warpwatch.arguments import positive_integer
from warpwatch.cli.options import progress
from warpwatch.runs.files import chosen_files, run_files
from warpwatch.runs.record import BadRun
from warpwatch.runs.thin import KEPT, thin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="one GPU's saved runs")
    parser.add_argument("--keep", type=positive_integer, default=7, metavar="RUNS", help="the newest stay whole (7)")


def run(*, folder: Path, keep: int) -> int:
    """Thin all but the newest ``keep`` runs of a folder; returns the exit status.

    A damaged file is named and left as it is, which is no failure: a night with an old damaged file is as good as any.
    Raises OSError.
    """
    files = chosen_files([folder])
    older, before, wrong = files[:-keep], _megabytes(files), 0
    show = progress("thinning")
    for done, path in enumerate(older, 1):
        try:
            thin(path)
        except BadRun as error:
            wrong += 1
            print(f"left as it is: {error}", file=sys.stderr)
        show(done, len(older))
    sizes = f"{before:,.1f} -> {_megabytes(run_files(folder)):,.1f} MB"
    print(f"{folder}: {len(files)} runs, {sizes}; {len(older) - wrong} of them are thinned")
    print(f"of their samples {KEPT} a process are left: extremes, quartiles, the median, and those between")
    return 0


def _megabytes(files: Sequence[Path]) -> float:
    return sum(path.stat().st_size for path in files) / 1e6
