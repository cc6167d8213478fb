"""Checks a tag and prints what its version brings: ``python -m tools.release v0.2.0``, in the workflow of releases."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from warpwatch import __version__

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def notes(tag: str, version: str, changelog: str) -> str:
    """Return the changelog's section of a version. Raises ValueError where the tag or the section does not fit."""
    if tag != f"v{version}":
        raise ValueError(f"tag {tag}: the version is {version} (warpwatch/__init__.py); tag v{version}, or change it")
    begin = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    section = re.search(rf"{begin}\n(.*?)(?=^## |^\[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if not section or not section[1].strip():
        raise ValueError(f"CHANGELOG.md: no section '## [{version}] - YYYY-MM-DD'; give [Unreleased] that title")
    return section[1].strip() + "\n"


def main(tag: str) -> int:
    try:
        print(notes(tag, __version__, CHANGELOG.read_text()), end="")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
