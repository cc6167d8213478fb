"""Writes what jobs found out as the one comment of a pull request: ``warpwatch comment``.

``python -m warpwatch.cli.comment`` is the same command. It needs no package but msgspec, because the job that
calls it holds a token that may write.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from pathlib import Path

from warpwatch.report.pull_request.code_host import Refused
from warpwatch.report.pull_request.comment import About, comment, marker
from warpwatch.report.pull_request.github import GitHub
from warpwatch.report.pull_request.result import BadResult, Result, read_results

AUTHOR = "github-actions[bot]"  # who writes with the token of a workflow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, metavar="FOLDER", help="the results of `warpwatch ci`, a folder a job")
    parser.add_argument("--title", default="kernels", help="tells this comment from other ones (kernels)")
    own, place = os.environ.get("GITHUB_REPOSITORY", ""), "where the pull request is ($GITHUB_REPOSITORY)"
    parser.add_argument("--repository", default=own, metavar="OWNER/NAME", help=place)
    parser.add_argument("--pull-request", type=int, metavar="NUMBER", help="its number, where that is known")
    parser.add_argument("--head", default="", metavar="OWNER:BRANCH", help="else: where it comes from")
    parser.add_argument("--sha", default="", metavar="COMMIT", help="the commit that the jobs ran")
    parser.add_argument("--run-url", default="", metavar="URL", help="the page of the jobs")
    parser.add_argument("--site-url", default="", metavar="URL", help="the page of the times")
    parser.add_argument("--conclusion", default="", metavar="WORD", help="how the jobs ended, as the code host says")
    parser.add_argument("--author", default=AUTHOR, metavar="LOGIN", help=f"whose comment it is ({AUTHOR})")
    parser.add_argument("--dry-run", action="store_true", help="print the comment, and write none")


def run(
    *,
    results: Path,
    title: str,
    repository: str,
    pull_request: int | None,
    head: str,
    sha: str,
    run_url: str,
    site_url: str,
    conclusion: str,
    author: str,
    dry_run: bool,
) -> int:
    """Write or update the comment; returns the exit status. Prints it too, so that nothing is lost where it fails."""
    if not dry_run and pull_request is None and not (head and sha):
        print("error: give --pull-request, or --head and --sha, by which it is found; or --dry-run", file=sys.stderr)
        return 2
    known, unreadable = read(results)
    about = About(
        marker=marker(title), commit=sha, run_url=run_url, site_url=site_url, conclusion=conclusion,
        unreadable=unreadable,
    )  # fmt: skip
    body = comment(known, about)
    # On GitHub, nothing in the comment is taken for a command of the workflow.
    word = secrets.token_hex(16) if os.environ.get("GITHUB_ACTIONS") == "true" else ""
    print(f"::stop-commands::{word}\n{body}\n::{word}::" if word else body)
    if dry_run:
        return 0
    try:
        host = GitHub.of_environment(repository)
        number = host.find_pull_request(head=head, sha=sha) if pull_request is None else pull_request
        written = number is not None and host.write_comment(number, about.marker, body, author)
    except Refused as error:
        print(f"error: no comment was written: {error}", file=sys.stderr)
        return 1
    nowhere = f"no open pull request of {head} has {sha[:12]} as its newest commit: nothing is written"
    print(f"{written}: the comment of pull request {number}" if written else nowhere)
    return 0


def read(folder: Path) -> tuple[list[Result], list[str]]:
    """Read the results, or say why that is not possible: then the comment says so."""
    try:
        return read_results(folder), []
    except BadResult as error:
        return [], [str(error).replace(f"{folder}/", "")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="warpwatch comment")
    add_arguments(parser)
    return run(**vars(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
