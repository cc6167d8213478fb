"""Finds the kernels that changed files belong to and compiles them, in a process that sees the declarations afresh.

``python -m warpwatch.cli.watch_look REQUEST ANSWER`` reads a Request, in JSON, and writes a Look.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from warpwatch.catalogue.cases import Build, Case
from warpwatch.catalogue.project import BadProject, Project, find_project
from warpwatch.catalogue.selection import tested_cases, timed_cases
from warpwatch.catalogue.validation import Problem, problems
from warpwatch.cli.options import selector
from warpwatch.cli.processes import INTERRUPTED
from warpwatch.cli.watch_files import files_by_variant, folders_of, marked_files
from warpwatch.devices.compile.background import compile_all
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.worker import Worker, describe_device


@dataclass(frozen=True, kw_only=True)
class Request:
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


def look(request: Request, start: Path) -> Look:
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


def _compile(project: Project, request: Request, found: Look, cases: list[Case]) -> Look:
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


def main(request: Path, answer: Path, run: Callable[[Request, Path], Look] = look) -> None:
    """Read a request from a file and write the answer to another one."""
    found = run(msgspec.json.decode(request.read_bytes(), type=Request), Path.cwd())
    answer.write_bytes(msgspec.json.encode(found))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that compilers are ended with this process
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
