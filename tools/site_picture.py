"""Makes the README's picture: a verdict, faults and a ladder: ``python -m tools.site_picture``.

Verdict and faults are those of pages, which tests/test_docs.py holds against what is printed,
and the ladder is the chart of a page that is made of the H200's baseline. It needs a Chromium, which `make` does not
install: apt install chromium.
"""

from __future__ import annotations

import base64
import html
import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.project import ROOT
from warpwatch.catalogue.project import find_project
from warpwatch.report.site.render import make_site
from warpwatch.runs.files import run_files

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PICTURE = ROOT / "docs" / "pictures" / "overview.png"
WIDTH = 1100  # pixels
FAMILY = "matmul"
# A page and the first words of the block on it that is shown.
VERDICT = (ROOT / "README.md", "conv2d-columns-")
WRONG = (ROOT / "README.md", "matmul-tiled-")
FAULT = (ROOT / "docs" / "no-gpu.md", "softcuda: race in ")
PLAIN = "figure details { display: none } figure { border: 0 !important; padding: 0 !important; margin: 0 !important }"
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 16px; background: #f6f7f9; font: 15px system-ui, sans-serif; color: #1b1f24;
  display: grid; grid-template-columns: 1fr 1fr; gap: 16px; width: {width}px; box-sizing: border-box }}
section {{ background: #fff; border: 1px solid #d8dde3; border-radius: 6px; padding: 14px 16px }}
h2 {{ font-size: 16px; margin: 0 0 8px }} p {{ margin: 8px 0 0; color: #57606a; font-size: 14px }}
pre {{ margin: 0; padding: 12px; border-radius: 4px; background: #16191d; color: #e6e9ed;
  font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre-wrap; overflow-wrap: anywhere }}
.left {{ display: grid; gap: 16px; align-content: start }} img {{ width: 100%; display: block }}
</style><div class="left">
<section><h2>Is it slower?</h2><pre>{verdict}</pre>
<p>An H200, while a kernel was rewritten: both versions in turns, in the same processes.</p></section>
<section><h2>Is it right?</h2><pre>{wrong}</pre>
<p>Where the last row was left out.</p></section>
<section><h2>Has it a race?</h2><pre>{fault}</pre>
<p>On softcuda, without a GPU: a barrier was taken out.</p></section></div>
<section><h2>How far is it from what the hardware allows?</h2><img src="data:image/png;base64,{ladder}">
<p>float32 matrix products on an H200; the reference is cuBLAS.</p></section>"""


def shown(page: Path, first: str) -> str:
    """Return the block of text on a page that begins with these words."""
    blocks = re.findall(r"^```text\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if block.startswith(first))
    return html.escape(block.partition("\n  first")[0].rstrip("\n"))


def ladder(browser: Browser, folder: Path) -> str:
    """Return the ladder of the family's first element type on its page, as PNG in base64."""
    project = find_project(ROOT)
    make_site(project, run_files(project.baselines / "nvidia-h200"), folder)
    page = browser.new_page(viewport={"width": WIDTH, "height": 900}, device_scale_factor=2)
    page.goto((folder / "f" / f"{FAMILY}.html").as_uri())
    page.wait_for_selector("figure canvas")
    page.add_style_tag(content=PLAIN)
    return base64.b64encode(page.locator("section:first-of-type figure").first.screenshot()).decode()


def draw(picture: Path) -> None:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        # The sandbox needs rights that containers do not have; only pages that were just made are opened.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        parts = {"verdict": shown(*VERDICT), "wrong": shown(*WRONG), "fault": shown(*FAULT)}
        parts["ladder"] = ladder(browser, Path(name) / "site")
        page = browser.new_page(viewport={"width": WIDTH, "height": 400})
        page.set_content(PAGE.format(width=WIDTH, **parts))
        picture.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=picture, full_page=True)
        browser.close()


if __name__ == "__main__":
    draw(PICTURE)
    print(f"wrote {PICTURE}")
