"""Finds the commits that made cases slower: ``warpwatch bisect CASE... GOOD..BAD``.

Each commit is built first, which needs no GPU. Those that do the same work follow each other in a stretch. Stretches
are then measured in pairs, and the steps between them found by halving.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from warpwatch.catalogue.calls import Call
from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.cli.json_file import JsonFile, add_json
from warpwatch.cli.options import add_arch, add_device, case_ids, completed, few, gpu_case, progress
from warpwatch.compare.apart import OtherProcess, SameWork
from warpwatch.compare.code_difference import first_line
from warpwatch.compare.comparison import load_in_background
from warpwatch.compare.history import Cause, find_steps, load
from warpwatch.compare.pairs import Pair, PairComparison
from warpwatch.devices.compile.background import on_all_cores
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.foreign_text import shortened
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import NoDevice, Settings
from warpwatch.devices.worker import Worker, describe_device
from warpwatch.explain.explanation import Explanation, code_of, explain, explain_call
from warpwatch.report.document import BisectionEntry, CommitEntry, SlowerRange, Step, cause_of, comparison_of
from warpwatch.report.tables import line
from warpwatch.revision.commit import (
    UNSHALLOW,
    CommitCase,
    build_cases,
    find_commit,
    git,
    is_ancestor,
    is_shallow,
    same_files,
)
from warpwatch.revision.declared import BadRevision, own_identity
from warpwatch.runs.identity import difference, incomparable
from warpwatch.runs.launched import Launched
from warpwatch.timing.measurement import Again, Measured
from warpwatch.timing.sampling import get_ready
from warpwatch.timing.side_by_side import OtherSideFailed
from warpwatch.verdict.rule import MIN_PROCESSES, Decision, Verdict

FIELDS = "%H%x00%an%x00%as%x00%s"  # of git's log: commit, author, day, subject
Range = tuple[int, int]  # from one stretch to a later one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completed(
        parser.add_argument("names", nargs="+", metavar="CASE", help="cases, and last the range of commits: GOOD..BAD"),
        case_ids,
    )
    parser.add_argument(
        "--from-history", action="store_true", help="take the range from the case's saved runs: give one case alone"
    )
    parser.add_argument("--all-commits", action="store_true", help="walk the commits of merged branches too")
    parser.add_argument("--warm-cache", action="store_true", help="leave L2 as it is between samples")
    add_arch(parser)
    add_device(parser)
    add_json(parser)


def run(
    project: Project,
    *,
    names: Sequence[str],
    from_history: bool,
    all_commits: bool,
    warm_cache: bool,
    arch: str,
    device: str,
    json: JsonFile | None = None,
) -> int:
    """Find the commits that made cases slower; returns the exit status: 0 where each slowdown has its commits.

    Raises BadCase, BadRevision, BadRun, NoCompiler or DeviceError.
    """
    json = json or JsonFile()
    json.root = project.root
    *names, span = [*names, _range_of_history(project, names[0])] if from_history else names
    if not names or ".." not in span:
        raise BadRevision("give one case or several, then GOOD..BAD; `warpwatch list` shows the cases")
    cases = [gpu_case(project, name, "bisect") for name in dict.fromkeys(names)]
    commits = list_commits(span, project.root, first_parent=not all_commits)
    if not same_files("HEAD", "HEAD", project.root):
        print("the working tree has changes that are not committed: they take no part")
    worker = Worker(project, Settings(kind=device))
    try:
        target, why_not = _target(worker, arch)
        good = True
        for history in build_all(project, cases, commits, target):
            measurer = functools.partial(measure, history, worker, cold=not warm_cache)
            result = _bisect_case(history, commits, target, None if why_not else measurer, why_not)
            json.bisections[history.case.id] = result
            good &= bool(result.steps) and not result.note
        return int(not good)
    finally:
        worker.stop()


def _range_of_history(project: Project, name: str) -> str:
    """Return the range of commits in which a case's saved runs show its largest slowdown.

    Raises BadRun or BadRevision.
    """
    runs, _ = load(project.saved_runs)
    lasting = [step for step in find_steps(runs) if step.case == name and step.ratio > 1]
    slower = [step for step in lasting if step.cause != Cause.ENVIRONMENT]
    if not slower:
        others = f" with a change of its work ({lasting[0]})" if lasting else ""
        raise BadRevision(f"the saved runs show no lasting slowdown of {name}{others}: give GOOD..BAD")
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
    if device.has_gpu_clock:
        return device.timing_target, ""
    return Target(arch), f"nothing was measured: {device.note or 'times of this device judge no kernel'}"


@dataclass(frozen=True, kw_only=True)
class Commit:
    id: str
    author: str
    day: str
    subject: str

    def __str__(self) -> str:
        return f"{self.id[:12]} {self.day} {shortened(self.author)}: {shortened(self.subject)}"


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Commits that follow each other and do the same work for a case, but for how its inputs are drawn.

    ``skipped``: commits before them, since the last stretch, that have no code; any may be the cause. ``drawn``: those
    of them that changed how inputs are drawn.
    """

    built: CommitCase
    commits: tuple[Commit, ...]
    skipped: tuple[Commit, ...] = ()
    drawn: tuple[Commit, ...] = ()


