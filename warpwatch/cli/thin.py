"""Thins the older saved runs of a folder, so that a year of nights stays small and quick to read: ``warpwatch thin``.

What verdicts, history and the site's charts need of an old run is each process's median, beside quartiles and
extremes. These stay; so do pytest-benchmark's own figures. Lost are the order of the samples and what lies between.
"""

from __future__ import annotations

import argparse
import lzma
import sys
from collections.abc import Sequence
from pathlib import Path

from warpwatch.arguments import positive_integer
from warpwatch.cli.options import progress
from warpwatch.runs.files import PACKED, PLAIN, chosen_files, compact_json, run_files, write_whole
from warpwatch.runs.record import BadRun, read_document, read_run
from warpwatch.runs.thinned import KEPT, MARK, thinned


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


def thin(path: Path) -> Path:
    """Thin and compress a saved run; returns its new path. The run is there, whole, at every moment.

    Raises BadRun for a file that is not a readable run, which stays as it is, or OSError.
    """
    read_run(path)  # refuses what is none
    document = read_document(path)
    if document.get("warpwatch", {}).get(MARK) and path.name.endswith(PACKED):
        return path
    packed = path.with_name(path.name.removesuffix(PACKED).removesuffix(PLAIN) + PACKED)
    write_whole(packed, lzma.compress(compact_json(thinned(document))))
    if packed != path:
        path.unlink()
    return packed
