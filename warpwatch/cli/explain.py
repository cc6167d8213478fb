"""Explains in full what changed in a case since another revision: ``warpwatch explain CASE [--against REV]``."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.cli.json_file import JsonFile, add_json
from warpwatch.cli.options import add_arch, base_of, case_ids, completed, kernel_case, revisions
from warpwatch.compare.code_difference import KernelChange, first_line
from warpwatch.devices.compile.builds import compile_build, symbols_in
from warpwatch.devices.compile.compiler import CompileError, Target
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.opening import NoDevice, Settings
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.explain.causes import Effect
from warpwatch.explain.explanation import CaseCode, Explanation, code_of, explain, own_code
from warpwatch.explain.profile import METRICS, NoProfile, Profile, Side, grown
from warpwatch.report.document import cause_of
from warpwatch.revision.commit import CommitCase, build_cases, same_files
from warpwatch.revision.declared import BadRevision
from warpwatch.revision.unpacked import checkout, missing_submodules
from warpwatch.runs.explained import Figure
from warpwatch.runs.record import Gpu, facts_of
from warpwatch.verdict.rule import Verdict

SLOWER = 1.005  # a ratio of ncu's times from which on a case is explained as slower or faster
MOST_REASONS = 4  # stall reasons that are shown
WIDTH = 34
EFFECTS = {Effect.SLOWER: "makes it slower", Effect.FASTER: "makes it faster", Effect.EITHER: "slower or faster"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completed(parser.add_argument("name", metavar="CASE", help="a case's id"), case_ids)
    completed(
        parser.add_argument(
            "--against",
            metavar="REV",
            help="a commit, branch or tag (HEAD where files differ from it, else the merge base with the main branch)",
        ),
        revisions,
    )
    parser.add_argument("--without-ncu", action="store_true", help="compare the machine code alone")
    add_arch(parser)
    add_json(parser)


def run(
    project: Project, *, name: str, against: str | None, without_ncu: bool, arch: str, json: JsonFile | None = None
) -> int:
    """Print the explanation; returns the exit status.

    Raises BadCase, BadRevision, NoCompiler, CompileError or DeviceError.
    """
    json = json or JsonFile()
    json.root = project.root
    case = kernel_case(project, name, "explain")
    if against is None and not same_files("HEAD", "HEAD", project.root):
        against = "HEAD"
    commit, named = base_of(project, against)
    device = _gpu(project)
    target = device.timing_target if device else Target(arch)
    built = _built(project, name, commit, named, target)
    old, new = code_of(built), own_code(case, compile_build(case.build, target))
    print(f"{name}: against {named} ({commit[:12]}), {target.arch}")
    profiles, lacking = None, "ncu was not asked"
    if not without_ncu:
        try:
            profiles = _profiles(project, case, built.other, old, new, device)
        except NoProfile as error:
            lacking = str(error)
    explanation = explain(old, new, target.arch, _verdict(profiles))
    json.record = replace(json.record, against=commit, gpu=Gpu(**facts_of(device)) if device else Gpu())
    json.causes[name] = cause = cause_of(explanation.sentence, explanation.record)
    if explanation.likely and not profiles:
        print("no time was measured here; if it is slower:")
    print(*_lines(explanation), sep="\n")
    if not profiles:
        print(f"  {lacking}")
        json.messages.append(lacking)
        return 0
    if not explanation.likely and (more := profiles[1].more_from_memory(profiles[0])):
        print(f"likely cause: {more}")
        cause = structs.replace(cause, sentence=f"likely cause: {more}")
    figures = _print_profiles(case, *profiles, device.peak_bytes_per_second if device else 0.0)
    json.causes[name] = structs.replace(cause, figures=(*cause.figures, *figures))
    return 0


def _print_profiles(case: Case, old: Profile, new: Profile, peak: float) -> list[Figure]:
    """Print what ncu counted on both sides, and return it."""
    lines = list(_profile_lines(case, old, new, peak))
    title = f"  {'Nsight Compute, one launch':<{WIDTH}} {'old':>16} {'new':>16} {'new/old':>8}"
    print(title, *(text for text, _ in lines), sep="\n")
    return [figure for _, figure in lines]


def _built(project: Project, name: str, commit: str, named: str, target: Target) -> CommitCase:
    """Build a case for a commit. Raises BadRevision where that does not have it, or it does not compile there."""
    built = build_cases(commit, named, [name], project, target).get(name)
    if built is None:
        lacks = missing_submodules(checkout(commit, named, project))
        raise BadRevision(f"{named} does not have {name}: {lacks or 'it is new'}")
    if isinstance(built.image, CompileError):
        raise BadRevision(f"in {named}, {first_line(built.image)}")
    return built


def _gpu(project: Project) -> DeviceInfo | None:
    worker = Worker(project, Settings(kind="gpu"))
    try:
        with contextlib.suppress(NoDevice):
            return worker.call(describe_device)
        return None
    finally:
        worker.stop()


def _profiles(
    project: Project, case: Case, other: OtherKernel, old: CaseCode, new: CaseCode, device: DeviceInfo | None
) -> tuple[Profile, Profile]:
    if device is None:
        raise NoProfile("there is no GPU here, so no counters of Nsight Compute are compared")

    def of(code: CaseCode, other: OtherKernel | None) -> Profile:
        path = Path(code.image.path)
        side = Side(root=project.root, module=project.module, case=case.id, image=path, other=other)
        return side.profile(list(symbols_in(path, code.kernels.entries).values()))

    return of(old, other), of(new, None)


def _verdict(profiles: tuple[Profile, Profile] | None) -> Verdict:
    """Return which way ncu's times went, for the cause that fits; slower where there are none."""
    times = [side.values.get("time", 0.0) for side in profiles] if profiles else []
    return Verdict.FASTER if all(times) and times and times[1] * SLOWER < times[0] else Verdict.SLOWER


