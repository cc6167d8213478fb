"""Writes what jobs found out as the one comment of a pull request: ``warpwatch comment``.

``python -m warpwatch.cli.comment`` is the same command. It needs no package but msgspec, because the job that
calls it holds a token that may write.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from warpwatch.report.pull_request.code_host import Host, Refused, find_pull_request, write_comment
from warpwatch.report.pull_request.comment import About, comment, marker
from warpwatch.report.pull_request.result import BadResult, Result, read_results

AUTHOR = "github-actions[bot]"  # who writes with the token of a workflow


@dataclass(frozen=True, kw_only=True)
class Request:
    """Holds what was asked for. ``number``: of the pull request, or None: found by ``head`` and ``sha``."""

    folder: Path
    title: str
    repository: str = ""
    number: int | None = None
    head: str = ""
    sha: str = ""
    run_url: str = ""
    site_url: str = ""
    conclusion: str = ""
    author: str = AUTHOR
    dry_run: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("results", type=Path, metavar="FOLDER", help="the results of `warpwatch ci`, a folder a job")
    parser.add_argument("--title", default="kernels", help="tells this comment from other ones (kernels)")
    parser.add_argument(
        "--repository",
        default=os.environ.get("GITHUB_REPOSITORY", ""),
        metavar="OWNER/NAME",
        help="where the pull request is ($GITHUB_REPOSITORY)",
    )
    parser.add_argument("--pull-request", type=int, metavar="NUMBER", help="its number, where that is known")
    parser.add_argument("--head", default="", metavar="OWNER:BRANCH", help="else: where it comes from")
    parser.add_argument("--sha", default="", metavar="COMMIT", help="the commit that the jobs ran")
    parser.add_argument("--run-url", default="", metavar="URL", help="the page of the jobs")
    parser.add_argument("--site-url", default="", metavar="URL", help="the page of the times")
    parser.add_argument("--conclusion", default="", metavar="WORD", help="how the jobs ended, as the code host says")
    parser.add_argument(
        "--author", default="github-actions[bot]", metavar="LOGIN", help="whose comment it is (github-actions[bot])"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the comment, and write none")


def run(options: argparse.Namespace) -> int:
    """Write the comment that the arguments ask for; returns the exit status."""
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


def write(request: Request) -> int:
    """Write or update the comment; returns the exit status. Prints it too, so that nothing is lost where it fails."""
    results, unreadable = _read(request.folder)
    about = About(
        marker=marker(request.title),
        commit=request.sha,
        run_url=request.run_url,
        site_url=request.site_url,
        conclusion=request.conclusion,
        unreadable=unreadable,
    )
    body = comment(results, about)
    _show(body)
    if request.dry_run:
        return 0
    try:
        return _post(request, about.marker, body)
    except Refused as error:
        print(f"error: no comment was written: {error}", file=sys.stderr)
        return 1


def _show(body: str) -> None:
    """Print the comment. On GitHub, nothing in it is taken for a command of the workflow."""
    word = secrets.token_hex(16) if os.environ.get("GITHUB_ACTIONS") == "true" else ""
    print(f"::stop-commands::{word}\n{body}\n::{word}::" if word else body)


def _read(folder: Path) -> tuple[list[Result], list[str]]:
    """Read the results, or say why that is not possible: then the comment says so."""
    try:
        return read_results(folder), []
    except BadResult as error:
        return [], [str(error).replace(f"{folder}/", "")]


def _post(request: Request, first_line: str, body: str) -> int:
    host = Host(
        api=os.environ.get("GITHUB_API_URL") or "https://api.github.com",
        repository=request.repository,
        token=os.environ.get("GITHUB_TOKEN", ""),
    )
    number = request.number
    if number is None:
        number = find_pull_request(host, head=request.head, sha=request.sha)
    if number is None:
        print(f"no open pull request of {request.head} has {request.sha[:12]} as its newest commit: nothing is written")
        return 0
    done = write_comment(host, number, first_line, body, request.author)
    print(f"{done}: the comment of pull request {number}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="warpwatch comment")
    add_arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
