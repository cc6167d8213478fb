"""Joins parts of a self-check that were made with -k: ``warpwatch self-check merge``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.compare.saved_self_check import merge, read, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("parts", nargs="+", type=Path, metavar="PART", help="what `pytest bench --self-check -k` saved")


def run(project: Project, *, parts: Sequence[Path]) -> int:
    """Join the parts and save the whole beside the baseline; returns the exit status. Raises BadRun or OSError."""
    path = merge(parts, project.families, project.baselines)
    print(*table(read(path)), f"saved {path}", sep="\n")
    return 0