def list_commits(text: str, root: Path, *, first_parent: bool) -> list[Commit]:
    """List the commits of GOOD..BAD with GOOD as the first. Raises BadRevision."""
    good, dots, bad = text.partition("..")
    if not dots or not good or bad.startswith(".") or ".." in bad:
        raise BadRevision(f"{text} is not a range: give GOOD..BAD, such as v1.0..main or HEAD~40..HEAD")
    first, last = find_commit(good, root), find_commit(bad or "HEAD", root)
    if not is_ancestor(first, last, root):
        cure = UNSHALLOW if is_shallow(root) else "name the older one first"
        raise BadRevision(
            f"{good} is not an ancestor of {bad or 'HEAD'}, so no commits lead from one to the other: {cure}"
        )
    way = "--first-parent" if first_parent else "--topo-order"
    later = list(_log(text, root, "--reverse", way, f"{first}..{last}"))
    if not later:
        raise BadRevision(f"{text} holds no commit: both name {first[:12]}")
    return [*_log(text, root, "-1", first), *later]


def _log(text: str, root: Path, *words: str) -> Iterator[Commit]:
    """Yield commits as git lists them. ``text``: names them in messages. Raises BadRevision."""
    listed = git(text, root, "log", "-z", f"--format={FIELDS}", *words)
    if listed.returncode:
        raise BadRevision(f"git cannot list {text}: {shortened(listed.stderr.decode(errors='replace'))}")
    values = iter(listed.stdout.decode(errors="replace").split("\0"))
    for name, author, day, subject in zip(values, values, values, values, strict=False):
        yield Commit(id=name, author=author, day=day, subject=subject)


@dataclass(frozen=True, kw_only=True)
class CaseHistory:
    """Stretches of a case's commits, and by commit id why a commit is in none.

    ``launched``: what a call launches, by stretch, as far as that was measured.
    """

    case: Case
    stretches: Sequence[Stretch]
    why: Mapping[str, str]
    launched: dict[int, Launched] = field(default_factory=dict)

    def explain(self, step: Range, target: Target) -> Explanation:
        """Say why the later of two stretches is slower."""
        old, new = (self.stretches[code].built for code in step)
        if not self.case.variant.call:
            return explain(code_of(old), code_of(new), target.arch, Verdict.SLOWER)
        before, after = (self.launched.get(code, Launched()) for code in step)
        besides = difference(old.identity, new.identity).besides("code")
        return explain_call(before, after, besides, target.arch, Verdict.SLOWER)


def build_all(project: Project, cases: Sequence[Case], commits: Sequence[Commit], target: Target) -> list[CaseHistory]:
    """Build cases for all commits on all cores, and group commits that do the same work."""

    def build(commit: Commit) -> dict[str, CommitCase] | str:
        try:
            return build_cases(commit.id, commit.id[:12], [case.id for case in cases], project, target)
        except BadRevision as error:
            return str(error).removeprefix(f"{commit.id[:12]}: ")

    calls = {commit.id: functools.partial(build, commit) for commit in commits}
    built = {commit: job.result() for commit, job in on_all_cores(calls, progress("building commits")).items()}
    histories = []
    for case in cases:
        own = {commit: _of_case(case, results) for commit, results in built.items()}
        groups, why = stretches(commits, own, call=case.variant.call)
        histories.append(CaseHistory(case=case, stretches=groups, why=why))
    return histories


