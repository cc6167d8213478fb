"""Checks or times kernels that somebody else wrote, with pytest: ``warpwatch judge``.

It does what `pytest --untrusted` does, but for what pytest does before: to import the plugins that the repository's
own settings name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from warpwatch.catalogue.project import find_setting
from warpwatch.catalogue.setting import SETTING
from warpwatch.devices.foreign.judging import replace_process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tests", choices=("correctness", "bench"), help="are kernels right, or how fast are they?")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for pytest, such as -k softmax")


def run(*, tests: str, arguments: list[str]) -> int:
    """Replace this process by pytest. Raises BadProject where no kernels are named."""
    setting = find_setting(Path.cwd())
    named = setting.module if setting.named == SETTING else ""
    command = ["warpwatch", "judge", tests, *arguments]
    replace_process(setting.root, named, [tests, "--warpwatch-untrusted", *arguments], command)
