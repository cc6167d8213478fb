"""Tests that private names of pytest, pytest-benchmark and pytest-xdist stand in two places, and which were tried."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.project import ROOT
from warpwatch.plugin.pytest_benchmark_bridge import TRIED

ALLOWED = ("warpwatch/plugin/pytest_benchmark_bridge.py", "warpwatch/plugin/xdist/")
PACKAGES = ("_pytest", "pytest_benchmark", "xdist")
# Attributes of their objects that are no part of what they document, although no underscore says so.
INTERNALS = {"workerinput", "workeroutput", "workqueue", "nodemanager", "item_index", "has_error", "loadscopereorder"}


def sources() -> list[Path]:
    return sorted((ROOT / "warpwatch").rglob("*.py"))


@functools.cache
def own_names() -> frozenset[str]:
    """Return every name that the plugin defines, so that other attributes with an underscore are others'."""
    names = set[str]()
    for path in (path for path in sources() if path.is_relative_to(ROOT / "warpwatch/plugin")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
                    names.add(node.attr)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(names)


def private_names(source: str, *, meets_their_objects: bool = True) -> Iterator[str]:
    """Yield the private names of the three packages in a source, and of their objects where it is given some."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in PACKAGES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            yield f"{node.module}"
        elif isinstance(node, ast.Attribute) and meets_their_objects:
            private = node.attr.startswith("_") and not node.attr.startswith("__") and node.attr not in own_names()
            if private or node.attr in INTERNALS:
                yield node.attr
        elif isinstance(node, ast.Constant):
            text = str(node.value)
            if text in INTERNALS or text.startswith(("_pytest.", "pytest_benchmark.")):
                yield text


def test_they_stand_in_the_bridge_and_in_xdist_alone() -> None:
    users = {}
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        meets = name.startswith("warpwatch/plugin/")
        users[name] = set(private_names(path.read_text(), meets_their_objects=meets))
    assert {name: names for name, names in users.items() if names and not name.startswith(ALLOWED)} == {}
    assert len(users) > 100
    assert {"_pytest.junitxml", "_benchmarksession", "_groups"} <= users[ALLOWED[0]]


@pytest.mark.parametrize(
    "planted",
    [
        "from _pytest.runner import runtestprotocol",
        "import pytest_benchmark.utils",
        "def load():\n    from xdist.scheduler import LoadScheduling",
        "def benchmarks(config):\n    return config._benchmarksession.benchmarks",
        "def handed(config):\n    return config.workerinput['folder']",
        "def handed(config):\n    return getattr(config, 'workerinput', {})",
        "def load():\n    return importlib.import_module('_pytest.junitxml')",
    ],
)
def test_a_private_name_anywhere_else_is_seen(planted: str) -> None:
    assert list(private_names(planted))


def number(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


@pytest.mark.parametrize("package", TRIED)
def test_this_version_lies_between_those_that_were_tried(package: str) -> None:
    oldest, newest = TRIED[package]
    how = "run tests/plugin with it and enter it in TRIED (CONTRIBUTING.md, Versions of pytest)"
    assert number(oldest) <= number(version(package)) <= number(newest), how


@pytest.mark.parametrize("package", TRIED)
def test_the_oldest_version_that_may_be_installed_was_tried(package: str) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (oldest,) = (text.partition(">=")[2] for text in wanted if text.partition(">=")[0] == package)
    tried = number(TRIED[package][0])
    assert tried[: len(number(oldest))] == number(oldest)
