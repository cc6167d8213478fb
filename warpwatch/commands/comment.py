"""Writes what jobs found out as the one comment of a pull request: ``warpwatch comment``."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from warpwatch.pull_requests.code_host import Host, Refused, find_pull_request, write_comment
from warpwatch.pull_requests.comment import About, comment, marker
from warpwatch.pull_requests.result import BadResult, Result, read_results

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
