"""Shows what changed in the machine code since another revision, without a GPU: ``warpwatch diff``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from warpwatch.catalogue.launches import read_capability
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.validation import problems
from warpwatch.cli.options import ARCH, BadArgument, add_keywords, base_of, progress, revisions, selector, words
from warpwatch.compare.code_difference import (
    GATES,
    BuildChange,
    Side,
    SideBuild,
    compare_all,
    compile_sides,
    exceeded,
    other_builds,
    own_builds,
    unknown,
)
from warpwatch.devices.atomic_write import replaced
from warpwatch.devices.compile.compiler import CompileError, Image, architectures, nvcc
from warpwatch.machine_code.disassembler import NoDisassembler, nvdisasm
from warpwatch.report import code_tables
from warpwatch.report.code_tables import Heading
from warpwatch.revision.commit import checkout, same_files
from warpwatch.revision.unpacked import missing_submodules
from warpwatch.runs.files import write_whole

NEW, OLD = "working tree", "revision"
Key = tuple[str, str, str]  # architecture, side and build
Sides = dict[tuple[str, str], dict[str, SideBuild]]  # builds by architecture and side, then by their ids


def add_arguments(parser: argparse.ArgumentParser) -> None:
    base = "a commit, branch or tag (the merge base with the main branch)"
    revision = parser.add_argument("revision", nargs="?", metavar="REV", help=base)
    revision.completer = revisions  # type: ignore[attr-defined]
    targets = f"architectures, such as sm_80,sm_90 ({ARCH})"
    parser.add_argument("--arch", dest="names", type=words, default=ARCH, metavar="LIST", help=targets)
    add_keywords(parser, "only builds that match, as pytest -k")
    gates = "exit with 1 where these got worse: spills, registers, occupancy, with commas between them"
    parser.add_argument("--fail-on", dest="gates", type=words, default="", metavar="LIST", help=gates)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it as Markdown, for a pull request")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it as JSON, for machines")


def run(
    project: Project,
    *,
    revision: str | None,
    names: Sequence[str],
    keywords: str,
    gates: Sequence[str],
    markdown: Path | None,
    json: Path | None,
) -> int:
    """Build both sides, print what differs and write the files; returns the exit status.

    Raises BadArgument, BadCase, BadRevision, NoCompiler, CompileError or OSError.
    """
    _check_gates(gates)
    matches = selector(keywords)
    for path in filter(None, (markdown, json)):
        check_file(path)
    _check_architectures(names)
    heading, sides = _sides(project, revision, names)
    sides = {key: {n: b for n, b in builds.items() if matches(n)} for key, builds in sides.items()}
    changes = _compare(sides, heading.architectures, disassemble=_has_disassembler())
    wrong = [problem for problem in problems(project.families) if matches(problem.id)]
    failures = [*exceeded(changes, gates), *unknown(changes, gates)]
    print(code_tables.text(heading, changes))
    if markdown:
        write_whole(markdown, code_tables.markdown(heading, changes))
    if json:
        write_whole(json, code_tables.document(heading, changes, failures))
    for sentence in (*wrong, *failures):
        print(f"error: {sentence}", file=sys.stderr)
    return int(bool(wrong or failures) or any(change.broken for change in changes))


def _check_gates(gates: Sequence[str]) -> None:
    """Raise BadArgument for a word that --fail-on does not know."""
    for word in gates:
        if word not in GATES:
            raise BadArgument(f"--fail-on {word}: it takes {', '.join(GATES)}, with commas between them")


def _check_architectures(names: Sequence[str]) -> None:
    """Raise BadArgument for an architecture that the installed nvcc does not compile for."""
    if not names:
        raise BadArgument("--arch names no architecture: give some, such as sm_80,sm_90")
    known = architectures()
    for name in names:
        if read_capability(name) not in known:
            listed = ", ".join(capability.arch for capability in known)
            raise BadArgument(f"--arch {name}: nvcc {nvcc().version} knows {listed}")


def check_file(path: Path) -> None:
    """Raise BadArgument where a file cannot be written, before anything is built."""
    try:
        target = replaced(path)
    except OSError as error:
        raise BadArgument(f"{path} cannot be written: {error.strerror}") from None
    if target and not target.parent.is_dir():
        raise BadArgument(f"{path} cannot be written: there is no folder {path.parent}")
    if target and not os.access(target if target.exists() else target.parent, os.W_OK):
        raise BadArgument(f"{path} cannot be written: you may not write to {target}")


def _sides(project: Project, revision: str | None, names: Sequence[str]) -> tuple[Heading, Sides]:
    """Find the builds of both sides, by architecture and side. Raises BadCase or BadRevision."""
    commit, named = base_of(project, revision)
    called = revision or commit[:12]
    tree = checkout(commit, called, project)
    if lacks := missing_submodules(tree):
        print(f"{called}: {lacks}", file=sys.stderr)
    own = own_builds(project)
    sides: Sides = {}
    for arch in names:
        sides |= {(arch, NEW): own, (arch, OLD): other_builds(tree, project.module, called, arch)}
    changed = "" if same_files("HEAD", "HEAD", project.root) else ", with changes that are not committed"
    return Heading(revision=named, commit=commit, tree=f"the working tree{changed}", architectures=tuple(names)), sides


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
    images = compile_sides(wanted, progress("compiling"))
    pairs = {
        (name, arch): (_side(sides, images, arch, OLD, name), _side(sides, images, arch, NEW, name))
        for arch in names
        for name in dict.fromkeys((*sides[arch, NEW], *sides[arch, OLD]))
    }
    return compare_all(pairs, disassemble=disassemble, progress=progress("comparing"))


def _side(sides: Sides, images: Mapping[Key, Image | CompileError], arch: str, which: str, name: str) -> Side | None:
    build = sides[arch, which].get(name)
    return Side(build=build, image=images.get((arch, which, name))) if build else None