def _of_case(case: Case, built: Mapping[str, CommitCase] | str) -> CommitCase | str:
    """Return what a commit has for a case, or why that is not comparable."""
    if isinstance(built, str):
        return built
    if of_commit := built.get(case.id):
        if bool(of_commit.other.call) != bool(case.variant.call):
            return f"it is a {'call' if of_commit.other.call else 'kernel'} there"
        return incomparable(of_commit.other.identity, own_identity(case)) or of_commit
    return "it does not have this case"


def stretches(
    commits: Sequence[Commit], built: Mapping[str, CommitCase | str], *, call: Call | None = None
) -> tuple[list[Stretch], dict[str, str]]:
    """Group commits by the work that they do for a case, and say why commits have none, by their ids.

    ``built``: by commit, what it has for the case, or why it has nothing. ``call``: of the case; one that brings
    kernels of its own may launch others wherever any file differs.
    """
    groups: list[Stretch] = []
    why: dict[str, str] = {}
    skipped: list[Commit] = []
    newest: CommitCase | None = None
    for commit in commits:
        state = built[commit.id]
        if isinstance(state, CommitCase) and isinstance(state.image, CompileError):
            state = first_line(state.image)
        if isinstance(state, str):
            why[commit.id] = state
            skipped.append(commit)
            continue
        changed = difference(newest.identity if newest else None, state.identity, same_source=not call)
        drawn = (commit,) if "draw" in changed.changed and not call else ()  # each side of a call draws its own
        is_same = call.is_library and not changed if call else not changed.besides("draw")
        if newest and is_same:
            last = groups[-1]
            groups[-1] = replace(last, commits=(*last.commits, commit), drawn=(*last.drawn, *drawn))
        else:
            groups.append(Stretch(built=state, commits=(commit,), skipped=tuple(skipped), drawn=drawn))
        newest, skipped = state, []
    return groups, why


# Steps between stretches


@dataclass(frozen=True)
class Unusable:
    """Reason why a stretch cannot be measured, such as wrong results. ``code``: which."""

    code: int
    reason: str


Measure = Callable[[Sequence[Range]], Mapping[Range, Decision | Unusable]]


