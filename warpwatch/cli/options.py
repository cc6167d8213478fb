"""Options and their values, tab completion and other parts that subcommands share."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from warpwatch.arguments import one_of, positive_integer
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import BadProject, Project, find_project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.catalogue.validation import require
from warpwatch.devices.compile.compiler import ARCH as ARCH  # noqa: PLC0414  # subcommands import it from here
from warpwatch.revision.commit import find_commit, find_merge_base

INTERRUPTED = 130  # the exit status of what Ctrl-C ends
LISTED = 3  # names in a line that names some of several
SHOWN = 60  # characters of an expression that a message repeats
WORD = re.compile(r"[\w:+.\[\]\\/-]+")  # of pytest's expressions
WITH_VALUE = re.compile(r"(\w+)\(\s*\w+\s*=")


class BadArgument(ValueError):
    """Raised when an argument of the command line cannot be used; the message says what can."""


def add_keywords(parser: argparse.ArgumentParser, text: str = "only cases that match, as pytest -k") -> None:
    parser.add_argument("-k", dest="keywords", default="", metavar="EXPR", help=text)


def add_device(parser: argparse.ArgumentParser) -> None:
    text = "auto: a GPU where there is one, else the software device"
    parser.add_argument("--device", default="auto", help=text, **one_of("auto", "gpu", "software"))


def add_arch(parser: argparse.ArgumentParser) -> None:
    """Add --arch, for commands that compile for this machine's GPU."""
    parser.add_argument("--arch", default=ARCH, help=f"compile for this one where there is no GPU ({ARCH})")


def add_recording(parser: argparse.ArgumentParser) -> None:
    """Add what says how a baseline is recorded."""
    parser.add_argument(
        "-n", dest="count", type=positive_integer, default=5, metavar="RUNS", help="processes that measure (5)"
    )
    add_keywords(parser)
    parser.add_argument("--allow", dest="allowed", nargs="+", default=[], metavar="WORD", help="as for promote")


def add_runs(
    parser: argparse.ArgumentParser, text: str = "a saved run, or a folder of them; of several, medians are shown"
) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help=text)


def completed(argument: argparse.Action, completer: Callable[..., list[str]]) -> None:
    """Have the tab key complete an argument."""
    argument.completer = completer  # type: ignore[attr-defined]


def base_of(project: Project, revision: str | None) -> tuple[str, str]:
    """Return the commit to compare with, and its name: of a revision, else the merge base with the main branch.

    Raises BadRevision.
    """
    if revision is not None:
        return find_commit(revision, project.root), revision
    commit, branch = find_merge_base(project.root)
    return commit, f"the merge base with {branch}"


def few(names: Sequence[str], most: int = LISTED) -> str:
    """Return the first names in a line, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def words(text: str) -> Sequence[str]:
    """Read a list with commas between its words."""
    return tuple(dict.fromkeys(filter(None, text.split(","))))


def gpu_case(project: Project, name: str, command: str) -> Case:
    """Return a case of a kernel or call by its id. Raises BadCase, also for one of the host."""
    require(project.families, name)
    case = find_case(project.families, name)
    if case.variant.on_host:
        raise BadCase(f"{name} runs on the host: {command} takes cases of kernels and calls")
    return case


def progress(words: str) -> Callable[[int, int], None]:
    """Return a function that shows on a terminal how many of all are done."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{words} {done}/{total} ", end="\n" if done >= total else "", file=sys.stderr, flush=True)

    return show


def case_ids(prefix: str, **_: object) -> list[str]:
    """List case ids for tab completion."""
    return [case.id for case in timed_cases(_families()) if case.id.startswith(prefix)]


def family_names(prefix: str, **_: object) -> list[str]:
    """List families for tab completion."""
    return [family.name for family in _families() if family.name.startswith(prefix)]


def _families() -> tuple[Family, ...]:
    try:
        return find_project(Path.cwd()).families
    except BadProject:
        return ()


def revisions(prefix: str, **_: object) -> list[str]:
    """List branches and tags for tab completion."""
    command = ["git", "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags"]
    try:
        names = subprocess.run(command, capture_output=True, errors="replace", check=False).stdout.split()
    except OSError:  # no git
        return []
    return [name for name in names if name.startswith(prefix)]


def selector(expression: str) -> Callable[[str], bool]:
    """Return a function that is true for case ids that match an expression, as ``pytest -k`` understands it.

    An expression has words that occur in the id, in upper or lower case, with and, or, not and brackets. An empty one
    matches everything. Raises BadCase where it is malformed.
    """
    if not expression.strip():
        return lambda name: True
    shown = repr(expression if len(expression) <= SHOWN else expression[:SHOWN] + "...")
    if called := WITH_VALUE.search(expression):
        raise BadCase(f"-k {shown}: {called[1]}(...) is for pytest's -m; -k takes words without brackets")
    try:
        tree, parts = _parsed(expression)
        _holds(tree, parts, "")  # an expression that is nested too deeply fails here or above
    except SyntaxError as error:
        raise BadCase(f"-k {shown} is not an expression of words, and, or, not and brackets: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise BadCase(f"-k {shown} is nested too deeply: write it with fewer brackets or nots") from None
    return lambda name: _holds(tree, parts, name.lower())


def _parsed(expression: str) -> tuple[ast.expr, Sequence[str]]:
    """Parse an expression as one of Python whose names ``_0``, ``_1``, ... stand for its words, in lower case."""
    parts: list[str] = []

    def name(word: re.Match[str]) -> str:
        if word[0] in ("and", "or", "not"):
            return word[0]
        parts.append(word[0].lower())
        return f"_{len(parts) - 1}"

    if other := re.search(r"[^()\s]", WORD.sub("", expression)):
        raise SyntaxError(f"unexpected character {other[0]!r}")
    named = WORD.sub(name, " ".join(expression.split()))
    try:
        return ast.parse(named, mode="eval").body, parts
    except SyntaxError as error:
        if "too many nested" in error.msg:
            raise RecursionError from None
        raise SyntaxError("a word, an operator or a bracket is missing") from None


def _holds(tree: ast.expr, parts: Sequence[str], name: str) -> bool:
    """Tell whether a parsed expression is true of a case id, which is in lower case."""
    match tree:
        case ast.Name():
            return parts[int(tree.id[1:])] in name
        case ast.UnaryOp():
            return not _holds(tree.operand, parts, name)
        case ast.BoolOp():
            values = [_holds(value, parts, name) for value in tree.values]
            return all(values) if isinstance(tree.op, ast.And) else any(values)
    raise SyntaxError("an operator is missing before a bracket")
