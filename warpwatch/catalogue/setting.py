"""Reads where a repository says that its kernels are declared, and where the results of its runs are kept.

A repository says it in ``[tool.warpwatch]`` of its pyproject.toml, where it may also choose the folders of baselines
and saved runs, or in pytest's setting ``warpwatch_kernels``. This module is imported in every repository where pytest
loads the plugin, so it costs next to nothing: what reads TOML is imported late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpwatch.catalogue.names import suggestion

SETTING = "warpwatch_kernels"  # among pytest's settings
TABLE = "[tool.warpwatch]"  # of pyproject.toml


def pyproject_of(folder: Path) -> Path | None:
    """Return the nearest pyproject.toml in a folder or above it."""
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def has_table(folder: Path) -> bool:
    """Tell whether the nearest pyproject.toml has a table of ours, without reading others as TOML."""
    try:
        return "warpwatch" in _tools(pyproject_of(folder), b"warpwatch")
    except BadProject:
        return False  # pytest itself says what is wrong with the file


BASELINES, RUNS = "bench/baselines", ".benchmarks"  # folders from the repository's root on
HOW = f'name the package or module that declares them, as kernels = "perf" in {TABLE} of pyproject.toml'


class BadProject(ValueError):
    """A repository whose kernels cannot be loaded; the message says why and what would be right."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The place of a repository's declarations, and the folders of its results.

    ``root``: the folder that contains the package of declarations; paths in messages start there. ``module``: import
    path of that package or module, empty where a table names none. ``named``: the option or setting that named it, for
    messages. ``baselines_folder``, ``runs_folder``: of the committed baselines and of saved runs, from ``root`` on.
    """

    root: Path
    module: str = ""
    named: str = f"{TABLE} kernels"
    baselines_folder: str = BASELINES
    runs_folder: str = RUNS


def read_table(file: Path | None) -> Setting | None:
    """Read the table of a pyproject.toml; None where there is none. Raises BadProject."""
    content = _tools(file, b"warpwatch").get("warpwatch")
    if file is None or content is None:
        return None
    if not isinstance(content, dict):
        raise BadProject(f"{file}: tool.warpwatch is {content!r}: write a table {TABLE} with kernels in it")
    known = ("kernels", "baselines", "runs")
    for key, value in content.items():
        if key not in known:
            raise BadProject(f"{file}: {TABLE} has an unknown key {key!r}; {suggestion(key, known)}")
        if not isinstance(value, str) or not value.strip():
            kind = "the import path of a package" if key == "kernels" else "the path of a folder"
            raise BadProject(f"{file}: {TABLE} has {key} = {value!r}: write {kind} in quotes")
    folders = {f"{key}_folder": folder for key, folder in content.items() if key != "kernels"}
    return Setting(root=file.parent, module=content.get("kernels", ""), **folders)


def pytest_settings(file: Path) -> Mapping[str, Any]:
    """Return pytest's settings in a pyproject.toml. Raises BadProject."""
    table = _tools(file, b"pytest").get("pytest", {})
    return {**table.get("ini_options", {}), **table}


def choose(root: Path, given: str, setting: str, table: Setting | None) -> Setting | None:
    """Choose among the option ``given``, pytest's ``setting`` and the table; None where none names declarations.

    ``root``: pytest's own. The option takes precedence. Raises BadProject where the two settings differ.
    """
    folders = replace(table or Setting(root=root), root=root)
    if given:
        return replace(folders, module=given, named="--warpwatch-kernels")
    if table and table.module:
        if setting not in ("", table.module):
            raise BadProject(f"{TABLE} kernels = {table.module!r}, but {SETTING} = {setting!r}: leave one of them out")
        return table
    return replace(folders, module=setting, named=SETTING) if setting else None


def _tools(file: Path | None, word: bytes) -> Mapping[str, Any]:
    """Return the tables of tools in a pyproject.toml; none where it has not the word, without reading it as TOML."""
    try:
        content = file.read_bytes() if file else b""
        if word not in content:
            return {}
        import tomllib  # noqa: PLC0415  # takes milliseconds

        tools = tomllib.loads(content.decode()).get("tool", {})
    except (OSError, ValueError) as error:
        raise BadProject(f"{file}: cannot be read ({error})") from None
    return tools if isinstance(tools, dict) else {}
