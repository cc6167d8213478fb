"""Renders the pages of the site by Jinja2 (extra ``report``), which escapes whatever a saved run holds."""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from warpwatch.report.site.case_page import CasePages
from warpwatch.report.site.family_page import family_pages
from warpwatch.report.site.figures import micro, nano, percent
from warpwatch.report.site.machine_page import machine_page
from warpwatch.report.site.material import Entry, Material, entries
from warpwatch.report.site.nights_page import nights_page
from warpwatch.report.site.overview import ABOUT, Site, about
from warpwatch.report.site.today_page import MEANING, OTHERS, SHOWN, today_page
from warpwatch.report.tables import figures_of

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
LATEST = 5  # lasting changes that the first page shows


@dataclass(frozen=True, kw_only=True)
class Renderer:
    """Renders templates with what all pages share."""

    environment: jinja2.Environment
    common: Mapping[str, Any]
    made: dict[str, bytes] = field(default_factory=dict)

    def add(self, path: str, template: str, **values: Any) -> None:
        """Render a page that lies at ``path`` from the site's root."""
        root = "../" * path.count("/")
        text = self.environment.get_template(template).render(**self.common, root=root, **values)
        self.made[path] = text.encode()


def as_json(value: Any) -> Markup:
    """Write data as JSON that may stand in a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def addresses(folder: Path, runs_url: str) -> Callable[[Path, str], str]:
    """Return a function that makes the address of a saved file, seen from a page.

    The files are found where they lie on disk, or under ``runs_url`` by their names.
    """

    def address(path: Path, root: str) -> str:
        if runs_url:
            return f"{runs_url.rstrip('/')}/{quote(path.name)}"
        return root + quote(Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix())

    return address


def render(material: Material, folder: Path, runs_url: str = "") -> dict[str, bytes]:
    """Make every file of the site, by its path from ``folder``, in which it is to lie."""
    cases_shown = entries(material)
    renderer = _renderer(material, cases_shown, addresses(folder, runs_url))
    cases = CasePages(material, cases_shown)
    families = family_pages(cases_shown, cases.roofs)
    names = {family["name"] for family in families}
    latest = sorted(material.steps, key=lambda step: cases.numbers[step.after.path], reverse=True)[:LATEST]
    renderer.add(
        "index.html", "index.html", here="Today", page=today_page(material, cases_shown), latest=latest, meaning=MEANING
    )
    renderer.add("cases.html", "cases.html", here="Cases", entries=cases_shown, filters=_filters(cases_shown))
    renderer.add("families.html", "families.html", here="Families", families=families)
    renderer.add("machine.html", "machine.html", here="Machine", page=machine_page(material, cases_shown))
    renderer.add("nights.html", "nights.html", here="Nights", page=nights_page(material))
    for family in families:
        renderer.add(family["page"], "family.html", here="Families", page=family)
    for entry in cases_shown:
        renderer.add(entry.page, "case.html", here="Cases", page=cases.page(entry), families=names)
    renderer.made[ABOUT] = about(_about(material, cases_shown))
    times = [round(run.when.timestamp()) if run.when else None for run in material.nights]
    data = as_json({"t": times, "c": [str(run.commit) for run in material.nights]})
    renderer.made["assets/nights.js"] = f"const NIGHTS = {data};\n".encode()
    for name, parts in ASSETS.items():
        renderer.made[f"assets/{name}"] = b"".join(HERE.joinpath("assets", part).read_bytes() for part in parts)
    return renderer.made


def _about(material: Material, found: list[Entry]) -> Site:
    today = material.today
    return Site(
        gpu=today.gpu.name or today.slug,
        commit=str(today.commit),
        when=today.when.isoformat(timespec="minutes") if today.when else "",
        nights=len(material.nights),
        verdicts=dict(Counter(entry.verdict or "not compared" for entry in found)),
    )


@functools.cache
def _environment() -> jinja2.Environment:
    """The environment of all templates, each of which is compiled once."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: HERE.joinpath("templates", name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"json": as_json, "micro": micro, "percent": percent, "nano": nano, "said": figures_of}
    return environment


def _renderer(material: Material, found: list[Entry], address: Callable[[Path, str], str]) -> Renderer:
    common = {
        "address": address,
        "today": material.today,
        "machine": material.today.gpu.name or "No GPU",
        "pages": PAGES,
        "past": material.verdicts.past,
        "steps": material.steps,
        "nights": material.nights,
        "numbers": {run.path: i for i, run in enumerate(material.nights)},
        "pages_of": {entry.id: entry.page for entry in found},
    }
    return Renderer(environment=_environment(), common=common)


def _filters(found: list[Entry]) -> dict[str, list[str]]:
    """Return what the list of cases can be filtered by; assets/site.js reads family and type from the ids."""
    plain = [entry for entry in found if entry.dtype]
    columns = {
        "verdict": [*SHOWN, *OTHERS],
        "family": [entry.family for entry in plain],
        "type": [entry.dtype for entry in plain],
    }
    return {name: list(dict.fromkeys(values)) for name, values in columns.items()}
