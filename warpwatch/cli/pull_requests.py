"""Adds the subcommands that check a pull request's kernels in a job, and write its comment."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add, add_device, revisions


def _ci(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.ci import Request, run  # noqa: PLC0415

    return run(
        project,
        Request(
            tests=tuple(options.tests),
            bench=options.bench,
            against=options.against,
            device=options.device,
            architectures=options.arch,
            keywords=options.k,
            results=options.results,
            job=options.job,
        ),
    )


def _comment(project: Project | None, options: argparse.Namespace) -> int:
    from warpwatch.cli.comment import run  # noqa: PLC0415

    return run(options)


def _add_ci(commands: Any) -> None:
    checking = add(commands, "ci", _ci, "check, compare and time the kernels as a job of a pull request does")
    checking.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH", help="the tests of kernels (tests)")
    checking.add_argument("--bench", default="bench", metavar="PATH", help="the benchmark, run on a GPU (bench)")
    checking.add_argument(
        "--against", default="", metavar="REV", help="compare with it (where the pull request's branch began)"
    ).completer = revisions
    checking.add_argument("--arch", default="sm_90", metavar="LIST", help="compare machine code for these (sm_90)")
    checking.add_argument("-k", default="", metavar="EXPR", help="only what matches, as pytest -k")
    checking.add_argument(
        "--results",
        type=Path,
        default=Path("warpwatch-results"),
        metavar="FOLDER",
        help="write everything there (warpwatch-results)",
    )
    checking.add_argument(
        "--job", default=os.environ.get("GITHUB_JOB", "kernels"), metavar="NAME", help="what the comment calls this job"
    )
    add_device(checking)


def _add_comment(commands: Any) -> None:
    from warpwatch.cli.comment import add_arguments  # noqa: PLC0415

    writing = add(commands, "comment", _comment, "write what jobs found out as the one comment of a pull request")
    add_arguments(writing)
    writing.set_defaults(loads_project=False)


def add_pull_requests(commands: Any) -> None:
    """Add the subcommands."""
    _add_ci(commands)
    _add_comment(commands)
