"""Explains in full what changed in a case since another revision: ``warpwatch explain CASE [--against REV]``."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import median

from msgspec import structs

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.cli.json_file import JsonFile, add_json
from warpwatch.cli.options import add_arch, base_of, case_ids, completed, gpu_case, revisions
from warpwatch.compare.apart import OtherProcess
from warpwatch.compare.code_difference import first_line
from warpwatch.compare.pairs import Pair
from warpwatch.devices.compile.builds import compile_build, symbols_in
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import NoDevice, Settings
from warpwatch.devices.other_kernel import OtherKernel
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.explain.causes import Effect
from warpwatch.explain.explanation import CaseCode, Explanation, code_of, explain, explain_call, own_code
from warpwatch.explain.profile import METRICS, NoProfile, Profile, Side, grown
from warpwatch.report.document import Cause, cause_of
from warpwatch.revision.commit import SAME_LIBRARY, CommitCase, build_cases, same_files
from warpwatch.revision.declared import BadRevision, own_identity, with_code
from warpwatch.revision.unpacked import checkout, missing_submodules
from warpwatch.runs.explained import Figure
from warpwatch.runs.identity import difference
from warpwatch.runs.launched import Launched
from warpwatch.runs.record import Gpu, facts_of
from warpwatch.timing.measurement import Measured
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import OtherSideFailed
from warpwatch.verdict.rule import Verdict

SLOWER = 1.005  # a ratio of ncu's times from which on a case is explained as slower or faster
MOST_REASONS = 4  # stall reasons that are shown
WIDTH = 34
NOT_SEEN_OF_CALLS = "of a call, values of arguments, instructions and what its Python does are not compared"
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
    case = gpu_case(project, name, "explain")
    if against is None and not same_files("HEAD", "HEAD", project.root):
        against = "HEAD"
    commit, named = base_of(project, against)
    device = _gpu(project)
    target = device.timing_target if device else Target(arch)
    built = _built(project, name, commit, named, target)
    json.record = replace(json.record, against=commit, gpu=Gpu(**facts_of(device)) if device else Gpu())
    print(f"{name}: against {named} ({commit[:12]}), {target.arch}")
    if case.variant.call:
        json.causes[name], lacking = _explain_call(project, case, built, device, target), NOT_SEEN_OF_CALLS
    else:
        asks = not without_ncu
        json.causes[name], lacking = _explain_kernel(project, case, built, device, target, asks_ncu=asks)
    if lacking:
        print(f"  {lacking}")
        json.messages.append(lacking)
    return 0


def _explain_kernel(
    project: Project, case: Case, built: CommitCase, device: DeviceInfo | None, target: Target, *, asks_ncu: bool
) -> tuple[Cause, str]:
    """Print why a kernel may be slower; returns the same for programs, and why ncu did not count."""
    old, new = code_of(built), own_code(case, compile_build(case.build, target))
    profiles, lacking = None, "" if asks_ncu else "ncu was not asked"
    if asks_ncu:
        try:
            profiles = _profiles(project, case, built.other, old, new, device)
        except NoProfile as error:
            lacking = str(error)
    explanation = explain(old, new, target.arch, _verdict(profiles))
    cause = cause_of(explanation.sentence, explanation.record)
    if explanation.likely and not profiles:
        print("no time was measured here; if it is slower:")
    print(*_lines(explanation), sep="\n")
    if not profiles:
        return cause, lacking
    if not explanation.likely and (more := profiles[1].more_from_memory(profiles[0])):
        print(f"likely cause: {more}")
        cause = structs.replace(cause, sentence=f"likely cause: {more}")
    figures = _print_profiles(case, *profiles, device.peak_bytes_per_second if device else 0.0)
    return structs.replace(cause, figures=(*cause.figures, *figures)), ""


def _explain_call(project: Project, case: Case, built: CommitCase, device: DeviceInfo | None, target: Target) -> Cause:
    """Print why a call may be slower, from what both sides launch; returns the same for programs.

    Raises BadRevision where the commit's side fails, DeviceError where the working tree's does.
    """
    besides = difference(built.identity, with_code(own_identity(case), "", SAME_LIBRARY)).besides("code")
    lines, old, new, verdict = list[Line](), Launched(), Launched(), Verdict.SLOWER
    if device:
        taken, old = _measure_call(project, case, built, Settings(kind="gpu"))
        new, times = Launched.of(taken.facts), (median(taken.old), median(taken.new))
        sides = {"time, µs": (taken.old, taken.new), "host's time of a launch, µs": taken.beside.get("host_seconds")}
        lines = [_row(name, *(1e6 * median(side) for side in both)) for name, both in sides.items() if both]
        verdict = _direction(*times)
    explanation = explain_call(old, new, besides, target.arch, verdict)
    title = [f"  {'in one process a side':<{WIDTH}} {'old':>16} {'new':>16} {'new/old':>8}"] * bool(lines)
    print(*_lines(explanation), *title, *(text for text, _ in lines), sep="\n")
    cause = cause_of(explanation.sentence, explanation.record)
    return structs.replace(cause, figures=(*cause.figures, *(figure for _, figure in lines)))


def _measure_call(project: Project, case: Case, built: CommitCase, settings: Settings) -> tuple[PairSamples, Launched]:
    """Measure both sides of a call in turns, each in a process; returns also what the commit's launches."""
    assert isinstance(built.image, Image)
    worker, other = Worker(project, settings), OtherProcess(built.other.kernels.root, project.module, settings)
    kernel = Kernel(worker=worker, build=case.build, image=built.image)
    measured = Measured(kernel=kernel, case=case, kind="cold")
    path = built.image.path
    pair = Pair(measured=measured, other=built.other, other_image=path, image=path, apart=other, observers=("host",))
    try:
        return pair.take(0), other.launched.get(case.id, Launched())
    except OtherSideFailed as error:
        raise BadRevision(f"the other side fails: {error}") from None
    except WrongResult as error:
        raise DeviceError(str(error)) from None
    finally:
        worker.stop()
        other.stop()


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
    return _direction(*(side.values.get("time", 0.0) for side in profiles)) if profiles else Verdict.SLOWER


def _direction(old: float, new: float) -> Verdict:
    return Verdict.FASTER if 0 < new * SLOWER < old else Verdict.SLOWER


def _lines(explanation: Explanation) -> Iterator[str]:
    """Yield the cause, what else the rules found, and the figures of the machine code that differ."""
    yield explanation.sentence
    for entry, cause in explanation.causes:
        if cause is not explanation.likely:
            named = f"{entry}: " if len(explanation.sides) > 1 else ""
            yield f"  also ({EFFECTS[cause.effect]}): {named}{cause.sentence}"
    if explanation.note and explanation.note != explanation.sentence:
        yield f"  {explanation.note}"
    for entry, rows in groupby(explanation.record.figures, key=lambda figure: figure.kernel):
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
