"""Sphinx's settings for ``make docs``: the repository's pages where they are, and a reference of the public modules."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

import warpwatch  # noqa: E402
from tools.public_api import signature_of  # noqa: E402

project = "Warpwatch"
author = copyright = "The Warpwatch developers"
version = release = warpwatch.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "sphinx.ext.viewcode"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "softcuda/*.md", "examples/*/README.md", ".github/actions/*/README.md"]
include_patterns += ["bench/recordings/README.md"]
exclude_patterns = ["docs/site/contents.md"]

myst_heading_anchors = 4  # links lead to headings as on GitHub

default_role = "code"  # docstrings put names into single backticks
autodoc_default_options = {"members": True, "member-order": "bysource"}
maximum_signature_line_length = 80
numpydoc_show_class_members = False
smartquotes = False  # two hyphens begin an option

html_theme = "furo"
html_title = f"Warpwatch {release}"
html_additional_pages = {"index": "to_readme.html"}
html_copy_source = False
html_show_sphinx = False
templates_path = ["templates"]
html_theme_options = {
    "light_css_variables": {"code-font-size": "75%"},  # messages of 97 columns are seen whole; dark pages take it too
    "source_repository": "https://github.com/warpwatch/warpwatch/",
    "source_branch": "main",
    "source_directory": "",
}


def add_contents(_: Sphinx, page: str, source: list[str]) -> None:
    """Add the list of all pages, which the margin shows, to the first page."""
    if page == root_doc:
        source[0] += (HERE / "contents.md").read_text()


def written_signature(*event: Any) -> tuple[str, str] | None:
    """Return a signature as it is written, where autodoc would put what each name of it stands for."""
    _, what, _, subject, *_ = event
    if what not in ("class", "function", "method") or (what == "class" and issubclass(subject, Enum)):
        return None
    arguments, _, returned = signature_of(subject).rpartition(")")
    return f"{arguments})", "" if what == "class" else returned.removeprefix(" -> ")


def skips(*event: Any) -> bool | None:
    """Let the reference have the members of enumerations, of which each has its value as text."""
    _, _, _, member, *_ = event
    return False if isinstance(member, Enum) else None


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_contents)
    app.connect("autodoc-process-signature", written_signature)
    app.connect("autodoc-skip-member", skips)
