"""Finds which files a kernel is made of: its source, the headers that this includes, and its declaration in Python."""

from __future__ import annotations

import ast
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

import msgspec

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.configurations import Configuration
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.project import BadProject, Project, find_project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.catalogue.setting import TABLE
from warpwatch.catalogue.validation import Problem, problems
from warpwatch.catalogue.variants import Variant
from warpwatch.cli.options import selector
from warpwatch.cli.processes import INTERRUPTED
from warpwatch.devices.compile.background import compile_all
from warpwatch.devices.compile.builds import named_files
from warpwatch.devices.compile.compiler import CompileError, files_of
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Worker, describe_device

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


@dataclass(frozen=True, kw_only=True)
class LookRequest:
    """Asks for what files that were changed belong to. ``keywords``: of -k. ``device``: auto, gpu or software."""

    keywords: str
    device: str
    changed: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Look:
    """Says what was found.

    ``error``: a sentence where there is nothing to check with: the declarations cannot be loaded, there is no device,
    or -k matches no kernel. ``problems``: sentences on declarations with a mistake. ``files``, ``folders``: to be
    watched. ``families``: how many have kernels that -k matches. ``affected``: variants, as ``matmul-tiled``.
    ``words``: what the ids of their cases begin with: a family's name where all of its variants are affected.
    ``tested``, ``timed``: how many of their cases that -k matches are tested, and timed by a benchmark. ``compiled``:
    builds that compile. ``broken``: messages of those that do not, by build. ``tests``: files of tests. ``device``: its
    name. ``judges_times``: its times are a GPU's.
    """

    error: str = ""
    problems: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    families: int = 0
    affected: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    tested: int = 0
    timed: int = 0
    compiled: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    device: str = ""
    judges_times: bool = False


def look(request: LookRequest, start: Path) -> Look:
    """Find the affected kernels and compile them. Raises BadCase for a malformed -k."""
    matches = selector(request.keywords)
    try:
        project = find_project(start)
    except BadProject as error:
        return Look(error=str(error))
    files = files_by_variant(project)
    tested, timed = ([c for c in each(project.families) if matches(c.id)] for each in (tested_cases, timed_cases))
    cases = [*tested, *timed]
    wrong = [problem for problem in problems(project.families) if matches(problem.id)]
    chosen = {(case.family.name, case.variant.name) for case in cases} | set(_wrong(wrong, files))
    watched = {path for name in chosen for path in files[name]}
    found = Look(
        problems=tuple(map(str, wrong)),
        files=tuple(sorted(map(str, watched))),
        folders=tuple(map(str, folders_of(watched, project.root, project.module))),
        families=len({family for family, _ in chosen}),
    )
    if not chosen:
        return replace(found, error=f"-k {request.keywords!r} matches no kernel: `warpwatch list` shows the ids")
    changed = {Path(path).resolve() for path in request.changed}
    affected = {name for name in files if name in chosen and changed & files[name]}
    left = {family for family, _ in chosen - affected}
    words = dict.fromkeys(f"{family}-" + (f"{variant}-" if family in left else "") for family, variant in affected)
    of_affected = [sum((c.family.name, c.variant.name) in affected for c in each) for each in (tested, timed)]
    found = replace(found, words=tuple(sorted(words)), tested=of_affected[0], timed=of_affected[1])
    return _compile(project, request, found, [c for c in cases if (c.family.name, c.variant.name) in affected])


def _wrong(wrong: Iterable[Problem], known: Collection[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Yield the variants, by family and name, that mistakes in declarations leave without cases."""
    for problem in wrong:
        yield from (each for each in known if each[0] == problem.family and problem.variant in ("", each[1]))


def _compile(project: Project, request: LookRequest, found: Look, cases: list[Case]) -> Look:
    """Open the device and compile the builds of cases for it."""
    found = replace(found, affected=tuple(dict.fromkeys(f"{c.family.name}-{c.variant.name}" for c in cases)))
    if not cases:
        return found
    worker = Worker(project, Settings(kind=request.device))
    try:
        device = worker.call(describe_device)
    except (NoDevice, DeviceError, CompileError) as error:
        return replace(found, error=f"no device: {error}")
    finally:
        worker.stop()
    builds = {case.build.id: case.build for case in cases if _runs(case.build, device)}
    jobs = ((build, None if build.variant.on_host else device.target) for build in builds.values())
    errors = compile_all(jobs, lambda done, total: None)
    read = files_by_variant(project)  # which the compilers know now
    watched = {path for c in cases for path in read[c.family.name, c.variant.name]} | {*map(Path, found.files)}
    return replace(
        found,
        files=tuple(sorted(map(str, watched))),
        folders=tuple(map(str, folders_of(watched, project.root, project.module))),
        compiled=len(builds) - len(errors),
        broken={name: str(error) for name, error in errors.items()},
        tests=tuple(str(path.relative_to(project.root)) for path in marked_files(project.root)),
        device=device.name,
        judges_times=device.has_gpu_clock,
    )


def _runs(build: Build, device: DeviceInfo) -> bool:
    """Tell whether a build has something to compile that the device runs."""
    variant = build.variant
    return variant.call is None and variant.capability <= device.capability and not call_problem(variant, device)


def look_main(request: Path, answer: Path, run: Callable[[LookRequest, Path], Look] = look) -> None:
    """Read a request from a file and write the answer to another one."""
    found = run(msgspec.json.decode(request.read_bytes(), type=LookRequest), Path.cwd())
    answer.write_bytes(msgspec.json.encode(found))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that compilers are ended with this process
    try:
        look_main(Path(sys.argv[1]), Path(sys.argv[2]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
