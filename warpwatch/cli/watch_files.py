"""Finds the kernels that changed files belong to and compiles them, in a process that sees the declarations afresh.

``python -m warpwatch.cli.watch_files ANSWER DEVICE KEYWORDS FILE...`` writes an Answer on changed files, in JSON. A
kernel is made of its source, the headers that this includes, and its declaration in Python.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import msgspec

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.project import BadProject, Project, find_project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.catalogue.setting import TABLE
from warpwatch.catalogue.validation import problems
from warpwatch.catalogue.variants import Configuration, Variant
from warpwatch.cli.options import selector
from warpwatch.cli.processes import INTERRUPTED
from warpwatch.devices.compile.background import compile_all
from warpwatch.devices.compile.builds import named_files
from warpwatch.devices.compile.compiler import CompileError, files_of
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.runs.faults import compile_errors, sentence

ENGINE = ("warpwatch", "softcuda")  # in its own repository they lie beside the kernels
HEADERS = (".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
PARTS = ("cases", "builds")  # pytest.mark.cases, pytest.mark.builds
Name = tuple[str, str]  # of a variant: its family, and its own


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Kernels that changed files belong to, and whether they compile.

    ``error``: why nothing can be checked, if so: the declarations cannot be loaded, no device was found,
    or -k matches no kernel. ``problems``: sentences on declarations with a mistake. ``files``, ``folders``: to be
    watched. ``families``: how many have kernels that -k matches. ``affected``: variants, as ``matmul-tiled``.
    ``tested``, ``timed``: expressions of -k for their tests, and for the benchmark; empty where it times none of them.
    ``compiled``: builds that compile. ``broken``: what is wrong with each of the others, in a line. ``tests``: files of
    tests. ``device``: its name. ``judges_times``: its times are a GPU's.
    """

    error: str = ""
    problems: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    families: int = 0
    affected: tuple[str, ...] = ()
    tested: str = ""
    timed: str = ""
    compiled: int = 0
    broken: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    device: str = ""
    judges_times: bool = False


def _answer(device: str, keywords: str, changed: Sequence[str]) -> Answer:
    """Find the affected kernels and compile them. Raises BadCase for a malformed -k."""
    matches = selector(keywords)
    try:
        project = find_project(Path.cwd())
    except BadProject as error:
        return Answer(error=str(error))
    files = files_by_variant(project)
    tested, timed = (
        [case for case in cases if matches(case.id)]
        for cases in (tested_cases(project.families), timed_cases(project.families))
    )
    wrong = [problem for problem in problems(project.families) if matches(problem.id)]
    # A mistake in a declaration leaves a variant, or each of a family, without cases.
    mistaken = {name for name in files for p in wrong if p.family == name[0] and p.variant in ("", name[1])}
    chosen = {_name(case) for case in (*tested, *timed)} | mistaken
    answer = replace(_to_watch(project, files, chosen), problems=tuple(map(str, wrong)))
    if not chosen:
        return replace(answer, error=f"-k {keywords!r} matches no kernel: `warpwatch list` shows the ids")
    changed_files = {Path(path).resolve() for path in changed}
    affected = {name for name in files if name in chosen and changed_files & files[name]}
    if not (cases := [case for case in (*tested, *timed) if _name(case) in affected]):
        return answer
    kernels = _expression(affected, chosen)
    both = f"({keywords}) and ({kernels})" if keywords.strip() else kernels
    answer = replace(
        answer,
        affected=tuple(dict.fromkeys("-".join(_name(case)) for case in cases)),
        # Without -k where that names what is timed alone, such as a shape.
        tested=both if any(_name(case) in affected for case in tested) else kernels,
        timed=both if any(_name(case) in affected for case in timed) else "",
    )
    return _compile(project, device, answer, cases, chosen)


def _name(case: Case) -> Name:
    return str(case.family.name), str(case.variant.name)


def _expression(affected: Collection[Name], chosen: Collection[Name]) -> str:
    """Return pytest's expression for kernels, whose ids begin so: a family's name where all of it is affected."""
    left = {family for family, variant in chosen if (family, variant) not in affected}
    words = {f"{family}-{variant}-" if family in left else f"{family}-" for family, variant in affected}
    return " or ".join(sorted(words))


