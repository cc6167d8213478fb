"""Finds and loads the kernels of a repository: the package or module that declares them, and its folder.

The engine is given a Project and imports no kernels by itself. The worker process loads the same project once, so that
a case can be sent there by its names (``Build.__reduce__``).
"""

from __future__ import annotations

import importlib
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from warpwatch.catalogue.declaration import Family, register
from warpwatch.catalogue.leaving import keep_alive
from warpwatch.catalogue.setting import (
    HOW,
    SETTING,
    TABLE,
    Setting,
    choose,
    pytest_settings,
    read_table,
)
from warpwatch.catalogue.setting import BadProject as BadProject  # noqa: PLC0414  # users import both from here


@dataclass(frozen=True, kw_only=True)
class Project(Setting):
    """A repository whose kernels are measured. ``families``: what it declares, in reading order."""

    families: tuple[Family, ...]

    @property
    def baselines(self) -> Path:
        """The folder of the committed baselines, with a folder for each GPU."""
        return self.root / self.baselines_folder

    @property
    def saved_runs(self) -> Path:
        """The folder in which runs are saved, with a folder for each GPU."""
        return self.root / self.runs_folder


def load_project(root: Path, module: str) -> Project:
    """Load the project that the package or module ``module`` in the folder ``root`` declares. Raises BadProject."""
    return load_setting(Setting(root=root, module=module, named=SETTING))


def load_setting(setting: Setting) -> Project:
    """Import the package or module that a setting names, and take its families. Raises BadProject."""
    root, module = setting.root, setting.module
    named = f"{setting.named} = {module!r}"
    if not all(part.isidentifier() for part in module.split(".")):
        path = module.removesuffix("/").removesuffix(".py").replace("/", ".")
        right = path if "/" in module and path.replace(".", "").isidentifier() else "kernels or project.kernels"
        raise BadProject(f"{named} is not an import path of a package or module, such as {right}")
    keep_alive()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    families = _families(_import(root, module, named), named)
    register(families, root)
    return Project(**vars(setting), families=families)


def find_project(start: Path) -> Project:
    """Load the project of the nearest pyproject.toml upwards that names its kernels. Raises BadProject."""
    return load_setting(find_setting(start))


def find_setting(start: Path) -> Setting:
    """Find the nearest pyproject.toml upwards that names its kernels, and import nothing. Raises BadProject."""
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            table = read_table(file)
            setting = choose(folder, "", str(pytest_settings(file).get(SETTING, "")), table)
            if setting:
                return setting
            if table:
                raise BadProject(f"{file}: {TABLE} names no kernels: {HOW}")
    raise BadProject(f"no pyproject.toml at or above {start} says where kernels are declared: {HOW}")


def _import(root: Path, module: str, named: str) -> ModuleType:
    try:
        loaded = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise BadProject(f"{named}: {root} has no such package or module ({error})") from None
        raise BadProject(f"{named}: {_place(error, root)}{type(error).__name__}: {error}") from None
    first, file = root / module.partition(".")[0], Path(loaded.__file__ or root).resolve()
    if (first.is_dir() or first.with_suffix(".py").is_file()) and not file.is_relative_to(root.resolve()):
        raise BadProject(f"{named}: Python finds another one first, {file}: give yours in {root} another name")
    return loaded


def _place(error: BaseException, root: Path) -> str:
    """Return file and line of an error, the innermost ones in ``root``: ``perf/softmax.py:3: ``."""
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((Path(error.filename), error.lineno))
    own = [(path.relative_to(root), line) for path, line in frames if path.is_relative_to(root)]
    return "{}:{}: ".format(*own[-1]) if own else ""


def _families(module: ModuleType, named: str) -> tuple[Family, ...]:
    """Return FAMILIES or, where it is missing, a module's families in order of definition. Raises BadProject."""
    where = module.__file__ or f"the folder {', '.join(module.__path__)}"
    listed = getattr(module, "FAMILIES", None)
    if listed is None:
        listed = tuple(dict.fromkeys(value for value in vars(module).values() if isinstance(value, Family)))
        if not listed:
            raise BadProject(f"{named}: {where} declares no Family: write one there, or import it there")
    if not isinstance(listed, tuple | list) or not all(isinstance(each, Family) for each in listed):
        raise BadProject(f"{named}: FAMILIES in {where} is not a tuple of warpwatch's Family")
    if not listed:
        raise BadProject(f"{named}: FAMILIES in {where} is empty: write the families there, or leave FAMILIES out")
    return tuple(listed)
