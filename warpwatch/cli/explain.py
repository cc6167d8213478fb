"""Explains in full what changed in a case since another revision: ``warpwatch explain CASE [--against REV]``."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add_arch, base_of, case_ids, kernel_case, revisions
from warpwatch.compare.code_difference import first_line
from warpwatch.devices.compile.builds import compile_build, symbols_in
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.explain.explanation import CaseCode, code_of, explain, own_code
from warpwatch.explain.profile import NoProfile, Profile, Side
from warpwatch.report.explanation import lines_of, profile_lines
from warpwatch.revision.commit import CommitCase, build_cases, same_files
from warpwatch.revision.declared import BadRevision
from warpwatch.revision.unpacked import checkout, missing_submodules
from warpwatch.verdict.rule import Verdict

SLOWER = 1.005  # a ratio of ncu's times from which on a case is explained as slower or faster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    case = parser.add_argument("name", metavar="CASE", help="a case's id")
    case.completer = case_ids  # type: ignore[attr-defined]
    base = "a commit, branch or tag (HEAD where files differ from it, else the merge base with the main branch)"
    revision = parser.add_argument("--against", metavar="REV", help=base)
    revision.completer = revisions  # type: ignore[attr-defined]
    parser.add_argument("--without-ncu", action="store_true", help="compare the machine code alone")
    add_arch(parser)


def run(project: Project, *, name: str, against: str | None, without_ncu: bool, arch: str) -> int:
    """Print the explanation; returns the exit status.

    Raises BadCase, BadRevision, NoCompiler, CompileError or DeviceError.
    """
    case = kernel_case(project, name, "explain")
    if against is None and not same_files("HEAD", "HEAD", project.root):
        against = "HEAD"
    commit, named = base_of(project, against)
    device = _gpu(project)
    target = device.timing_target if device else Target(arch)
    built = build_cases(commit, named, [name], project, target).get(name)
    if built is None:
        lacks = missing_submodules(checkout(commit, named, project))
        raise BadRevision(f"{named} does not have {name}: {lacks or 'it is new'}")
    if isinstance(built.image, CompileError):
        raise BadRevision(f"in {named}, {first_line(built.image)}")
    image = compile_build(case.build, target)
    old, new = code_of(built), own_code(case, image)
    print(f"{name}: against {named} ({commit[:12]}), {target.arch}")
    profiles, lacking = None, "ncu was not asked"
    if not without_ncu:
        try:
            profiles = _profiles(project, case, (built, old), (image, new), device)
        except NoProfile as error:
            lacking = str(error)
    explanation = explain(old, new, target.arch, _verdict(profiles))
    if explanation.likely and not profiles:
        print("no time was measured here; if it is slower:")
    for line in lines_of(explanation):
        print(line)
    if profiles and not explanation.likely and (more := profiles[1].more_from_memory(profiles[0])):
        print(f"likely cause: {more}")
    if profiles:
        for line in profile_lines(case, *profiles, device.peak_bytes_per_second if device else 0.0):
            print(line)
    else:
        print(f"  {lacking}")
    return 0


def _gpu(project: Project) -> DeviceInfo | None:
    """Describe the GPU; None where there is none."""
    worker = Worker(project, Settings(kind="gpu"))
    try:
        with contextlib.suppress(NoDevice):
            return worker.call(describe_device)
        return None
    finally:
        worker.stop()


def _profiles(
    project: Project,
    case: Case,
    old: tuple[CommitCase, CaseCode],
    new: tuple[Image, CaseCode],
    device: DeviceInfo | None,
) -> tuple[Profile, Profile]:
    """Profile both sides. Raises NoProfile."""
    if device is None:
        raise NoProfile("there is no GPU here, so no counters of Nsight Compute are compared")
    before, after = Path(old[1].image.path), Path(new[0].path)
    sides = [
        Side(root=project.root, module=project.module, case=case.id, image=before, other=old[0].other),
        Side(root=project.root, module=project.module, case=case.id, image=after, other=None),
    ]
    symbols = [list(symbols_in(code.image.path, code.kernels.entries).values()) for code in (old[1], new[1])]
    first, second = (side.profile(names) for side, names in zip(sides, symbols, strict=True))
    return first, second


def _verdict(profiles: tuple[Profile, Profile] | None) -> Verdict:
    """Return which way ncu's times went, for the cause that fits; slower where there are none."""
    times = [side.values.get("time", 0.0) for side in profiles] if profiles else []
    return Verdict.FASTER if all(times) and times and times[1] * SLOWER < times[0] else Verdict.SLOWER
