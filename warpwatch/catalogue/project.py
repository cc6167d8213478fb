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
    BASELINES,
    HOW,
    RUNS,
    SETTING,
    TABLE,
    Setting,
    choose,
    pytest_settings,
    read_table,
)
from warpwatch.catalogue.setting import BadProject as BadProject  # noqa: PLC0414  # users import both from here


@dataclass(frozen=True, kw_only=True)
class Project:
    """A repository whose kernels are measured.

    ``root``: the folder that contains the package of declarations; paths in messages start there. ``module``:
    import path of that package or module. ``families``: what it declares, in reading order. ``baselines_folder``,
    ``runs_folder``: paths from ``root`` on.
    """

    root: Path
    module: str
    families: tuple[Family, ...]
    baselines_folder: str = BASELINES
    runs_folder: str = RUNS

    @property
    def baselines(self) -> Path:
        """The folder of the committed baselines, with a folder for each GPU."""
        return self.root / self.baselines_folder

    @property
    def saved_runs(self) -> Path:
        """The folder in which runs are saved, with a folder for each GPU."""
        return self.root / self.runs_folder


def load_project(
    root: Path, module: str, *, named: str = SETTING, baselines: str = BASELINES, runs: str = RUNS
) -> Project:
    """Import the package or module ``module`` in the folder ``root`` and take its families. Raises BadProject.

    ``named``: the option or setting that names it, for messages. ``baselines``, ``runs``: folders from ``root`` on.
    """
    said = f"{named} = {module!r}"
    if not all(part.isidentifier() for part in module.split(".")):
        path = module.removesuffix("/").removesuffix(".py").replace("/", ".")
        right = path if "/" in module and path.replace(".", "").isidentifier() else "kernels or project.kernels"
        raise BadProject(f"{said} is no import path of a package or module, such as {right}")
    keep_alive()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    loaded = _import(root, module, said)
    families = _families(loaded, said)
    register(families, root)
    return Project(root=root, module=module, families=families, baselines_folder=baselines, runs_folder=runs)


def load_setting(setting: Setting) -> Project:
    """Load the project that a setting names. Raises BadProject."""
    return load_project(
        setting.root, setting.module, named=setting.named, baselines=setting.baselines, runs=setting.runs
    )


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


def _import(root: Path, module: str, said: str) -> ModuleType:
    try:
        loaded = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise BadProject(f"{said}: {root} has no such package or module ({error})") from None
        raise BadProject(f"{said}: {_place(error, root)}{type(error).__name__}: {error}") from None
    first, file = root / module.partition(".")[0], Path(loaded.__file__ or root).resolve()
    if (first.is_dir() or first.with_suffix(".py").is_file()) and not file.is_relative_to(root.resolve()):
        raise BadProject(f"{said}: Python finds another one first, {file}: give yours in {root} another name")
    return loaded


def _place(error: BaseException, root: Path) -> str:
    """Return file and line of an error, the innermost ones in ``root``: ``perf/softmax.py:3: ``."""
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((Path(error.filename), error.lineno))
    own = [(path.relative_to(root), line) for path, line in frames if path.is_relative_to(root)]
    return "{}:{}: ".format(*own[-1]) if own else ""


def _families(module: ModuleType, said: str) -> tuple[Family, ...]:
    """Return FAMILIES or, where it is missing, a module's families in order of definition. Raises BadProject."""
    where = module.__file__ or f"the folder {', '.join(module.__path__)}"
    listed = getattr(module, "FAMILIES", None)
    if listed is None:
        listed = tuple(dict.fromkeys(value for value in vars(module).values() if isinstance(value, Family)))
        if not listed:
            raise BadProject(f"{said}: {where} declares no Family: write one there, or import it there")
    if not isinstance(listed, tuple | list) or not all(isinstance(each, Family) for each in listed):
        raise BadProject(f"{said}: FAMILIES in {where} is no tuple of warpwatch's Family")
    if not listed:
        raise BadProject(f"{said}: FAMILIES in {where} is empty: write the families there, or leave FAMILIES out")
    return tuple(listed)
