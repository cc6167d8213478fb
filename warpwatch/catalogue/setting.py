"""Reads where a repository says that its kernels are declared, and where the results of its runs are kept.

A repository says it in ``[tool.warpwatch]`` of its pyproject.toml, where it may also choose the folders of baselines
and saved runs, or in pytest's setting ``warpwatch_kernels``. This module is imported in every repository where pytest
loads the plugin, so it costs next to nothing: what reads TOML is imported late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETTING = "warpwatch_kernels"  # among pytest's settings
TABLE = "[tool.warpwatch]"  # of pyproject.toml


def pyproject_of(folder: Path) -> Path | None:
    """Return the nearest pyproject.toml in a folder or above it."""
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def has_table(folder: Path) -> bool:
    """Tell whether the nearest pyproject.toml has a table of ours, without reading others as TOML."""
    file = pyproject_of(folder)
    try:
        text = file.read_bytes() if file else b""
        if b"warpwatch" not in text:
            return False
        import tomllib  # noqa: PLC0415  # takes milliseconds

        return "warpwatch" in tomllib.loads(text.decode()).get("tool", {})
    except (OSError, ValueError):
        return False  # pytest itself says what is wrong with the file


BASELINES, RUNS = "bench/baselines", ".benchmarks"  # folders from the repository's root on
HOW = f'name the package or module that declares them, as kernels = "perf" in {TABLE} of pyproject.toml'


class BadProject(ValueError):
    """A repository whose kernels cannot be loaded; the message says why and what would be right."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The table [tool.warpwatch] of a pyproject.toml.

    ``kernels``: import path of the package or module that declares the kernels, empty where the table names none.
    ``baselines``, ``runs``: folders of the committed baselines and of saved runs, from ``root`` on.
    """

    root: Path
    kernels: str = ""
    baselines: str = BASELINES
    runs: str = RUNS


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The place of a repository's declarations, and the folders of its results.

    ``named``: the option or setting that named the declarations, for messages.
    """

    root: Path
    module: str
    named: str
    baselines: str = BASELINES
    runs: str = RUNS


def read_table(file: Path | None) -> Table | None:
    """Read the table of a pyproject.toml; None where there is none. Raises BadProject."""
    if file is None or b"warpwatch" not in _bytes(file):
        return None
    content = _tool(file).get("warpwatch")
    if content is None:
        return None
    if not isinstance(content, dict):
        raise BadProject(f"{file}: tool.warpwatch is {content!r}: write a table {TABLE} with kernels in it")
    known = ("kernels", "baselines", "runs")
    for key, value in content.items():
        if key not in known:
            raise BadProject(f"{file}: {TABLE} has an unknown key {key!r}; {_nearest(key, known)}")
        if not isinstance(value, str) or not value.strip():
            what = "the import path of a package" if key == "kernels" else "the path of a folder"
            raise BadProject(f"{file}: {TABLE} has {key} = {value!r}: write {what} in quotes")
    return Table(root=file.parent, **content)


def pytest_settings(file: Path) -> Mapping[str, Any]:
    """Return pytest's settings in a pyproject.toml. Raises BadProject."""
    table = _tool(file).get("pytest", {}) if b"pytest" in _bytes(file) else {}
    return {**table.get("ini_options", {}), **table}


def choose(root: Path, given: str, setting: str, table: Table | None) -> Setting | None:
    """Choose among the option ``given``, pytest's ``setting`` and the table; None where none names declarations.

    ``root``: pytest's own. The option takes precedence. Raises BadProject where the two settings differ.
    """
    folders = {"baselines": table.baselines, "runs": table.runs} if table else {}
    if given:
        return Setting(root=root, module=given, named="--warpwatch-kernels", **folders)
    if table and table.kernels:
        if setting not in ("", table.kernels):
            raise BadProject(f"{TABLE} kernels = {table.kernels!r}, but {SETTING} = {setting!r}: leave one of them out")
        return Setting(root=table.root, module=table.kernels, named=f"{TABLE} kernels", **folders)
    return Setting(root=root, module=setting, named=SETTING, **folders) if setting else None


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadProject(f"{file}: cannot be read ({error})") from None


def _tool(file: Path) -> Mapping[str, Any]:
    import tomllib  # noqa: PLC0415  # takes milliseconds

    try:
        tool = tomllib.loads(_bytes(file).decode()).get("tool", {})
    except ValueError as error:
        raise BadProject(f"{file}: cannot be read ({error})") from None
    return tool if isinstance(tool, dict) else {}


def _nearest(key: str, known: tuple[str, ...]) -> str:
    import difflib  # noqa: PLC0415  # takes milliseconds

    near = difflib.get_close_matches(key, known, 1)
    return f"is {near[0]} meant?" if near else f"its keys are {', '.join(known)}"
