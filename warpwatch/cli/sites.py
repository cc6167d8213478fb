"""Writes the page above the sites of several GPUs: ``warpwatch sites``."""

from __future__ import annotations

import argparse
from pathlib import Path

from warpwatch.arguments import positive_integer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="its folders hold the sites")
    parser.add_argument(
        "--gpus", type=positive_integer, default=0, metavar="COUNT", help="how many sites there should be"
    )


def run(*, folder: Path, gpus: int) -> int:
    """Write the page and say where it is; returns the exit status. Raises BadRun, ImportError or OSError."""
    from warpwatch.report.site.render import said_missing, write_overview  # noqa: PLC0415  # Jinja2 is an extra

    sites = write_overview(folder, gpus)
    if missing := said_missing(len(sites), gpus):
        print(missing)
    print(f"{len(sites)} site{'s' * (len(sites) != 1)}: open {folder / 'index.html'}")
    return 0
