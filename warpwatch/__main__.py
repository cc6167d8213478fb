# PYTHON_ARGCOMPLETE_OK
"""Runs the command line: ``warpwatch``, also ``python -m warpwatch``."""

from typing import NoReturn

from warpwatch.cli.main import main
from warpwatch.report.terminal import run_command


def command() -> NoReturn:
    """Run the command line and end this process with its status."""
    run_command(main, abruptly=True)


if __name__ == "__main__":
    command()
