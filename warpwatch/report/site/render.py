"""Renders the pages of a site, and the page above several, by Jinja2 (extra ``report``).

Jinja2 escapes whatever a saved run holds.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import jinja2
import msgspec
from markupsafe import Markup
from msgspec import Meta

from warpwatch.catalogue.project import Project
from warpwatch.report.numbers import FORMATS
from warpwatch.report.site.case_page import CasePage
from warpwatch.report.site.content import Content
from warpwatch.report.site.family_page import FamilyPage
from warpwatch.report.site.folder import SiteFolder
from warpwatch.report.site.machine_page import MachinePage
from warpwatch.report.site.nights_page import NightsPage
from warpwatch.report.site.today_page import MEANING, TodayPage
from warpwatch.report.tables import figures_of
from warpwatch.runs.record import BadRun, Count, Text

HERE = files("warpwatch.report.site")
ASSETS = {
    "site.css": ("uplot/uPlot.min.css", "site.css"),
    "site.js": ("site.js",),
    "uPlot.iife.min.js": ("uplot/uPlot.iife.min.js",),
    "uPlot.LICENSE.txt": ("uplot/LICENSE",),
}
PAGES = {
    "Today": "index.html",
    "Cases": "cases.html",
    "Families": "families.html",
    "Machine": "machine.html",
    "Nights": "nights.html",
}
SUMMARY = "site.json"  # what a site says of itself
LARGEST = 2**16  # bytes of it
# Verdicts with a column over several sites in any case; others where they are.
FIRST = ("slower", "faster", "unsure", "missing", "same")


@dataclass(frozen=True, kw_only=True)
class Site:
    """Summary of a site: its GPU and what its times mean, its newest run, how many cases have each verdict."""

    gpu: Text
    note: Text = ""
    commit: Text = ""
    when: Text = ""
    nights: Count = 0
    verdicts: Annotated[dict[Text, Count], Meta(max_length=20)] = field(default_factory=dict)
    folder: str = ""

    def encoded(self) -> bytes:
        """Return the content of a site's own file, in which nothing is HTML, whoever shows it as such."""
        return msgspec.json.encode(self).replace(b"<", b"\\u003c")


def make_site(project: Project, runs: Sequence[Path], folder: Path, runs_url: str = "") -> None:
    """Write the site of saved runs, and print what was left out and where it begins.

    ``runs_url``: where the runs' files are published. Raises BadRun and OSError.
    """
    place = SiteFolder(folder)  # before anything is read, which may take a while
    content = Content.gather(project, runs)
    for problem in content.problems:
        print(f"left out: {problem}", file=sys.stderr)
    pages = render(content, folder, runs_url)
    size = place.write(pages)
    print(f"{len(pages)} files, {size / 1e6:.1f} MB: open {folder / 'index.html'}")


def render(content: Content, folder: Path, runs_url: str = "") -> dict[str, bytes]:
    """Make every file of the site, by its path from ``folder``, in which it is to lie."""
    entries, today = content.entries, content.today
    families = [FamilyPage(content, name) for name in dict.fromkeys(e.family for e in entries if e.seconds)]
    pages: list[tuple[str, str, object]] = [
        ("index.html", "index.html", TodayPage(content)),
        ("cases.html", "cases.html", _filters(content)),
        ("families.html", "families.html", families),
        ("machine.html", "machine.html", MachinePage(content)),
        ("nights.html", "nights.html", NightsPage(content)),
        *((family.path, "family.html", family) for family in families),
        *((entry.page, "case.html", CasePage(content, entry)) for entry in entries),
    ]
    common = {
        "address": functools.partial(_address, folder, runs_url),
        "content": content,
        "today": today,
        "machine": today.gpu.name or "No GPU",
        "pages": PAGES,
        "families": {family.name: family.path for family in families},
        "pages_of": {entry.id: entry.page for entry in entries},
    }
    files = {}
    for path, template, page in pages:
        text = _environment().get_template(template).render(common, root="../" * path.count("/"), page=page)
        files[path] = text.encode()
    summary = Site(
        gpu=today.gpu.name or today.slug,
        note=today.gpu.note,
        commit=str(today.commit),
        when=today.when.isoformat(timespec="minutes") if today.when else "",
        nights=len(content.nights),
        verdicts=dict(Counter(entry.verdict for entry in entries)),
    )
    times = [round(run.when.timestamp()) if run.when else None for run in content.nights]
    nights = _as_json({"t": times, "c": [str(run.commit) for run in content.nights]})
    files |= {SUMMARY: summary.encoded(), "assets/nights.js": f"const NIGHTS = {nights};\n".encode()}
    return files | {f"assets/{name}": _asset(name) for name in ASSETS}


def write_overview(folder: Path, wanted: int = 0) -> list[Site]:
    """Write index.html over the sites in a folder's folders; returns them. Raises BadRun or OSError.

    ``wanted``: how many there should be, where that is known. The page says how many are missing.
    """
    sites = [_read_summary(path) for path in sorted(folder.glob(f"*/{SUMMARY}"))]
    if not sites:
        raise BadRun(f"{folder}: holds no folder with a site; `warpwatch report RUN... --html FOLDER/NAME` makes one")
    verdicts = dict.fromkeys([*FIRST, *sorted({verdict for site in sites for verdict in site.verdicts})])
    template, missing = _environment().get_template("sites.html"), said_missing(len(sites), wanted)
    page = template.render(sites=sites, verdicts=verdicts, missing=missing)
    place = SiteFolder(folder, beside=[site.folder for site in sites])
    place.write({"index.html": page.encode(), "assets/site.css": _asset("site.css")})
    return sites


def said_missing(found: int, wanted: int) -> str:
    """Return a sentence on the sites that are not there, or nothing."""
    if found >= wanted:
        return ""
    left = wanted - found
    return f"{left} of {wanted} GPUs left no site: what became of {'their' if left > 1 else 'its'} kernels is not known"


def _read_summary(path: Path) -> Site:
    try:
        with path.open("rb") as file:
            site = msgspec.json.decode(file.read(LARGEST), type=Site, strict=True)
    except ValueError as error:
        raise BadRun(f"{path}: does not say what its site shows ({error}): make the site again") from None
    return replace(site, folder=path.parent.name)


def _address(folder: Path, runs_url: str, path: Path, root: str) -> str:
    """Return the address of a saved file, seen from a page: its name under ``runs_url``, or where it lies on disk."""
    if runs_url:
        return f"{runs_url.rstrip('/')}/{quote(path.name)}"
    return root + quote(Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix())


def _filters(content: Content) -> dict[str, list[str]]:
    """Return what the list of cases can be filtered by; assets/site.js reads family and type from the ids."""
    plain = [entry for entry in content.entries if entry.dtype]
    families, dtypes = ([getattr(entry, name) for entry in plain] for name in ("family", "dtype"))
    return {"verdict": [*MEANING], "family": [*dict.fromkeys(families)], "type": [*dict.fromkeys(dtypes)]}


def _as_json(value: Any) -> Markup:
    """Write data as JSON that may stand in a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _asset(name: str) -> bytes:
    """Return a file of the site's own that all its pages share."""
    return b"".join(HERE.joinpath("assets", part).read_bytes() for part in ASSETS[name])


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: HERE.joinpath("templates", name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {**FORMATS, "json": _as_json, "said": figures_of}
    return environment
