"""Adds the subcommands that check a pull request's kernels in a job, and write its comment."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from warpwatch.catalogue.project import Project
from warpwatch.subcommands import add, add_device, revisions


def _ci(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.commands.ci import Request, run  # noqa: PLC0415

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
    from warpwatch.commands.comment import Request, write  # noqa: PLC0415

    if not options.dry_run and options.pull_request is None and not (options.head and options.sha):
        print("error: give --pull-request, or --head and --sha, by which it is found; or --dry-run", file=sys.stderr)
        return 2
    return write(
        Request(
            folder=options.results,
            title=options.title,
            repository=options.repository,
            number=options.pull_request,
            head=options.head,
            sha=options.sha,
            run_url=options.run_url,
            site_url=options.site_url,
            conclusion=options.conclusion,
            author=options.author,
            dry_run=options.dry_run,
        )
    )


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
    writing = add(commands, "comment", _comment, "write what jobs found out as the one comment of a pull request")
    writing.add_argument("results", type=Path, metavar="FOLDER", help="the results of `warpwatch ci`, a folder a job")
    writing.add_argument("--title", default="kernels", help="tells this comment from other ones (kernels)")
    writing.add_argument(
        "--repository",
        default=os.environ.get("GITHUB_REPOSITORY", ""),
        metavar="OWNER/NAME",
        help="where the pull request is ($GITHUB_REPOSITORY)",
    )
    writing.add_argument("--pull-request", type=int, metavar="NUMBER", help="its number, where that is known")
    writing.add_argument("--head", default="", metavar="OWNER:BRANCH", help="else: where it comes from")
    writing.add_argument("--sha", default="", metavar="COMMIT", help="the commit that the jobs ran")
    writing.add_argument("--run-url", default="", metavar="URL", help="the page of the jobs")
    writing.add_argument("--site-url", default="", metavar="URL", help="the page of the times")
    writing.add_argument("--conclusion", default="", metavar="WORD", help="how the jobs ended, as the code host says")
    writing.add_argument(
        "--author", default="github-actions[bot]", metavar="LOGIN", help="whose comment it is (github-actions[bot])"
    )
    writing.add_argument("--dry-run", action="store_true", help="print the comment, and write none")
    writing.set_defaults(loads_project=False)


def add_pull_requests(commands: Any) -> None:
    """Add the subcommands."""
    _add_ci(commands)
    _add_comment(commands)
