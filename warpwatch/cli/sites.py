"""Writes the page above the sites of several GPUs: ``warpwatch sites``."""

from __future__ import annotations

from pathlib import Path


def make_overview(folder: Path, wanted: int) -> int:
    """Write the page and say where it is; returns the exit status. Raises BadRun, ImportError or OSError.

    ``wanted``: how many sites there should be.
    """
    from warpwatch.report.site.overview import said_missing, write_overview  # noqa: PLC0415  # Jinja2 is an extra

    sites = write_overview(folder, wanted)
    if missing := said_missing(len(sites), wanted):
        print(missing)
    print(f"{len(sites)} site{'s' * (len(sites) != 1)}: open {folder / 'index.html'}")
    return 0
