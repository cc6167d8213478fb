"""Writes a site of saved runs: ``warpwatch report RUN... --html FOLDER``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from warpwatch.catalogue.project import Project
from warpwatch.report.site.folder import refuse_others, write_site
from warpwatch.report.site.material import gather


def make_site(project: Project, paths: Sequence[Path], folder: Path, runs_url: str) -> int:
    """Write the site and say where it begins; returns the exit status. Raises BadRun, ImportError, OSError."""
    from warpwatch.report.site.render import render  # noqa: PLC0415  # Jinja2 is an extra

    refuse_others(folder)  # before anything is read, which may take a while
    material = gather(project, paths)
    for problem in material.problems:
        print(f"left out: {problem}", file=sys.stderr)
    files = render(material, folder, runs_url)
    size = write_site(folder, files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB: open {folder / 'index.html'}")
    return 0
