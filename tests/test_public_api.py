"""Tests that no public name, signature or option changes unnoticed, and that the API reference has them all."""

from __future__ import annotations

import difflib
import re

import pytest

import warpwatch
from tests.project import ROOT
from tools.public_api import LIST, MODULES, public_api

REFERENCE = ROOT / "docs" / "site" / "api"


def test_the_public_names_and_signatures_are_those_of_the_list() -> None:
    changed = difflib.unified_diff(LIST.read_text().splitlines(), public_api().splitlines(), lineterm="", n=0)
    lines = [line for line in changed if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    if lines:
        cure = "docs/stability.md says what a change needs; `python -m tools.public_api` writes the list anew"
        pytest.fail("\n".join([f"the public API differs from {LIST.relative_to(ROOT)}; {cure}:", *lines]))


def test_the_reference_has_a_page_for_each_module_and_every_name_of_a_declaration() -> None:
    pages = {path.stem: path.read_text() for path in REFERENCE.glob("*.md")}
    assert {module.rpartition(".")[2] for module in MODULES} == pages.keys()
    named = re.findall(r"^\.\. [\w:]+:: warpwatch\.(\w+)$", pages["warpwatch"], re.MULTILINE)
    assert sorted(named) == sorted(warpwatch.__all__)
