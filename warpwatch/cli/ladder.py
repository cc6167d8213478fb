"""Prints how far each kernel is from its reference, in Markdown: ``warpwatch ladder``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add_runs
from warpwatch.report.ladder import tables
from warpwatch.runs.files import chosen_files
from warpwatch.runs.record import read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)


def run(project: Project, *, runs: Sequence[Path]) -> int:
    print(tables([read_run(path) for path in chosen_files(runs)], project.families))
    return 0
