"""Writes the page above the sites of several GPUs: ``warpwatch sites``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import jinja2
import msgspec
from msgspec import Meta

from warpwatch.report.site.folder import write_site
from warpwatch.runs.record import BadRun, Count, Text

ABOUT = "site.json"  # what a site says of itself
LARGEST = 2**16  # bytes of it
FIRST = ("slower", "faster", "unsure", "missing", "same")  # verdicts with a column in any case; others where they are


@dataclass(frozen=True, kw_only=True)
class Site:
    """Summary of a site: its GPU, its newest run, and how many cases have each verdict."""

    gpu: Text
    commit: Text = ""
    when: Text = ""
    nights: Count = 0
    verdicts: Annotated[dict[Text, Count], Meta(max_length=20)] = field(default_factory=dict)
    folder: str = ""


def about(site: Site) -> bytes:
    """Return the content of a site's own file, in which nothing is HTML, whoever shows it as such."""
    return msgspec.json.encode(site).replace(b"<", b"\\u003c")


def write_overview(folder: Path, wanted: int = 0) -> list[Site]:
    """Write index.html over the sites in a folder's folders; returns them. Raises BadRun or OSError.

    ``wanted``: how many there should be, where that is known. The page says how many are missing.
    """
    sites = [_read(path) for path in sorted(folder.glob(f"*/{ABOUT}"))]
    if not sites:
        raise BadRun(f"{folder}: holds no folder with a site; `warpwatch report RUN... --html FOLDER/NAME` makes one")
    here = files("warpwatch.report.site")
    style = b"".join(here.joinpath("assets", part).read_bytes() for part in ("uplot/uPlot.min.css", "site.css"))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(here.joinpath("templates", "sites.html").read_text(encoding="utf-8"))
    verdicts = dict.fromkeys([*FIRST, *sorted({verdict for site in sites for verdict in site.verdicts})])
    page = template.render(sites=sites, verdicts=verdicts, missing=said_missing(len(sites), wanted))
    pages: Mapping[str, bytes] = {"index.html": page.encode(), "assets/site.css": style}
    write_site(folder, pages, beside=[site.folder for site in sites])
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
