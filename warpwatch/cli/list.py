"""Lists cases: ``warpwatch list``."""

from __future__ import annotations

import argparse
import sys

from warpwatch.catalogue.names import unknown_word
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.catalogue.validation import problems
from warpwatch.cli.options import add_keywords, selector


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keywords(parser)
    parser.add_argument(
        "--suspicious",
        action="store_true",
        help="in place of cases: lines of kernels and declarations that are unusual, such as memory that outlives a "
        "launch; a remark for who reads foreign code, not a verdict",
    )


def run(project: Project, *, keywords: str, suspicious: bool) -> int:
    """Print every case that the benchmark times, then those that it leaves out, and why; returns the exit status."""
    if suspicious:
        from warpwatch.devices.compile.builds import suspicious_lines  # noqa: PLC0415  # lists need no compiler

        lines = suspicious_lines(project)
        print(*lines, sep="\n", end="\n" * bool(lines))
        print(f"{len(lines)} remarks; none of them is a verdict", file=sys.stderr)
        return 0
    matches = selector(keywords)
    timed, left_out = [*timed_cases(project.families)], [*omitted_cases(project.families)]
    shown = [case for case in timed if matches(case.id)]
    omitted = [case for case in left_out if matches(case.id)]
    width = max((len(case.id) for case in (*shown, *omitted)), default=0)
    for case in shown:
        print(f"{case.id:<{width}}  {case.variant.note}")
    for case in omitted:
        print(f"{case.id:<{width}}  left out: {case.omitted}")
    hint = "" if shown or omitted else unknown_word(keywords, (case.id for case in (*timed, *left_out)))
    print(f"{len(shown)} cases, {len(omitted)} left out{hint}", file=sys.stderr)
    wrong = [problem for problem in problems(project.families) if matches(problem.id)]
    for problem in wrong:
        print(f"error: {problem}", file=sys.stderr)
    return 2 if wrong else 0