@dataclass(kw_only=True)
class Bisection:
    """Result of a bisection.

    ``usable``: the codes that can be measured; ``unusable``: why the others cannot. ``decided``: pairs that were
    measured. ``ends``: how the last code that can be measured differs from the first; None where fewer than two can be.
    ``steps``: neighbouring codes, without those that cannot be measured, of which the later is slower. ``ranges``:
    those that are slower as a whole while no half of them is by itself.
    """

    usable: list[int] = field(default_factory=list)
    unusable: dict[int, str] = field(default_factory=dict)
    decided: dict[Range, Decision] = field(default_factory=dict)
    ends: Decision | None = None
    first: int = 0
    last: int = 0
    steps: dict[Range, Decision] = field(default_factory=dict)
    ranges: dict[Range, Decision] = field(default_factory=dict)

    def ask(self, ranges: Sequence[Range], measure: Measure) -> bool:
        """Measure the ranges that are not decided yet; returns whether all their codes could be measured."""
        answers = measure([key for key in ranges if key not in self.decided])
        wrong = {each.code: each.reason for each in answers.values() if isinstance(each, Unusable)}
        self.decided |= {key: each for key, each in answers.items() if isinstance(each, Decision)}
        self.unusable |= wrong
        self.usable = [code for code in self.usable if code not in wrong]
        return not wrong

    def is_slower(self, key: Range) -> bool:
        return self.decided[key].verdict == Verdict.SLOWER

    def halves(self, key: Range) -> list[Range]:
        """Split a range at the code in its middle; nothing where no usable code lies between its ends."""
        between = [code for code in self.usable if key[0] < code < key[1]]
        middle = between[len(between) // 2] if between else 0
        return [(key[0], middle), (middle, key[1])] if between else []


def search(count: int, measure: Measure) -> Bisection:
    """Find the steps among codes 0 to ``count`` - 1. ``measure``: decides about several pairs of codes at once.

    Both ends come first. Where the later is slower, both halves are measured, and so on, all halves of one depth at
    once. A code that cannot be measured is left out, as `git bisect skip` does.
    """
    result = Bisection(usable=list(range(count)))
    while len(result.usable) > 1 and not result.ask([(result.usable[0], result.usable[-1])], measure):
        pass
    if len(result.usable) < 2:
        return result
    result.first, result.last = ends = (result.usable[0], result.usable[-1])
    result.ends = result.decided[ends]
    waiting = [ends] if result.is_slower(ends) else []
    while waiting:
        halves = {key: result.halves(key) for key in waiting}
        if not result.ask([half for both in halves.values() for half in both], measure):
            continue  # some middle cannot be used: choose others
        waiting = []
        for key, both in halves.items():
            slower = [half for half in both if result.is_slower(half)]
            if not slower:
                (result.ranges if both else result.steps)[key] = result.decided[key]
            waiting += slower
    return result


def measure(
    history: CaseHistory, worker: Worker, ranges: Sequence[Range], *, cold: bool
) -> dict[Range, Decision | Unusable]:
    """Compare pairs of a case's stretches, all in the same fresh processes.

    Raises DeviceError where no device answers.
    """
    decisions: dict[Range, Decision | Unusable] = {}
    comparison, show = PairComparison(), progress("measuring")
    worker.renew()
    worker.open_spares(MIN_PROCESSES, get_ready, "cold" if cold else "warm")
    load_in_background()
    worker.await_spares()
    names = {f"{old}-{new}": (old, new) for old, new in ranges}
    for name, (old, new) in names.items():
        pair = _pair(history.case, history.stretches[old].built, history.stretches[new].built, worker, cold)
        try:
            pair.take(0)
            comparison.pairs[name] = pair
        except SameWork:
            decisions[old, new] = Decision(verdict=Verdict.IDENTICAL)
        except (DeviceError, WrongResult, OtherSideFailed) as error:
            wrong = old if isinstance(error, OtherSideFailed) else new
            decisions[old, new] = Unusable(wrong, str(error).partition("\n")[0])
        for code, side in ((old, pair.apart), (new, pair.newer_apart)):
            if side and (launched := side.launched.get(history.case.id)):
                history.launched[code] = launched
        show(len(decisions) + len(comparison.pairs), len(ranges))
    again = Again(cold, show, {})
    if comparison.pairs:
        decisions |= {names[name]: decision for name, decision in comparison.decide(again).items()}
        decisions |= {names[name]: Unusable(names[name][1], why) for name, why in again.broken.items()}
    return decisions


def _pair(case: Case, old: CommitCase, new: CommitCase, worker: Worker, cold: bool) -> Pair:
    assert isinstance(old.image, Image)
    assert isinstance(new.image, Image)
    kernel = Kernel(worker=worker, build=case.build, image=new.image)
    measured = Measured(kernel=kernel, case=case, kind="cold" if cold else "warm")
    pair = Pair(measured=measured, other=old.other, other_image=old.image.path, image=new.image.path, newer=new.other)
    if case.variant.call:
        pair.same_source = not difference(old.identity, new.identity)
        pair.apart, pair.newer_apart = (
            OtherProcess(side.other.kernels.root, worker.project.module, worker.settings, fails)
            for side, fails in ((old, OtherSideFailed), (new, DeviceError))
        )
    return pair


# What is printed


def _bisect_case(
    history: CaseHistory, commits: Sequence[Commit], target: Target, measurer: Measure | None, why_not: str
) -> BisectionEntry:
    """Report on one case; returns the same for programs."""
    codes, why = history.stretches, history.why
    entry = BisectionEntry(commits=len(commits), codes=len(codes), unusable=dict(why))
    unused = [f"; {len(why)} of {len(commits)} cannot be used, such as {name[:12]}: {why[name]}" for name in why]
    many = f"{len(codes)} different machine code{'s' * (len(codes) != 1)} or launches"
    if is_call := bool(history.case.variant.call):
        many = f"{len(codes)} of which may do other work"
    print(f"{history.case.id}: {len(commits)} commits, {many}{''.join(unused[:1])}")
    if drawn := [commit for code in codes for commit in code.drawn]:
        entry = structs.replace(entry, drawn=tuple(commit.id for commit in drawn))
        print(
            f"  inputs are drawn in another way since {_named(drawn)}: all were, or would be, timed on today's inputs"
        )
    if len(codes) < 2:
        what = "what its declarations say" if is_call else "its machine code, launches or arguments"
        none = f"no commit {'that can be used ' * bool(why)}changed {what}"
        follows = "there are no two versions to compare" if why else "none of them changed what it costs"
        print(f"  {none}, so {follows}")
        return structs.replace(entry, note=none)
    if measurer is None and is_call:
        print(f"  {why_not}; what a call launches is seen on a GPU alone")
        return structs.replace(entry, note=why_not)
    if measurer is None:
        print(f"  {why_not}; these commits changed its machine code or launches:")
        steps = tuple(_print_step(history, (i - 1, i), target) for i in range(1, len(codes)))
        return structs.replace(entry, steps=steps, note=why_not)
    begin = time.monotonic()
    result = search(len(codes), measurer)
    entry = _print_result(history, result, target, entry)
    print(f"  {time.monotonic() - begin:.0f} s on the GPU")
    return entry


UNTRIED = BisectionEntry(commits=0, codes=0, unusable={})


def _print_result(
    history: CaseHistory, result: Bisection, target: Target, entry: BisectionEntry = UNTRIED
) -> BisectionEntry:
    """Print what a search has found, and return ``entry`` with it."""
    codes = history.stretches
    for code, reason in result.unusable.items():
        print(f"  {codes[code].commits[0].id[:12]} cannot be measured: {reason}")
    wrong = {codes[code].commits[0].id: reason for code, reason in result.unusable.items()}
    entry = structs.replace(entry, unusable={**entry.unusable, **wrong})
    if result.ends is None:
        none = "fewer than two of the machine codes can be measured"
        print(f"  {none}")
        return structs.replace(entry, note=none)
    first, last = codes[result.first].commits[0], codes[result.last].commits[-1]
    print(f"  {first.id[:12]}..{last.id[:12]}: {line(result.ends)}")
    if result.ends.verdict == Verdict.UNSURE:
        print("  so it cannot be told whether there is a slowdown in this range")
    elif result.ends.verdict != Verdict.SLOWER:
        print("  so there is no slowdown in this range to look for")
    several = len(result.steps) + len(result.ranges) > 1
    steps, ranges = [], []
    for step, decision in sorted(result.steps.items()):
        share = math.log(decision.ratio) / math.log(result.ends.ratio) if several else None
        steps.append(_print_step(history, step, target, decision, share))
    for (i, j), decision in sorted(result.ranges.items()):
        one, other = codes[i].commits[-1].id, codes[j].commits[0].id
        ranges.append(SlowerRange(first=one, last=other, comparison=comparison_of(decision)))
        print(f"  {one[:12]}..{other[:12]}: {line(decision)}")
        print("      in parts: none of the commits between was called slower by itself")
    return structs.replace(entry, ends=comparison_of(result.ends), steps=tuple(steps), ranges=tuple(ranges))


def _print_step(
    history: CaseHistory, step: Range, target: Target, decision: Decision | None = None, share: float | None = None
) -> Step:
    """Print a step between two stretches, and return it.

    ``decision``: by how much the later is slower, where that is known; ``share``: of the whole slowdown.
    """
    codes, new = history.stretches, history.stretches[step[1]]
    between = [commit for code in codes[step[0] + 1 : step[1]] for commit in code.commits]
    print(f"  {new.commits[0]}")
    explanation = history.explain(step, target)
    if decision:
        print(f"      {line(decision)}{'' if share is None else f', {100 * share:.0f} % of the slowdown'}")
    sentence = explanation.sentence if decision else explanation.summary
    print(f"      {sentence}")
    if possible := [*between, *new.skipped]:
        print(f"      or one of the commits before it that cannot be measured: {_named(possible)}")
    return Step(
        commit=_entry(new.commits[0]),
        comparison=comparison_of(decision) if decision else None,
        share=share,
        cause=cause_of(sentence, explanation.record),
        possible=tuple(map(_entry, possible)),
    )


def _entry(commit: Commit) -> CommitEntry:
    return CommitEntry(id=commit.id, author=commit.author, day=commit.day, subject=commit.subject)


def _named(commits: Sequence[Commit]) -> str:
    """Name the first of some commits."""
    return few([commit.id[:12] for commit in commits])
