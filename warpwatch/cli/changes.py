"""Adds the subcommands that say what changed in a kernel, why it is slower, and since when."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add, add_device, case_ids, revisions

DIFF_ARCH = "sm_90"  # what `warpwatch diff` compiles for where nothing is said


def _diff(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.diff import BadDiff, Request, show_difference  # noqa: PLC0415

    try:
        return show_difference(
            project,
            Request(
                revision=options.revision,
                architectures=tuple(dict.fromkeys(filter(None, options.arch.split(",")))),
                keywords=options.k,
                fail_on=tuple(dict.fromkeys(filter(None, options.fail_on.split(",")))),
                markdown=options.markdown,
                json=options.json,
            ),
        )
    except BadDiff as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


def _bisect(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.bisect import Request, bisect, range_of_history  # noqa: PLC0415
    from warpwatch.revision.declared import BadRevision  # noqa: PLC0415

    names = list(options.cases)
    try:
        span = range_of_history(project, names[0]) if options.from_history else names.pop()
        if not names or ".." not in span:
            raise BadRevision("give one case or several, then GOOD..BAD; `warpwatch list` shows the cases")
        request = Request(
            cases=tuple(dict.fromkeys(names)),
            range=span,
            all_commits=options.all_commits,
            cold=not options.warm_cache,
            device=options.device,
            arch=options.arch,
        )
        return bisect(project, request)
    except BadRevision as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


def _explain(project: Project, options: argparse.Namespace) -> int:
    from warpwatch.cli.explain import explain_case  # noqa: PLC0415
    from warpwatch.revision.declared import BadRevision  # noqa: PLC0415

    try:
        return explain_case(project, options.case, options.against, arch=options.arch, with_ncu=not options.without_ncu)
    except BadRevision as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


def _add_explain(commands: Any) -> None:
    explaining = add(
        commands,
        "explain",
        _explain,
        "say what changed in a case: machine code and, with Nsight Compute, counters",
    )
    explaining.add_argument("case", metavar="CASE", help="a case's id").completer = case_ids
    revision = explaining.add_argument(
        "--against",
        metavar="REV",
        help="a commit, branch or tag (HEAD where files differ from it, else the merge base with the main branch)",
    )
    revision.completer = revisions
    explaining.add_argument("--without-ncu", action="store_true", help="compare the machine code alone")
    explaining.add_argument(
        "--arch", default=DIFF_ARCH, help=f"compile for this one where there is no GPU ({DIFF_ARCH})"
    )


def _add_diff(commands: Any) -> None:
    comparing = add(
        commands, "diff", _diff, "show what changed in the machine code since another revision, without a GPU"
    )
    revision = comparing.add_argument(
        "revision",
        nargs="?",
        default=None,
        metavar="REV",
        help="a commit, branch or tag (the merge base with the main branch)",
    )
    revision.completer = revisions
    comparing.add_argument(
        "--arch", default=DIFF_ARCH, metavar="LIST", help=f"architectures, such as sm_80,sm_90 ({DIFF_ARCH})"
    )
    comparing.add_argument("-k", default="", metavar="EXPR", help="only builds that match, as pytest -k")
    comparing.add_argument(
        "--fail-on",
        default="",
        metavar="LIST",
        help="exit with 1 where these got worse: spills, registers, occupancy, with commas between them",
    )
    comparing.add_argument("--markdown", type=Path, metavar="FILE", help="write it as Markdown, for a pull request")
    comparing.add_argument("--json", type=Path, metavar="FILE", help="write it as JSON, for machines")


def _add_bisect(commands: Any) -> None:
    searching = add(commands, "bisect", _bisect, "find the commits that made a case slower")
    searching.add_argument(
        "cases", nargs="+", metavar="CASE", help="cases, and last the range of commits: GOOD..BAD"
    ).completer = case_ids
    searching.add_argument(
        "--from-history", action="store_true", help="take the range from the case's saved runs: give one case alone"
    )
    searching.add_argument("--all-commits", action="store_true", help="walk the commits of merged branches too")
    searching.add_argument("--warm-cache", action="store_true", help="leave L2 as it is between samples")
    searching.add_argument(
        "--arch", default=DIFF_ARCH, help=f"compile for this one where there is no GPU ({DIFF_ARCH})"
    )
    add_device(searching)


def add_changes(commands: Any) -> None:
    """Add the subcommands."""
    _add_diff(commands)
    _add_explain(commands)
    _add_bisect(commands)
