"""Finds the commits that made cases slower: ``warpwatch bisect CASE... GOOD..BAD``.

No GPU is needed to find which commits changed the machine code; only those are measured.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.cli.options import add_arch, add_device, case_ids, few, kernel_case, progress
from warpwatch.compare.history import find_steps, load
from warpwatch.devices.compile.background import on_all_cores
from warpwatch.devices.compile.compiler import Target
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.explain.commit_range import Commit, Stretch, list_commits, stretches
from warpwatch.explain.commits import CommitCase, build_cases
from warpwatch.explain.explanation import explain
from warpwatch.explain.measure_commits import Asked, Failed, measure
from warpwatch.explain.search import Found, Measure, Range, Unusable, search
from warpwatch.report.tables import line
from warpwatch.revision.commit import same_files
from warpwatch.revision.declared import BadRevision, own_identity
from warpwatch.runs.identity import incomparable
from warpwatch.verdict.rule import Decision, Verdict


@dataclass(frozen=True, kw_only=True)
class Walked:
    """History of a case: its stretches of the same work, and by commit id why a commit has none."""

    case: Case
    stretches: Sequence[Stretch]
    why: Mapping[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    cases = parser.add_argument(
        "names", nargs="+", metavar="CASE", help="cases, and last the range of commits: GOOD..BAD"
    )
    cases.completer = case_ids  # type: ignore[attr-defined]
    history = "take the range from the case's saved runs: give one case alone"
    parser.add_argument("--from-history", action="store_true", help=history)
    parser.add_argument("--all-commits", action="store_true", help="walk the commits of merged branches too")
    parser.add_argument("--warm-cache", action="store_true", help="leave L2 as it is between samples")
    add_arch(parser)
    add_device(parser)


def run(
    project: Project,
    *,
    names: Sequence[str],
    from_history: bool,
    all_commits: bool,
    warm_cache: bool,
    arch: str,
    device: str,
) -> int:
    """Find the commits that made cases slower; returns the exit status: 0 where each slowdown has its commits.

    Raises BadCase, BadRevision, BadRun, NoCompiler or DeviceError.
    """
    *names, span = [*names, _range_of_history(project, names[0])] if from_history else names
    if not names or ".." not in span:
        raise BadRevision("give one case or several, then GOOD..BAD; `warpwatch list` shows the cases")
    cases = [kernel_case(project, name, "bisect") for name in dict.fromkeys(names)]
    commits = list_commits(span, project.root, first_parent=not all_commits)
    if not same_files("HEAD", "HEAD", project.root):
        print("the working tree has changes that are not committed: they take no part")
    worker = Worker(project, Settings(kind=device))
    try:
        target, why_not = _target(worker, arch)
        good = True
        for walked in walk(project, cases, commits, target):
            measurer = None if why_not else _on_gpu(walked, worker, cold=not warm_cache)
            good &= _bisect_case(walked, commits, target, measurer, why_not)
        return int(not good)
    finally:
        worker.stop()


def _range_of_history(project: Project, name: str) -> str:
    """Return the range of commits in which a case's saved runs show its largest slowdown.

    Raises BadRun or BadRevision.
    """
    runs, _ = load(project.saved_runs)
    slower = [step for step in find_steps(runs) if step.case == name and step.ratio > 1]
    if not slower:
        raise BadRevision(f"the saved runs show no lasting slowdown of {name}: give GOOD..BAD")
    step = slower[0]
    if not step.before.commit.id or not step.after.commit.id:
        raise BadRevision(f"the runs at the slowdown of {name} do not say which commits they are of: give GOOD..BAD")
    print(f"history: {step}")
    return f"{step.before.commit.id}..{step.after.commit.id}"


def _target(worker: Worker, arch: str) -> tuple[Target, str]:
    """Return what to compile for, and why nothing can be measured, or an empty text."""
    try:
        device = worker.call(describe_device)
    except NoDevice as error:
        return Target(arch), f"nothing was measured: {error}"
    if not device.has_gpu_clock:
        why = f"nothing was measured: {device.note or 'times of this device judge no kernel'}"
        return Target(arch), why
    return device.timing_target, ""


def walk(project: Project, cases: Sequence[Case], commits: Sequence[Commit], target: Target) -> list[Walked]:
    """Build cases for all commits on all cores, and group commits whose machine code is the same."""
    names = [case.id for case in cases]
    build = functools.partial(_build, names=names, project=project, target=target)
    jobs = on_all_cores(
        {commit.id: functools.partial(build, commit) for commit in commits}, progress("building commits")
    )
    results = {commit: job.result() for commit, job in jobs.items()}
    walked = []
    for case in cases:
        own = {commit: built if isinstance(built, str) else _of_case(case, built) for commit, built in results.items()}
        same_work, why = stretches(commits, own)
        walked.append(Walked(case=case, stretches=same_work, why=why))
    return walked


def _build(commit: Commit, names: Sequence[str], project: Project, target: Target) -> dict[str, CommitCase] | str:
    try:
        return build_cases(commit.id, commit.id[:12], names, project, target)
    except BadRevision as error:
        return str(error)


def _of_case(case: Case, built: Mapping[str, CommitCase]) -> CommitCase | str:
    """Return what a commit has for a case, or why that is not comparable."""
    of_commit = built.get(case.id)
    if of_commit is None:
        return "it does not have this case"
    return incomparable(of_commit.other.identity, own_identity(case)) or of_commit


def _on_gpu(walked: Walked, worker: Worker, *, cold: bool) -> Measure:
    """Make a function that measures pairs of a case's stretches."""

    def decide(ranges: Sequence[Range]) -> dict[Range, Decision | Unusable]:
        built = [stretch.built for stretch in walked.stretches]
        asked = {f"{i}-{j}": Asked(case=walked.case, old=built[i], new=built[j]) for i, j in ranges}
        decisions = measure(asked, worker, cold=cold, progress=progress("measuring"))
        return {(i, j): _usable(decisions[f"{i}-{j}"], i, j) for i, j in ranges}

    return decide


