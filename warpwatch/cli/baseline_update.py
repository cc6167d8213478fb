"""Proposes a new baseline as a pull request: ``warpwatch baseline update --pull-request``."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.cli import baseline_record
from warpwatch.cli.options import BadArgument, add_recording
from warpwatch.report.pull_request.code_host import Refused
from warpwatch.report.pull_request.github import GitHub
from warpwatch.report.pull_request.result import one_line
from warpwatch.report.tables import changes, spreads
from warpwatch.revision.commit import git
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.files import run_files
from warpwatch.runs.record import SETTINGS, RunRecord, read_run

LISTED = 10  # cases whose processes differ most
GITHUB = re.compile(r"github\.com[:/](?P<name>[\w.-]+/[\w.-]+?)(?:\.git)?/?$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recording(parser)
    parser.add_argument("--pull-request", action="store_true", help="on GitHub; needs GITHUB_TOKEN")
    parser.add_argument("--base", default="", metavar="BRANCH", help="to be merged into it (the one checked out)")


def run(project: Project, *, count: int, keywords: str, allowed: Collection[str], pull_request: bool, base: str) -> int:
    """Record a baseline and open a pull request with it; returns the exit status.

    What could stop it is looked at before the minutes of measuring. Raises BadArgument, BadCase, BadRun, NoDevice,
    DeviceError or OSError.
    """
    if not pull_request:
        raise BadArgument("say where it goes: --pull-request; `warpwatch baseline record` changes the files here alone")
    branch = f"baseline-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    try:
        host, here = _prepare(project.root)
        before = _baselines(project)
        if status := baseline_record.run(project, count=count, keywords=keywords, allowed=allowed):
            return status
        title, body = _commit(project, before, branch, here)
        try:
            number = host.open_pull_request(title=title, head=branch, base=base or here, body=body)
        except Refused as error:
            raise Refused(f"{error}; the branch {branch} is pushed") from None
    except Refused as error:
        print(f"error: no pull request was opened: {error}", file=sys.stderr)
        return 1
    print(f"pull request {number} proposes the baseline, from the branch {branch}")
    return 0


def _prepare(root: Path) -> tuple[GitHub, str]:
    """Find the repository at the code host, with the token, and the branch that is checked out. Raises Refused."""
    here = _git(root, "symbolic-ref", "--quiet", "--short", "HEAD", otherwise="HEAD is on no branch: switch to one")
    address = _git(root, "remote", "get-url", "origin", otherwise="there is no remote repository called origin")
    github = GITHUB.search(address)
    repository = os.environ.get("GITHUB_REPOSITORY") or (github["name"] if github else "")
    if not repository:
        raise Refused(f"{address} names no repository of GitHub: set GITHUB_REPOSITORY to OWNER/NAME")
    return GitHub.of_environment(repository), here


def _baselines(project: Project) -> dict[str, list[RunRecord]]:
    """Read the baselines as they are, by the names of their GPUs."""
    folders = [folder for folder in project.baselines.glob("*") if folder.is_dir()]
    return {folder.name: [read_run(path) for path in run_files(folder)] for folder in folders}


def _commit(project: Project, before: Mapping[str, list[RunRecord]], branch: str, here: str) -> tuple[str, str]:
    """Commit what was recorded on a branch of its own and push it; returns the pull request's title and its text.

    ``here``: the branch that is checked out then again. Raises Refused.
    """
    root, after = project.root, _baselines(project)
    changed = [slug for slug in after if _names(after[slug]) != _names(before.get(slug, []))]
    if not changed:
        raise Refused("the baseline did not change")
    (slug,) = changed
    folder = project.baselines / slug
    title = f"Baseline of {after[slug][0].gpu.name or slug}: {len(after[slug])} runs"
    kept = f"the runs are in {os.path.relpath(folder)} and on the branch {branch}"
    _git(root, "switch", "--quiet", "--create", branch)
    try:
        _git(root, "add", "--all", "--", str(folder))
        _git(root, "commit", "--quiet", "-m", title, "--", str(folder))
        _git(root, "push", "--quiet", "origin", branch, otherwise=f"it cannot be pushed; {kept}")
        return title, _body(before.get(slug, []), after[slug])
    finally:
        _git(root, "switch", "--quiet", here, otherwise=f"{here} cannot be checked out again; {kept}")


def _names(runs: list[RunRecord]) -> list[tuple[str, object]]:
    return [(run.path.name, run.when) for run in runs]


def _body(before: list[RunRecord], after: list[RunRecord]) -> str:
    """Write what a reviewer wants to know: settings, what changes, and how far processes differ, in Markdown."""
    gpu = after[0].gpu
    rows = ["| | before | after |", "|---|---|---|", f"| runs | {len(before)} | {len(after)} |"]
    rows.append(f"| GPUs | {len({run.gpu_uuid for run in before})} | {len({run.gpu_uuid for run in after})} |")
    for name, word in SETTINGS.items():
        sides = [", ".join(sorted({run.setting(name) for run in runs})) or "none" for runs in (before, after)]
        rows.append(f"| {word} | {sides[0]} | {sides[1]} |")
    rows.append(f"| commit | {_commits(before)} | {_commits(after)} |")
    listed = "\n".join(spreads(after)[: LISTED + 1])
    return "\n\n".join(
        [
            f"A new baseline of {gpu.name or after[0].slug}, by `warpwatch baseline update`.",
            "\n".join(rows),
            f"What changes:\n\n```text\n{changes(before, after)}\n```",
            f"How far its processes differ:\n\n```text\n{listed}\n```",
        ]
    )


def _commits(runs: list[RunRecord]) -> str:
    return ", ".join(dict.fromkeys(f"`{run.commit}`" for run in runs)) or "none"


def _git(root: Path, *words: str, otherwise: str = "") -> str:
    """Run git and return what it prints. Raises Refused, which begins with ``otherwise``."""
    try:
        done = git("HEAD", root, *words)
    except BadRevision as error:
        raise Refused(str(error)) from None
    out, complaint = done.stdout.decode().strip(), done.stderr.decode(errors="replace").strip()
    if done.returncode:
        reason = one_line(complaint or out)
        raise Refused(f"{otherwise or f'git {words[0]} failed'}{f' ({reason})' if reason else ''}")
    return out
