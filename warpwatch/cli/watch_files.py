"""Finds which files a kernel is made of: its source, the headers that this includes, and its declaration in Python."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

from warpwatch.catalogue.cases import Build
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.setting import TABLE
from warpwatch.catalogue.variants import Configuration, Variant
from warpwatch.devices.compile.builds import named_files
from warpwatch.devices.compile.compiler import files_of

ENGINE = ("warpwatch", "softcuda")  # in its own repository they lie beside the kernels
HEADERS = (".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
PARTS = ("cases", "builds")  # pytest.mark.cases, pytest.mark.builds


def files_by_variant(project: Project) -> dict[tuple[str, str], frozenset[Path]]:
    """Return the files of each variant, also of one that is declared with a mistake, by family and variant."""
    modules = _modules(project.root)
    graph = {name: _imports(name, module, modules.keys()) for name, module in modules.items()}
    found: dict[tuple[str, str], frozenset[Path]] = {}
    unclear: dict[tuple[str, str], frozenset[Path]] = {}
    for family in project.families:
        names = _declaring(family, modules)
        packages = {above for name in names for above in _above(name)} & modules.keys()
        declared = frozenset(_file_of(modules[name]) for name in packages | reached(names, graph, project.module))
        for variant in family.variants:
            key = str(family.name), str(variant.name)
            files, unclear[key] = _sources(family, variant)
            found[key] = declared | files
    known = frozenset[Path]().union(*found.values())
    return {key: files | (unclear[key] - known) for key, files in found.items()}


def _sources(family: Family, variant: Variant) -> tuple[frozenset[Path], frozenset[Path]]:
    """Return a variant's source and its headers, as its compiler has read them, and headers that may be among them.

    Before it is compiled, the headers are those that its text names; any other one beside it, or in a folder of
    ``include``, may be named by a macro.
    """
    if variant.call or callable(variant.source):
        return frozenset(), frozenset()
    try:
        source = Build(family, variant, Configuration(()), "").source
        include = [(family.folder / folder).resolve() for folder in variant.include]
    except (TypeError, ValueError):  # a mistake in the declaration, which is reported as such
        return frozenset(), frozenset()
    read = files_of(source, family.root)
    files = frozenset({source, *map(Path.resolve, {source, *(read or named_files(source, include))})})
    near = (path for folder in (source.parent, *include) for path in folder.glob("*") if path.suffix in HEADERS)
    return files, frozenset() if read else frozenset(map(Path.resolve, near))


def _modules(root: Path) -> dict[str, ModuleType]:
    """Return the modules that the declarations have loaded from the repository, by name."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(root) and not _is_installed(name, Path(file).relative_to(root)):
            found[name] = module
    return found


def _is_installed(name: str, path: Path) -> bool:
    """Tell whether a module is the engine's, or lies in an environment inside of the repository."""
    return name.partition(".")[0] in ENGINE or "site-packages" in path.parts


def _file_of(module: ModuleType) -> Path:
    return Path(str(module.__file__)).resolve()


def _declaring(family: Family, modules: Mapping[str, ModuleType]) -> set[str]:
    """Return the modules that may declare a family: those in its folder that hold it, or else all in its folder."""
    near = {name for name, module in modules.items() if _file_of(module).parent == family.folder.resolve()}
    holding = {name for name in near if any(value is family for value in vars(modules[name]).values())}
    return holding or near or set(modules)


def _above(name: str) -> Iterable[str]:
    """Yield the packages that a module lies in."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _imports(name: str, module: ModuleType, known: Collection[str]) -> set[str]:
    """Return the modules of the repository that a module imports, as its text says."""
    try:
        tree = ast.parse(_file_of(module).read_bytes())
    except (OSError, SyntaxError, ValueError):  # changed since it was loaded
        return set()
    package = module.__package__ or ""
    named: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            whole = ".".join(filter(None, (base, node.module)))
            named |= {f"{whole}.{alias.name}" for alias in node.names}
    nearest = (next((part for part in (each, *reversed([*_above(each)])) if part in known), "") for each in named)
    return set(filter(None, nearest)) - {name}


def reached(names: Iterable[str], graph: Mapping[str, Collection[str]], package: str) -> set[str]:
    """Return modules and all that they import; the package of all declarations imports every family, and is an end."""
    found, waiting = set(names), list(names)
    while waiting:
        name = waiting.pop()
        if name == package and name not in names:
            continue
        new = set(graph[name]) - found
        found |= new
        waiting += new
    return found


def marked_files(root: Path) -> list[Path]:
    """List the files of tests that are marked with cases or builds, but for the benchmark and other projects."""
    found = []
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not _is_apart(here / name, root))
        python = (here / name for name in sorted(names) if name.endswith(".py"))
        found += [path for path in python if _is_marked(path)]
    return found


def _is_apart(folder: Path, root: Path) -> bool:
    """Tell whether a folder holds no tests of this project: a hidden one, an environment, the benchmark, a project."""
    if folder.name.startswith(".") or folder.name in ("__pycache__", "node_modules") or folder == root / "bench":
        return True
    if (folder / "pyvenv.cfg").exists():
        return True
    try:
        return TABLE in (folder / "pyproject.toml").read_text(errors="replace")
    except OSError:
        return False


def _is_marked(path: Path) -> bool:
    """Tell whether a file uses pytest.mark.cases or pytest.mark.builds in its code, not only in a text."""
    try:
        text = path.read_bytes()
        if not any(f"mark.{part}".encode() in text for part in PARTS):
            return False
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return False
    uses = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in PARTS)
    return any(isinstance(node.value, ast.Attribute) and node.value.attr == "mark" for node in uses)


def folders_of(files: Iterable[Path], root: Path, module: str) -> Sequence[Path]:
    """List the folders that hold files, and those of the declarations, in which a file may be missing."""
    package = root.joinpath(*module.split("."))
    inside = [Path(folder) for folder, _, _ in os.walk(package) if "__pycache__" not in folder]
    folders = {path.parent for path in files} | set(inside or [package.parent])
    return sorted(folder for folder in folders if folder.is_dir())
