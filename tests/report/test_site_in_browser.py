"""Tests the site in a headless browser, from disk: charts, search, phone and darkness, keyboard, accessibility."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.project import PROJECT, ROOT
from tests.report.site_runs import Night, case_ids, identity_of, save
from warpwatch.report.site.render import make_site, write_overview

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
COUNT = 1000
NAMES = case_ids(COUNT)
# A case of each kind of page: with all four charts, with the most columns, and so on.
CASE = next(name for name in NAMES if name.startswith("matmul-tiled"))
SLOWER = next(name for name in NAMES if name.startswith("matmul-naive"))
PAGES = ["index.html", "cases.html", "families.html", "machine.html", "nights.html", "f/matmul.html", f"c/{CASE}.html"]
CHARTS = {"machine.html": 1, "nights.html": 2, f"c/{CASE}.html": 4}
# Counts the pixels of a canvas that have a colour: axes, grid and writing are grey.
COLOURED = """canvas => {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
        const colours = [data[i], data[i + 1], data[i + 2]];
        count += data[i + 3] > 100 && Math.max(...colours) - Math.min(...colours) > 50;
    }
    return count;
}"""


# Notes the middle of each text that is written upright.
WRITTEN = """() => {
    window.written = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const place = this.getTransform(), at = place.transformPoint({x, y}), width = this.measureText(text).width;
        const right = {center: 0, right: -width / 2, end: -width / 2}[this.textAlign] ?? width / 2;
        const down = {top: 6, bottom: -6}[this.textBaseline] ?? 0, canvas = this.canvas;
        const upright = Math.abs(place.b) < 0.1;
        if (text && upright) window.written.push({text, x: at.x + right, y: at.y + down, width, canvas});
    };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """This machine's Chromium or the one that Playwright has installed, which is no Python package."""
    with sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        own = Path(playwright.chromium.executable_path)
        if not program and not own.exists() and not list(own.parents[2].glob("chromium_headless_shell-*")):
            pytest.skip(
                "needs a browser: apt install chromium, or python -m playwright install chromium-headless-shell"
            )
        # The sandbox needs rights that containers and root do not have; only pages that were just made are opened.
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of a thousand cases, which is made only where there is a browser."""
    root = tmp_path_factory.mktemp("site")
    for day in range(5):
        save(root / "bench/baselines/a-gpu", NAMES, Night(day=day))
    runs = [save(root / "runs", NAMES, Night(day=day, samples=1)) for day in range(10, 20)]
    worse = Night(
        day=30,
        samples=20,
        factors={SLOWER: 1.5, CASE: 1.1},
        facts={name: {"identity": identity_of("another")} for name in (SLOWER, CASE)},
        processes={SLOWER: 5},
        without=NAMES[-2:],
    )
    runs.append(save(root / "runs", NAMES, worse))
    make_site(replace(PROJECT, root=root), runs, root / "site")
    return root / "site"


class Visit:
    """One page in the browser, and what it complained of."""

    def __init__(self, browser: Browser, width: int = 1400, scheme: Any = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("requestfailed", lambda request: self.complaints.append(f"not loaded: {request.url}"))
        self.page.on("request", lambda request: self._offline(request.url))

    def _offline(self, url: str) -> None:
        if not url.startswith(("file:", "data:")):
            self.complaints.append(f"needs a network: {url}")

    def open(self, site: Path, page: str) -> Page:
        path, _, fragment = page.partition("#")
        self.page.goto("about:blank")  # a fragment alone would not load the page again
        self.page.goto((site / path).as_uri() + (f"#{fragment}" if fragment else ""))
        return self.page


@pytest.mark.once
@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1400, "light"), (400, "light"), (1400, "dark")])
@pytest.mark.slow
def test_pages_load_draw_their_charts_and_fit(browser: Browser, site: Path, width: int, scheme: str) -> None:
    visit = Visit(browser, width, scheme)
    for name in PAGES:
        page = visit.open(site, name)
        assert visit.complaints == [], name
        drawn = page.locator("figure")
        assert drawn.count() == CHARTS.get(name, drawn.count())
        assert name not in CHARTS or drawn.count() > 0
        for i in range(drawn.count()):
            canvas = drawn.nth(i).locator("canvas")
            assert canvas.evaluate(COLOURED) > 20, f"{name}: chart {i} is empty"
            inside, outside = canvas.bounding_box(), drawn.nth(i).bounding_box()
            assert inside
            assert outside
            assert inside["width"] <= outside["width"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is wider than the screen"
    visit.context.close()


def test_no_page_is_wider_than_a_phone_whatever_names_are_long(browser: Browser, tmp_path: Path) -> None:
    names = [*NAMES[4:12], f"matmul-{'long_' * 30}-16x16-128x128x128-float32", "x" * 150]
    gpu = {"name": "GPU" * 40, "note": "its_times_are_the_hosts" * 6, "driver": "5" * 90}
    run = save(tmp_path / "runs", names, Night(day=1, gpu=gpu))
    make_site(replace(PROJECT, root=tmp_path), [run], tmp_path / "site")
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(names)
    context = browser.new_context(viewport={"width": 400, "height": 800}, is_mobile=True)
    page = context.new_page()
    for path in pages:
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
    context.close()


@pytest.mark.slow
def test_the_heads_of_a_long_table_stay(browser: Browser, site: Path) -> None:
    visit = Visit(browser)
    for name in ("cases.html", "f/matmul.html"):
        visit.open(site, name)
        moved = visit.page.evaluate("""() => {
            const room = document.querySelector(".scroll:has(thead)");
            room.scrollTo(0, 400);
            const top = room.querySelector("th").getBoundingClientRect().top;
            return [room.scrollTop, top - room.getBoundingClientRect().top];
        }""")
        assert moved[0] == 400, name
        assert abs(moved[1]) < 3, name
    visit.context.close()


@pytest.mark.once
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.slow
def test_no_chart_has_a_colour_or_a_marker_twice(browser: Browser, site: Path, scheme: str) -> None:
    visit = Visit(browser, 1400, scheme)
    page = visit.open(site, "f/matmul.html")
    looks = page.locator("figure").evaluate_all(
        """all => all.map(each => [...each.querySelectorAll(".u-series:not(:first-child) .u-marker")]
            .map(mark => [mark.style.background, mark.style.clipPath]))"""
    )
    assert max(map(len, looks)) > 9
    for marks in looks:
        assert len({colour for colour, _ in marks}) == len(marks)
        assert len({shape for _, shape in marks}) == len(marks)
    visit.context.close()


def on_one_power_of_ten(text: str) -> bool:
    """Tell whether a page has a roofline whose rates lie within one power of ten."""
    for spec in map(json.loads, re.findall(r'<script type="application/json">(.*?)</script>', text)):
        if spec.get("k") == "roofline":
            (memory, most), (((own, rate),),) = spec["roof"], spec["v"].values()
            least = min(most, rate, min(most / memory, own) / 3 * memory)
            return math.ceil(math.log10(most * 1.2)) - math.floor(math.log10(least / 1.2)) == 1
    return False


@pytest.mark.slow
def test_numbers_along_a_short_scale_are_not_printed_over_each_other(browser: Browser, site: Path) -> None:
    visit = Visit(browser, 400)
    name = next(path.name for path in sorted((site / "c").iterdir()) if on_one_power_of_ten(path.read_text()))
    page = visit.open(site, f"c/{name}")
    page.evaluate(WRITTEN)
    page.set_viewport_size({"width": 401, "height": 900})  # draws the charts again
    page.wait_for_function("written.length > 8")
    boxes = page.evaluate(
        """() => { const all = [...document.querySelectorAll("canvas")];
            return written.map(box => ({...box, canvas: all.indexOf(box.canvas)})); }"""
    )
    for one, other in itertools.combinations(boxes, 2):
        apart = abs(one["x"] - other["x"]) >= (one["width"] + other["width"]) / 2 or abs(one["y"] - other["y"]) >= 11
        assert apart or one["canvas"] != other["canvas"], (name, one, other)
    visit.context.close()


@pytest.mark.slow
def test_the_first_page_is_soon_drawn(browser: Browser, site: Path) -> None:
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    visit, times = Visit(browser), []
    for _ in range(3):
        page = visit.open(site, "index.html")
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        times.append(page.evaluate(paint))
    assert min(times) < 2000
    visit.context.close()


@pytest.mark.slow
def test_cases_are_found_by_words_and_filters_and_the_address_keeps_them(browser: Browser, site: Path) -> None:
    visit = Visit(browser)
    page = visit.open(site, "cases.html")
    shown, said = page.locator("#cases tbody tr:visible"), page.locator("output")
    assert shown.count() == COUNT
    assert said.inner_text() == "1,000 cases"
    page.get_by_label("Search").fill("TILED 16x16")
    wanted = [name for name in NAMES if "tiled" in name and "16x16" in name]
    assert 0 < len(wanted) < 200
    assert sorted(shown.locator("th").all_inner_texts()) == sorted(wanted)
    assert said.inner_text() == f"{len(wanted)} of 1,000 cases"
    page.get_by_label("Type").select_option("float64")
    assert shown.locator("th").all_inner_texts() == [name for name in wanted if name.endswith("float64")]
    assert "q=TILED+16x16" in page.url
    assert "type=float64" in page.url
    page = visit.open(site, "index.html")
    page.get_by_role("link", name="slower", exact=False).first.click()
    assert page.locator("#cases tbody tr:visible th").all_inner_texts() == [SLOWER]
    page.get_by_label("Verdict").select_option("")
    page.get_by_role("button", name="change").click()
    assert page.locator("#cases tbody tr:visible th").first.inner_text() == SLOWER
    assert page.locator("#cases thead th").nth(2).get_attribute("aria-sort") == "descending"
    assert visit.complaints == []
    visit.context.close()


@pytest.mark.slow
def test_a_chart_can_be_read_without_seeing_it_and_without_a_mouse(browser: Browser, site: Path) -> None:
    visit = Visit(browser)
    page = visit.open(site, f"c/{CASE}.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    history = page.locator("figure").filter(has_text="History")
    assert history.get_by_role("img", name="History").count() == 1
    history.locator("summary").focus()
    page.keyboard.press("Enter")
    rows = history.locator("details tbody tr")
    rows.first.wait_for()
    assert rows.count() == 11
    assert rows.first.locator("td").first.inner_text() == "2026-08-11 10ab10ab10ab"
    samples = page.locator("figure").filter(has_text="Samples")
    samples.locator("summary").click()
    samples.locator("details thead").wait_for()
    assert samples.locator("details thead th").all_inner_texts() == ["time, µs", "old", "new"]
    visit.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.slow
def test_no_page_has_a_fault_of_accessibility(browser: Browser, site: Path, scheme: str) -> None:
    visit = Visit(browser, 1400, scheme)
    shorter = {"cases.html": "cases.html#q=tiled+16x16+float64", "f/matmul.html": "f/matvec.html"}  # axe is slow
    for name in PAGES:
        page = visit.open(site, shorter.get(name, name))
        found = Axe().run(page).response["violations"]
        assert not found, f"{name}: {[(each['id'], each['impact'], each['nodes'][0]['html']) for each in found]}"
    visit.context.close()


@pytest.mark.slow
def test_the_readmes_picture_is_of_the_site(browser: Browser, tmp_path: Path) -> None:
    assert browser  # skipped where there is none
    code = f"from pathlib import Path; from tools.site_picture import draw; draw(Path({str(tmp_path / 'a.png')!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert "docs/pictures/overview.png" in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_the_page_above_several_sites_has_no_fault(browser: Browser, site: Path, tmp_path: Path) -> None:
    for name in ("one", "another"):
        shutil.copytree(site, tmp_path / "all" / name)
    write_overview(tmp_path / "all")
    for width, scheme in ((1400, "light"), (400, "dark")):
        visit = Visit(browser, width, scheme)
        page = visit.open(tmp_path / "all", "index.html")
        assert visit.complaints == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page).response["violations"]
        assert not [each for each in found if each["impact"] in ("serious", "critical")], found
        visit.context.close()