def _lines(explanation: Explanation) -> Iterator[str]:
    """Yield the cause, what else the rules found, and the figures of the machine code that differ."""
    yield explanation.sentence
    for entry, cause in explanation.causes:
        if cause is not explanation.likely:
            named = f"{entry}: " if len(explanation.sides) > 1 else ""
            yield f"  also ({EFFECTS[cause.effect]}): {named}{cause.sentence}"
    if explanation.note and explanation.note != explanation.sentence:
        yield f"  {explanation.note}"
    for entry, (old, new) in explanation.sides.items():
        rows = KernelChange(entry=entry, old=old, new=new).differences()
        if rows:
            yield f"  {entry + ', machine code':<{WIDTH}} {'old':>24} {'new':>24}"
        yield from (f"  {row.name:<{WIDTH}} {row.old:>24} {row.new:>24}" for row in rows)


Line = tuple[str, Figure]  # as it is printed, and for programs


def _profile_lines(case: Case, old: Profile, new: Profile, peak: float) -> Iterator[Line]:
    """Yield what ncu counted on both sides. ``peak``: bytes a second that memory moves at most, or 0."""
    for name, _, _, unit in METRICS:
        if name in old.values and name in new.values:
            yield _row(f"{name}{f', {unit}' * bool(unit)}", old.values[name], new.values[name])
    yield from _roofline(case, old, new, peak)
    for reason, before, after in grown(old.stalls, new.stalls, MOST_REASONS):
        if reason != "selected":
            yield _row(f"warps that waited: {reason}", before, after)
    for place, before, after in grown(old.lines, new.lines):
        figure = Figure(kernel="", name=f"waits at {place}, samples", old=f"{before:.0f}", new=f"{after:.0f}")
        yield f"  waits grew at {place}: {before:,.0f} -> {after:,.0f} samples", figure


def _row(name: str, before: float, after: float) -> Line:
    ratio = f"{after / before:8.2f}" if before else " " * 8
    figure = Figure(kernel="", name=name, old=f"{before:.2f}", new=f"{after:.2f}")
    return f"  {name:<{WIDTH}} {before:>16,.2f} {after:>16,.2f} {ratio}", figure


def _roofline(case: Case, old: Profile, new: Profile, peak: float) -> Iterator[Line]:
    """Yield where the case stands under the roofline, by the work that was declared."""
    times = [side.values.get("time", 0.0) * 1e-6 for side in (old, new)]
    if not all(times) or not case.work.bytes:
        return
    rates = [case.work.bytes / seconds / 1e9 for seconds in times]
    yield _row("rate over memory, GB/s", *rates)
    if peak:
        yield _row("share of memory's peak, %", *(100e9 * rate / peak for rate in rates))
    if case.work.operations:
        intensity = case.work.operations / case.work.bytes
        figure = Figure(kernel="", name="operations a byte", old=f"{intensity:.2f}", new=f"{intensity:.2f}")
        yield f"  {'operations a byte':<{WIDTH}} {intensity:>16,.2f}", figure
        yield _row("rate of arithmetic, Gop/s", *(case.work.operations / seconds / 1e9 for seconds in times))
