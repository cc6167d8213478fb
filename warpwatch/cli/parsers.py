"""Holds what the command line's modules share: adding a subcommand, and tab completion."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