def _to_watch(project: Project, files: Mapping[Name, Collection[Path]], chosen: Collection[Name]) -> Answer:
    """Name the files that kernels are made of, and their folders."""
    paths = {path for name in chosen for path in files[name]}
    return Answer(
        files=tuple(sorted(map(str, paths))),
        folders=tuple(map(str, folders_of(paths, project.root, project.module))),
        families=len({family for family, _ in chosen}),
    )


def _compile(project: Project, kind: str, answer: Answer, cases: Sequence[Case], chosen: Collection[Name]) -> Answer:
    """Open the device and compile the builds of cases for it."""
    worker = Worker(project, Settings(kind=kind))
    try:
        device = worker.call(describe_device)
    except (NoDevice, DeviceError, CompileError) as error:
        return replace(answer, error=f"no device: {error}")
    finally:
        worker.stop()
    builds = {case.build.id: case.build for case in cases if _runs(case.build, device)}
    jobs = ((build, None if build.variant.on_host else device.target) for build in builds.values())
    errors = compile_all(jobs, lambda done, total: None)
    known = _to_watch(project, files_by_variant(project), chosen)  # which the compilers know now
    return replace(
        answer,
        files=tuple(sorted({*answer.files, *known.files})),
        folders=tuple(sorted({*answer.folders, *known.folders})),
        compiled=len(builds) - len(errors),
        broken=tuple(_first_line(str(error)) for error in errors.values()),
        tests=tuple(str(path.relative_to(project.root)) for path in marked_files(project.root)),
        device=device.name,
        judges_times=device.has_gpu_clock,
    )


def _runs(build: Build, device: DeviceInfo) -> bool:
    """Tell whether a build has something to compile that the device runs."""
    variant = build.variant
    return variant.call is None and variant.capability <= device.capability and not call_problem(variant, device)


def _first_line(message: str) -> str:
    """Return the first error of a compiler with its place, or the first line of another message."""
    for fault in compile_errors(message):
        return f"{fault.place.file}:{fault.place.line}: {sentence(fault)}"
    return " ".join(message.strip().partition("\n")[0].split())


def files_by_variant(project: Project) -> dict[Name, frozenset[Path]]:
    """Return the files of each variant, also of one that is declared with a mistake, by family and variant."""
    modules = _modules(project.root)
    graph = {name: _imports(name, module, modules.keys()) for name, module in modules.items()}
    sure: dict[Name, frozenset[Path]] = {}
    unclear: dict[Name, frozenset[Path]] = {}
    for family in project.families:
        names = _declaring(family, modules)
        packages = {above for name in names for above in _above(name)} & modules.keys()
        declared = frozenset(_file_of(modules[name]) for name in packages | reached(names, graph, project.module))
        for variant in family.variants:
            key = str(family.name), str(variant.name)
            files, unclear[key] = _sources(family, variant)
            sure[key] = declared | files
    known = frozenset[Path]().union(*sure.values())
    return {key: files | (unclear[key] - known) for key, files in sure.items()}


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
    return {
        name: module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) and Path(file).is_relative_to(root)
        if not _is_installed(name, Path(file).relative_to(root))
    }


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
    nearest = (next((part for part in (whole, *reversed([*_above(whole)])) if part in known), "") for whole in named)
    return set(filter(None, nearest)) - {name}


def reached(names: Iterable[str], graph: Mapping[str, Collection[str]], package: str) -> set[str]:
    """Return modules and all that they import; the package of all declarations imports every family, and is an end."""
    modules, waiting = set(names), list(names)
    while waiting:
        name = waiting.pop()
        if name == package and name not in names:
            continue
        new = set(graph[name]) - modules
        modules |= new
        waiting += new
    return modules


def marked_files(root: Path) -> list[Path]:
    """List the files of tests that are marked with cases or builds, but for the benchmark and other projects."""
    marked: list[Path] = []
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not _is_apart(here / name, root))
        python = (here / name for name in sorted(names) if name.endswith(".py"))
        marked += filter(_is_marked, python)
    return marked


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


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that compilers are ended with this process
    try:
        Path(sys.argv[1]).write_bytes(msgspec.json.encode(_answer(sys.argv[2], sys.argv[3], sys.argv[4:])))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
