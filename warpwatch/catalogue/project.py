"""Finds and loads the kernels of a repository: the package that declares them, and the folder that contains it.

The engine is given a Project and imports no kernels by itself. The worker process loads the same project once, so that
a case can be sent there by its names (``Build.__reduce__``).
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.registry import register
from warpwatch.catalogue.setting import SETTING


class BadProject(ValueError):
    """A repository whose kernels cannot be loaded; the message says why and what would be right."""


@dataclass(frozen=True, kw_only=True)
class Project:
    """A repository whose kernels are measured.

    ``root``: the folder that contains the package of declarations; paths in messages start there. ``module``:
    import path of that package. ``families``: what it declares, in reading order.
    """

    root: Path
    module: str
    families: tuple[Family, ...]

    @property
    def baselines(self) -> Path:
        """The folder of the committed baselines, with a folder for each GPU."""
        return self.root / "bench" / "baselines"

    @property
    def saved_runs(self) -> Path:
        """The folder in which runs are saved, with a folder for each GPU."""
        return self.root / ".benchmarks"


def load_project(root: Path, module: str) -> Project:
    """Import the package ``module`` in the folder ``root`` and take its FAMILIES. Raises BadProject."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise BadProject(f"{SETTING} = {module!r} is no import path of a package, such as kernels or project.kernels")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        package = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BadProject(f"{SETTING} = {module!r}: {root} has no such package ({error})") from None
    families = getattr(package, "FAMILIES", None)
    if not isinstance(families, tuple) or not all(isinstance(each, Family) for each in families):
        raise BadProject(f"{SETTING} = {module!r}: {package.__file__} has no tuple FAMILIES of warpwatch's Family")
    register(families, root)
    return Project(root=root, module=module, families=families)


def find_project(start: Path) -> Project:
    """Load the project of the nearest pyproject.toml upwards that names its kernels. Raises BadProject."""
    for folder in (start, *start.parents):
        for module in _setting(folder / "pyproject.toml"):
            return load_project(folder, module)
    raise BadProject(
        f'no pyproject.toml at or above {start} has {SETTING} = "<package>" in [tool.pytest.ini_options], '
        "which says where the kernels are declared"
    )


def _setting(file: Path) -> Iterator[str]:
    if file.is_file():
        try:
            options = tomllib.loads(file.read_text()).get("tool", {}).get("pytest", {}).get("ini_options", {})
        except (OSError, ValueError) as error:
            raise BadProject(f"{file}: cannot be read ({error})") from None
        if SETTING in options:
            yield str(options[SETTING])
