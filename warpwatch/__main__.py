"""Runs the command line: ``python -m warpwatch``."""

from warpwatch.cli import main
from warpwatch.report.terminal import run_command

if __name__ == "__main__":
    run_command(main, abruptly=True)
