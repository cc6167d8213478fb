"""Finds the kernels that changed files belong to and compiles them, in a process that sees the declarations afresh.

``python -m warpwatch.cli.watch_files ANSWER DEVICE KEYWORDS FILE...`` writes an Answer on changed files, in JSON. A
kernel is made of its source, the headers that this includes, and its declaration in Python.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import signal
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import msgspec

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.project import BadProject, Project, find_project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.catalogue.setting import TABLE
from warpwatch.catalogue.texts import Text
from warpwatch.catalogue.validation import problems
from warpwatch.catalogue.variants import Configuration, Variant
from warpwatch.cli.options import INTERRUPTED, selector
from warpwatch.devices.compile.background import compile_all
from warpwatch.devices.compile.builds import named_files
from warpwatch.devices.compile.compiler import CompileError, files_of
from warpwatch.devices.foreign_text import plain_lines
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import NoDevice, Settings, ready_to_import
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.runs.faults import Place, compile_errors, of_error, sentence
from warpwatch.runs.record import Outcome, TestRecord

ENGINE = ("warpwatch", "softcuda")  # in its own repository they lie beside the kernels
HEADERS = (".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
PARTS = ("cases", "builds")  # pytest.mark.cases, pytest.mark.builds
Name = tuple[str, str]  # of a variant: its family, and its own


@dataclass(kw_only=True)
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
    refused: tuple[TestRecord, ...] = ()  # builds that do not compile, for programs


def _answer(device: str, keywords: str, changed: Sequence[str]) -> Answer:
    """Find the affected kernels and compile them. Raises BadCase for a malformed -k."""
    matches = selector(keywords)
    try:
        with ready_to_import(Settings(kind=device)):
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
    answer = Answer(problems=tuple(map(str, wrong)), families=len({family for family, _ in chosen}))
    _watch(answer, project, files, chosen)
    if not chosen:
        answer.error = f"-k {keywords!r} matches no kernel: `warpwatch list` shows the ids"
        return answer
    changed_files = {Path(path).resolve() for path in changed}
    affected = {name for name in files if name in chosen and changed_files & files[name]}
    if not (cases := [case for case in (*tested, *timed) if _name(case) in affected]):
        return answer
    # An expression of ids, which begin so: with a family's name alone where all of it is affected.
    left = {family for family, variant in chosen if (family, variant) not in affected}
    kernels = " or ".join(
        sorted({f"{family}-{variant}-" if family in left else f"{family}-" for family, variant in affected})
    )
    both = f"({keywords}) and ({kernels})" if keywords.strip() else kernels
    answer.affected = tuple(dict.fromkeys("-".join(_name(case)) for case in cases))
    # Without -k where that names what is timed alone, such as a shape.
    answer.tested = both if any(_name(case) in affected for case in tested) else kernels
    answer.timed = both if any(_name(case) in affected for case in timed) else ""
    _compile(answer, project, device, cases)
    known = files_by_variant(project)  # the compilers know more now
    _watch(answer, project, {name: files[name] | known[name] for name in files}, chosen)
    return answer


def _name(case: Case) -> Name:
    return str(case.family.name), str(case.variant.name)


def _watch(answer: Answer, project: Project, files: Mapping[Name, Collection[Path]], chosen: Collection[Name]) -> None:
    """Name the files that kernels are made of, and their folders."""
    paths = {path for name in chosen for path in files[name]}
    answer.files = tuple(sorted(map(str, paths)))
    answer.folders = tuple(map(str, folders_of(paths, project.root, project.module)))


def _compile(answer: Answer, project: Project, kind: str, cases: Sequence[Case]) -> None:
    worker = Worker(project, Settings(kind=kind))
    try:
        device = worker.call(describe_device)
    except (NoDevice, DeviceError, CompileError) as error:
        answer.error = f"no device: {error}"
        return
    finally:
        worker.stop()
    builds = {case.build.id: case.build for case in cases if _runs(case.build, device)}
    jobs = ((build, None if build.variant.on_host else device.target) for build in builds.values())
    errors = compile_all(jobs, lambda done, total: None)
    answer.compiled = len(builds) - len(errors)
    answer.broken = tuple(_first_line(str(error)) for error in errors.values())
    answer.refused = tuple(_refused(builds[name], error) for name, error in errors.items())
    answer.tests = tuple(str(path.relative_to(project.root)) for path in marked_files(project.root))
    answer.device, answer.judges_times = device.name, device.has_gpu_clock


def _refused(build: Build, error: CompileError) -> TestRecord:
    message, place = plain_lines(str(error)), Place(file=str(build.source), line=1)
    return TestRecord(
        id=build.id,
        case=build.id,
        kernel=f"{build.family.name}-{build.variant.name}",
        outcome=Outcome.FAILED,
        reason=message,
        place=place,
        faults=tuple(of_error(error, place)),
    )


def _runs(build: Build, device: DeviceInfo) -> bool:
    """Tell whether a build has something to compile that the device runs."""
    variant = build.variant
    return variant.call is None and variant.runs_on(device.capability) and not call_problem(variant, device)


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
    if isinstance(text := variant.source, Text):
        own = {Path(file) for _, file, _ in text.marks}
        folders = [family.folder / folder for folder in variant.include] + [file.parent for file in own]
        headers = named_files(text.file, folders, text.code) if text.file else ()
        return frozenset(map(Path.resolve, {*own, *headers})), frozenset()
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
    """Return the modules that the declarations have loaded from the repository, by name.

    Without the engine's, and without those of an environment inside of the repository.
    """
    return {
        name: module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) and Path(file).is_relative_to(root)
        if name.partition(".")[0] not in ENGINE and "site-packages" not in Path(file).relative_to(root).parts
    }


def _file_of(module: ModuleType) -> Path:
    return Path(str(module.__file__)).resolve()


def _declaring(family: Family, modules: Mapping[str, ModuleType]) -> set[str]:
    """Return the modules that may declare a family: those in its folder that hold it, or else all in its folder."""
    near = {name for name, module in modules.items() if _file_of(module).parent == family.folder.resolve()}
    holding = {name for name in near if any(value is family for value in vars(modules[name]).values())}
    return holding or near or set(modules)


def _above(name: str) -> list[str]:
    """List the packages that a module lies in, the nearest last."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _imports(name: str, module: ModuleType, known: Collection[str]) -> set[str]:
    """Return the modules of the repository that a module imports, as its text says."""
    named: set[str] = set()
    try:
        for node in ast.walk(ast.parse(_file_of(module).read_bytes())):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), module.__package__)
                named |= {f"{base}.{alias.name}" for alias in node.names}
    except (OSError, SyntaxError, ValueError, ImportError):  # changed since it was loaded
        return set()
    nearest = (next((part for part in (whole, *reversed(_above(whole))) if part in known), "") for whole in named)
    return set(filter(None, nearest)) - {name}


def reached(names: Iterable[str], graph: Mapping[str, Collection[str]], package: str) -> set[str]:
    """Return modules and all that they import; the package of all declarations imports every family, and is an end."""
    begin = frozenset(names)
    modules, waiting = set(begin), list(begin)
    while waiting:
        name = waiting.pop()
        if name != package or name in begin:
            waiting += set(graph[name]) - modules
            modules.update(graph[name])
    return modules


def marked_files(root: Path) -> list[Path]:
    """List the files of tests that are marked with cases or builds, but for the benchmark and other projects."""
    marked: list[Path] = []
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not _is_apart(here / name, root))
        marked += filter(_is_marked, (here / name for name in sorted(names) if name.endswith(".py")))
    return marked


def _is_apart(folder: Path, root: Path) -> bool:
    """Tell whether a folder holds no tests of this project: a hidden one, an environment, the benchmark, a project."""
    if folder.name.startswith(".") or folder.name in ("__pycache__", "node_modules") or folder == root / "bench":
        return True
    try:
        return (folder / "pyvenv.cfg").exists() or TABLE in (folder / "pyproject.toml").read_text(errors="replace")
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