def _usable(decision: Decision | Failed, old: int, new: int) -> Decision | Unusable:
    """Return a decision on two codes, or which of them cannot be measured."""
    return Unusable(new if decision.is_new else old, decision.reason) if isinstance(decision, Failed) else decision


def _bisect_case(
    walked: Walked, commits: Sequence[Commit], target: Target, measurer: Measure | None, why_not: str
) -> bool:
    """Report on one case; returns whether commits were found that made it slower."""
    codes, name = walked.stretches, walked.case.id
    many = f"{len(codes)} different machine code{'s' * (len(codes) != 1)} or launches"
    print(f"{name}: {len(commits)} commits, {many}{_unused(walked.why, len(commits))}")
    if drawn := [commit for code in codes for commit in code.drawn]:
        print(
            f"  inputs are drawn in another way since {_named(drawn)}: all were, or would be, timed on today's inputs"
        )
    if len(codes) < 2:
        none = "no commit changed its machine code, launches or arguments"
        print(f"  {none}, so none of them changed what the kernel costs")
        return False
    if measurer is None:
        print(f"  {why_not}; these commits changed its machine code or launches:")
        for i in range(1, len(codes)):
            _print_step(codes, (i - 1, i), target, None, "")
        return False
    begin = time.monotonic()
    result = search(len(codes), measurer)
    _print_result(codes, result, target)
    print(f"  {time.monotonic() - begin:.0f} s on the GPU")
    return bool(result.steps)


def _unused(why: Mapping[str, str], count: int) -> str:
    """Say how many commits have no machine code, and why the first of them."""
    if not why:
        return ""
    commit, reason = next(iter(why.items()))
    return f"; {len(why)} of {count} cannot be used, such as {commit[:12]}: {reason}"


def _print_result(codes: Sequence[Stretch], result: Found, target: Target) -> None:
    for code, reason in result.unusable.items():
        print(f"  {codes[code].commits[0].id[:12]} cannot be measured: {reason}")
    if result.ends is None:
        print("  fewer than two of the machine codes can be measured")
        return
    first, last = codes[result.first].commits[0], codes[result.last].commits[-1]
    print(f"  {first.id[:12]}..{last.id[:12]}: {line(result.ends)}")
    if result.ends.verdict == Verdict.UNSURE:
        print("  so it cannot be told whether there is a slowdown in this range")
    elif result.ends.verdict != Verdict.SLOWER:
        print("  so there is no slowdown in this range to look for")
    for step, decision in sorted(result.steps.items()):
        _print_step(
            codes, step, target, decision, _share(decision, result.ends, len(result.steps) + len(result.ranges))
        )
    for (i, j), decision in sorted(result.ranges.items()):
        print(f"  {codes[i].commits[-1].id[:12]}..{codes[j].commits[0].id[:12]}: {line(decision)}")
        print("      in parts: none of the commits between was called slower by itself")


def _share(decision: Decision, ends: Decision, parts: int) -> str:
    """Say which part of the whole slowdown a step is, where there are several."""
    return f", {100 * math.log(decision.ratio) / math.log(ends.ratio):.0f} % of the slowdown" if parts > 1 else ""


def _print_step(codes: Sequence[Stretch], step: Range, target: Target, decision: Decision | None, share: str) -> None:
    old, new = codes[step[0]], codes[step[1]]
    between = [commit for code in codes[step[0] + 1 : step[1]] for commit in code.commits]
    print(f"  {new.commits[0]}")
    if decision:
        print(f"      {line(decision)}{share}")
    before, after = old.built.code, new.built.code
    if before and after:
        explanation = explain(before, after, target.arch, Verdict.SLOWER)
        print(f"      {explanation.sentence if decision else explanation.summary}")
    if possible := [*between, *new.skipped]:
        print(f"      or one of the commits before it that cannot be measured: {_named(possible)}")


def _named(commits: Sequence[Commit]) -> str:
    """Name the first of some commits."""
    return few([commit.id[:12] for commit in commits])
