"""Reads command lines as `warpwatch` does, for tests that call a subcommand's function."""

from __future__ import annotations

from typing import Any

from warpwatch.cli.main import make_parser


def arguments(*words: str) -> dict[str, Any]:
    """Return the arguments that a command line gives to the subcommand's ``run``."""
    options = vars(make_parser(words).parse_args(words))
    del options["command"]
    return options
