"""Writes the page above the sites of several GPUs: ``warpwatch sites``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from warpwatch.report.site.folder import SiteFolder
from warpwatch.report.site.render import SUMMARY, Site, asset, environment
from warpwatch.runs.record import BadRun

LARGEST = 2**16  # bytes of a site's summary
FIRST = ("slower", "faster", "unsure", "missing", "same")  # verdicts with a column in any case; others where they are


def write_overview(folder: Path, wanted: int = 0) -> list[Site]:
    """Write index.html over the sites in a folder's folders; returns them. Raises BadRun or OSError.

    ``wanted``: how many there should be, where that is known. The page says how many are missing.
    """
    sites = [_read(path) for path in sorted(folder.glob(f"*/{SUMMARY}"))]
    if not sites:
        raise BadRun(f"{folder}: holds no folder with a site; `warpwatch report RUN... --html FOLDER/NAME` makes one")
    verdicts = dict.fromkeys([*FIRST, *sorted({verdict for site in sites for verdict in site.verdicts})])
    template, missing = environment().get_template("sites.html"), said_missing(len(sites), wanted)
    page = template.render(sites=sites, verdicts=verdicts, missing=missing)
    place = SiteFolder(folder, beside=[site.folder for site in sites])
    place.write({"index.html": page.encode(), "assets/site.css": asset("site.css")})
    return sites


def said_missing(found: int, wanted: int) -> str:
    """Return a sentence on the sites that are not there, or nothing."""
    if found >= wanted:
        return ""
    left = wanted - found
    return f"{left} of {wanted} GPUs left no site: what became of {'their' if left > 1 else 'its'} kernels is not known"


def _read(path: Path) -> Site:
    try:
        with path.open("rb") as file:
            site = msgspec.json.decode(file.read(LARGEST), type=Site, strict=True)
    except ValueError as error:
        raise BadRun(f"{path}: does not say what its site shows ({error}): make the site again") from None
    return replace(site, folder=path.parent.name)
