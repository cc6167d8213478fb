"""Finds a browser for the tests of the site, which is no Python package."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LACKING = "needs a browser: apt install chromium, or python -m playwright install chromium-headless-shell"


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open this machine's Chromium or the one that Playwright has installed; skip the test where there is none."""
    with sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        own = Path(playwright.chromium.executable_path)
        if not program and not own.exists() and not list(own.parents[2].glob("chromium_headless_shell-*")):
            pytest.skip(LACKING)
        # The sandbox needs rights that containers and root do not have; only pages that were just made are opened.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
