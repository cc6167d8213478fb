"""Adds to earlier saved runs what decided the work of their cases: ``warpwatch baseline migrate``.

It is derived once from the run's commit, and marked so. What the run recorded must agree with it: grid, dynamic shared
memory and, where this machine has the toolkit that the run had, the machine code. A case that does not agree, and a
run whose commit is not to be had, stay unknown: nothing is excused by them.
"""

from __future__ import annotations

import argparse
import functools
import json
import lzma
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from warpwatch.catalogue.project import Project
from warpwatch.cli.options import progress
from warpwatch.devices.compile.compiler import CompileError, Image, NoCompiler, Target, nvcc
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.revision.commit import checkout, compile_other_kernels, find_commit, read_other_kernels
from warpwatch.revision.declared import BadRevision, with_code
from warpwatch.runs.files import chosen_files, read_content, run_files, write_whole
from warpwatch.runs.identity import Identity
from warpwatch.runs.record import BadRun, Facts, RunRecord, read_document, read_run

ANEW = "`python -m warpwatch baseline record` records it anew"
# How runs are written: by this suite, and by pytest-benchmark's --benchmark-json.
STYLES: Sequence[Callable[[Any], str]] = (
    lambda document: json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n",
    lambda document: json.dumps(document, indent=4, allow_nan=False),
)


@dataclass(frozen=True, kw_only=True)
class CommitWork:
    """Declarations of a commit. ``images``: their machine code by ``other_kernel.key``, where it was compiled here."""

    kernels: Mapping[str, OtherKernel]
    images: Mapping[tuple[object, ...], Image | CompileError]

    def of(self, name: str, facts: Facts) -> Identity | str:
        """Return what decided the work of a measured case, or a sentence on why that is unknown."""
        kernel = self.kernels.get(name)
        if kernel is None:
            return "its commit does not declare it"
        if facts.image_hash is None:
            return "its machine code was not recorded"
        identity: Identity = with_code(kernel.identity, facts.image_hash, facts.library or "")
        if not kernel.call:
            image, launch = self.images.get(key(kernel)), kernel.steps[0].launch
            if isinstance(image, CompileError):
                return f"its commit does not compile here: {str(image).partition(chr(10))[0]}"
            if (facts.grid, facts.dynamic_shared_bytes) != (launch.grid, launch.shared_bytes):
                return "its commit declares another launch than was measured"
            if image and image.image_hash != facts.image_hash:
                return "its commit, compiled here, has other machine code than was measured"
        return msgspec.structs.replace(identity, derived=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, metavar="RUN", help="runs or folders of them (all baselines)")
    parser.add_argument("--commit", default="", metavar="REV", help="what was measured, where runs do not say so")


def run(project: Project, *, paths: Sequence[Path], commit: str) -> int:
    """Add to saved runs what decided the work of their cases; returns 0 where that is known of all of them.

    ``paths``: runs, or folders of them; none: all baselines. ``commit``: has what was measured, where the runs name a
    commit that has not, or none; empty: the one that each run names. Raises OSError.
    """
    folders = [folder for folder in sorted(project.baselines.glob("*")) if folder.is_dir() and run_files(folder)]
    derive = functools.cache(functools.partial(_derive, project))
    known = True
    for path in chosen_files(paths or folders):
        try:
            known &= _migrate(path, commit, derive)
        except BadRun as error:
            known = False
            print(f"left as it is: {error}", file=sys.stderr)
    return 0 if known else 1


def _migrate(path: Path, commit: str, derive: Callable[[str, str, str], CommitWork]) -> bool:
    """Add to one run what it lacks; returns whether nothing is unknown now. Raises BadRun or OSError."""
    run = read_run(path, tolerant=True)
    on_gpu = {name: timed.facts for name, timed in run.cases.items() if timed.facts.cache != "host"}
    lacking = {name: facts for name, facts in on_gpu.items() if facts.identity is None}
    for problem in run.problems.values():
        print(f"left out: {problem}", file=sys.stderr)
    if not lacking:
        print(f"{path}: has the work of all its {len(on_gpu)} cases")
        return not run.problems
    if objection := "" if commit else _objection(run):
        raise BadRun(f"{path}: the work of {len(lacking)} cases stays unknown: {objection}")
    try:
        work = derive(commit or run.commit.id, f"sm_{run.gpu.capability.replace('.', '')}", run.gpu.toolkit)
    except BadRevision as error:
        raise BadRun(f"{path}: the work of {len(lacking)} cases stays unknown: {error}") from None
    derived = {name: work.of(name, facts) for name, facts in lacking.items()}
    known = {name: identity for name, identity in derived.items() if isinstance(identity, Identity)}
    reasons = {name: reason for name, reason in derived.items() if isinstance(reason, str)}
    _write(path, known)
    compiled = "" if work.images else ", whose machine code was not compiled again: nvcc is not of the run's toolkit"
    print(f"{path}: derived the work of {len(known)} of {len(on_gpu)} cases from {commit or run.commit}{compiled}")
    for why, count in Counter(reasons.values()).items():
        first = next(name for name, reason in reasons.items() if reason == why)
        print(f"  {count} stay unknown, such as {first}: {why}; {ANEW}", file=sys.stderr)
    return not reasons and not run.problems


def _objection(run: RunRecord) -> str:
    """Say why nothing can be derived from a run's commit; empty where something can."""
    if not re.fullmatch("[0-9a-f]{40}", run.commit.id):
        return f"it does not say which commit was measured: name it by --commit, or {ANEW}"
    if run.commit.dirty is not False:
        return f"it was measured on changes to {run.commit.id[:12]}: name a commit that has them by --commit, or {ANEW}"
    return ""


def _derive(project: Project, commit: str, arch: str, toolkit: str) -> CommitWork:
    """Read what a commit declares, and compile it where the toolkit of that day is here. Raises BadRevision."""
    called = commit if len(commit) < 40 else commit[:12]
    tree = checkout(find_commit(commit, project.root), called, project)
    kernels = read_other_kernels(tree, project.module, called, arch)
    try:
        same = bool(toolkit) and nvcc().version == toolkit
    except NoCompiler:
        same = False
    images = compile_other_kernels(kernels.values(), Target(arch), progress(f"compiling {called}")) if same else {}
    return CommitWork(kernels=kernels, images=images)


def _write(path: Path, identities: Mapping[str, Identity]) -> None:
    """Add identities to a saved run, and change no byte of the rest. Raises BadRun or OSError."""
    document = read_document(path)
    written = read_content(path).decode()
    style = next((style for style in STYLES if style(document) == written), None)
    if style is None:
        raise BadRun(f"{path}: is not written as `pytest bench` writes runs, and would not stay as it is otherwise")
    for entry in document["benchmarks"]:
        if identity := identities.get(entry.get("param") or entry.get("name") or ""):
            entry["extra_info"]["identity"] = msgspec.to_builtins(identity)
    text = style(document)
    write_whole(path, lzma.compress(text.encode()) if path.suffix == ".xz" else text)
