"""Shows what changed in the machine code since another revision, without a GPU: ``warpwatch diff``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwatch.catalogue.launches import read_capability
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.validation import problems
from warpwatch.cli.options import selector
from warpwatch.compare.code_difference import BuildChange, Side, compare_all
from warpwatch.compare.code_gates import GATES, exceeded, unknown
from warpwatch.compare.code_sides import SideBuild, compile_sides, other_builds, own_builds
from warpwatch.devices.compile.compiler import CompileError, Image, architectures, nvcc
from warpwatch.devices.outputs import replaced
from warpwatch.machine_code.disassembler import NoDisassembler, nvdisasm
from warpwatch.report.code_tables import Heading, document, markdown, text
from warpwatch.revision.commit import checkout, find_commit, find_merge_base, same_files
from warpwatch.revision.declared import BadRevision
from warpwatch.revision.unpacked import missing_submodules
from warpwatch.runs.files import write_whole

NEW, OLD = "working tree", "revision"
Key = tuple[str, str, str]  # architecture, side and build
Sides = dict[tuple[str, str], dict[str, SideBuild]]  # builds by architecture and side, then by their ids


class BadDiff(ValueError):
    """Says why two revisions cannot be compared; the message says what helps."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Holds what was asked for. ``revision``: None for the merge base with the main branch.

    ``markdown``, ``json``: files to write, or None.
    """

    revision: str | None
    architectures: tuple[str, ...]
    keywords: str = ""
    fail_on: tuple[str, ...] = ()
    markdown: Path | None = None
    json: Path | None = None


def show_difference(project: Project, request: Request) -> int:
    """Build both sides, print what differs and write the files; returns the exit status.

    Raises BadDiff for a revision or an architecture that cannot be used, NoCompiler, CompileError or OSError.
    """
    check_gates(request.fail_on)
    matches = selector(request.keywords)
    files = [path for path in (request.markdown, request.json) if path]
    for path in files:
        check_file(path)
    check_architectures(request.architectures)
    heading, sides = _sides(project, request)
    sides = {key: {n: b for n, b in builds.items() if matches(n)} for key, builds in sides.items()}
    changes = _compare(sides, heading.architectures, disassemble=_has_disassembler())
    wrong = [problem for problem in problems(project.families) if matches(problem.id)]
    failures = [*exceeded(changes, request.fail_on), *unknown(changes, request.fail_on)]
    print(text(heading, changes))
    if request.markdown:
        write_whole(request.markdown, markdown(heading, changes))
    if request.json:
        write_whole(request.json, document(heading, changes, failures))
    for sentence in (*wrong, *failures):
        print(f"error: {sentence}", file=sys.stderr)
    return int(bool(wrong or failures) or any(change.broken for change in changes))


def check_gates(gates: Sequence[str]) -> None:
    """Raise BadDiff for a word that --fail-on does not know."""
    for word in gates:
        if word not in GATES:
            raise BadDiff(f"--fail-on {word}: it takes {', '.join(GATES)}, with commas between them")


def check_architectures(names: Sequence[str]) -> None:
    """Raise BadDiff for an architecture that the installed nvcc does not compile for."""
    if not names:
        raise BadDiff("--arch names no architecture: give some, such as sm_80,sm_90")
    known = architectures()
    for name in names:
        if read_capability(name) not in known:
            listed = ", ".join(each.arch for each in known)
            raise BadDiff(f"--arch {name}: nvcc {nvcc().version} knows {listed}")


def check_file(path: Path) -> None:
    """Raise BadDiff where a file cannot be written, before anything is built."""
    try:
        target = replaced(path)
    except OSError as error:
        raise BadDiff(f"{path} cannot be written: {error.strerror}") from None
    if target and not target.parent.is_dir():
        raise BadDiff(f"{path} cannot be written: there is no folder {path.parent}")
    if target and not os.access(target if target.exists() else target.parent, os.W_OK):
        raise BadDiff(f"{path} cannot be written: you may not write to {target}")


def _sides(project: Project, request: Request) -> tuple[Heading, Sides]:
    """Find the builds of both sides, by architecture and side. Raises BadDiff."""
    try:
        if request.revision is not None:
            commit, named = find_commit(request.revision, project.root), request.revision
        else:
            commit, branch = find_merge_base(project.root)
            named = f"the merge base with {branch}"
        called = request.revision or commit[:12]
        tree = checkout(commit, called, project)
        if lacks := missing_submodules(tree):
            print(f"{called}: {lacks}", file=sys.stderr)
        own = own_builds(project)
        sides: Sides = {}
        for arch in request.architectures:
            sides |= {(arch, NEW): own, (arch, OLD): other_builds(tree, project.module, called, arch)}
    except (BadRevision, BadCase) as error:
        raise BadDiff(str(error)) from None
    clean = same_files("HEAD", "HEAD", project.root)
    tree_said = "the working tree" if clean else "the working tree, with changes that are not committed"
    return Heading(revision=named, commit=commit, tree=tree_said, architectures=request.architectures), sides


def _has_disassembler() -> bool:
    """Tell whether nvdisasm is there; where it is not, say what is lacking."""
    try:
        nvdisasm()
    except NoDisassembler as error:
        print(f"instructions are not counted: {error}", file=sys.stderr)
        return False
    return True


def _compare(sides: Sides, names: Sequence[str], *, disassemble: bool) -> list[BuildChange]:
    """Compile what both sides have, and compare it."""
    wanted = {}
    for arch in names:
        own, other, capability = sides[arch, NEW], sides[arch, OLD], read_capability(arch)
        runs = [build for build in own.values() if capability is None or build.needs <= capability]
        wanted[arch, NEW] = runs
        wanted[arch, OLD] = [other[build.id] for build in runs if build.id in other]
    made = compile_sides(wanted, _progress("compiling"))
    pairs = {
        (name, arch): (_side(sides, made, arch, OLD, name), _side(sides, made, arch, NEW, name))
        for arch in names
        for name in dict.fromkeys((*sides[arch, NEW], *sides[arch, OLD]))
    }
    return compare_all(pairs, disassemble=disassemble, progress=_progress("comparing"))


def _side(sides: Sides, made: Mapping[Key, Image | CompileError], arch: str, which: str, name: str) -> Side | None:
    build = sides[arch, which].get(name)
    return Side(build=build, image=made.get((arch, which, name))) if build else None


def _progress(what: str) -> Callable[[int, int], None]:
    """Make a function that shows on a terminal how far the work is."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{what} {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show
