"""Reads command lines as `warpwatch` does, and runs git, for tests that call a subcommand's function."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.checkout import DATES
from warpwatch.cli.main import make_parser

WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


def arguments(*words: str) -> dict[str, Any]:
    """Return the arguments that a command line gives to the subcommand's ``run``."""
    options = vars(make_parser(words).parse_args(words))
    del options["command"], options["parser"]
    return options


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, as somebody and at a time that stay the same; returns what it prints."""
    command = ["git", *WHO, *words]
    done = subprocess.run(command, cwd=folder, env=os.environ | DATES, check=True, capture_output=True, text=True)
    return done.stdout.strip()
