"""Holds what the command line's modules share: adding a subcommand, and tab completion."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import BadProject, find_project
from warpwatch.catalogue.selection import timed_cases


def case_ids(prefix: str, **_: object) -> list[str]:
    """List case ids for tab completion."""
    try:
        project = find_project(Path.cwd())
    except BadProject:
        return []
    return [case.id for case in timed_cases(project.families) if case.id.startswith(prefix)]


def revisions(prefix: str, **_: object) -> list[str]:
    """List branches and tags for tab completion."""
    command = ["git", "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags"]
    try:
        names = subprocess.run(command, capture_output=True, errors="replace", check=False).stdout.split()
    except OSError:  # no git
        return []
    return [name for name in names if name.startswith(prefix)]


def add(commands: Any, name: str, run: Callable[[Any, argparse.Namespace], int], text: str) -> Any:
    """Add a subcommand whose one-line help and description are the same text."""
    parser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(run=run, loads_project=True)
    return parser


def add_device(parser: Any) -> None:
    kinds = ("auto", "gpu", "software")
    parser.add_argument("--device", choices=kinds, default="auto", help="auto: a GPU where there is one, else software")


SHOWN = 60  # characters of an expression that a message repeats


def selector(expression: str) -> Callable[[str], bool]:
    """Make a function that is true for case ids that match an expression, as ``pytest -k`` understands it.

    The expression is compiled by pytest itself: words that occur in the id, in upper or lower case, with and, or, not
    and brackets. An empty one matches everything. Raises BadCase where it is no expression.
    """
    from _pytest.mark import expression as language  # noqa: PLC0415  # takes a fifth of a second, and few commands need it

    if not expression.strip():
        return lambda name: True
    malformed = getattr(language, "ParseError", SyntaxError)  # pytest 8 has its own class
    shown = repr(expression if len(expression) <= SHOWN else expression[:SHOWN] + "...")
    try:
        compiled = language.Expression.compile(expression)

        def matches(name: str) -> bool:
            def occurs(word: str, /, **parameters: object) -> bool:
                if parameters:
                    raise BadCase(f"-k {shown}: {word}(...) is for pytest's -m; -k takes words without brackets")
                return word.lower() in name.lower()

            return compiled.evaluate(occurs)

        matches("")  # an expression that is nested too deeply fails here or above
    except (malformed, SyntaxError) as error:
        why = getattr(error, "msg", None) or str(error)
        raise BadCase(f"-k {shown} is not an expression of words, and, or, not and brackets: {why}") from None
    except (RecursionError, MemoryError):
        raise BadCase(f"-k {shown} is nested too deeply: write it with fewer brackets or nots") from None
    return matches
