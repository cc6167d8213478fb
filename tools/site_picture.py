"""Takes the README's picture from the site of the H200's baseline: ``python -m tools.site_picture``.

It needs a Chromium, which `make` does not install: apt install chromium.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tools.workflows import ROOT
from warpwatch.catalogue.project import find_project
from warpwatch.report.site.render import make_site
from warpwatch.runs.files import run_files

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PICTURE = ROOT / "docs" / "pictures" / "matmul.png"
WIDTH, MARGIN = 1100, 16  # pixels


def draw(picture: Path) -> None:
    """Write the first two charts of the first element type on the page of the family matmul."""
    project = find_project(ROOT)
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        site = Path(name) / "site"
        make_site(project, run_files(project.baselines / "nvidia-h200"), site)
        # The sandbox needs rights that containers do not have; only pages that were just made are opened.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto((site / "f" / "matmul.html").as_uri())
        page.wait_for_selector("figure canvas")
        boxes = [figure.bounding_box() for figure in page.query_selector_all("section:first-of-type figure")[:2]]
        top = min(box["y"] for box in boxes if box) - MARGIN
        bottom = max(box["y"] + box["height"] for box in boxes if box) + MARGIN
        picture.parent.mkdir(parents=True, exist_ok=True)
        clip = {"x": 0.0, "y": top, "width": float(WIDTH), "height": bottom - top}
        page.screenshot(path=picture, full_page=True, clip=clip)  # type: ignore[arg-type]  # a TypedDict there
        browser.close()


if __name__ == "__main__":
    draw(PICTURE)
    print(f"wrote {PICTURE}")
