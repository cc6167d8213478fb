"""Pairs in a comparison with a baseline: cases are measured beside the kernels of the commit that it was made of.

Saved times of another GPU or day show no change of 1 %, pairs do (with_revision.py). They need a commit that is in
HEAD's history, because its code runs here, and whose kernels are those that the baseline measured.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from warpwatch.catalogue.cases import Case
from warpwatch.catalogue.project import Project
from warpwatch.compare.code_difference import first_line
from warpwatch.compare.comparison import CALL, listed
from warpwatch.compare.pairs import PairComparison, open_spares, start_spares
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.devices.compile.compiler import CompileError, Image, NoCompiler, Target, nvcc
from warpwatch.devices.compile.toolchain import INSTALLED, BadToolchain, Toolchain, of_release
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.revision.commit import (
    UNSHALLOW,
    CommitCase,
    build_cases,
    find_commit,
    git,
    is_ancestor,
    is_shallow,
)
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.identity import difference
from warpwatch.runs.record import LONG_AGO, RunRecord
from warpwatch.timing.measurement import Again, Budget, Measured
from warpwatch.verdict.rule import PAIRS, SAME_WORK, SCREENING_PROCESSES, Decision, Verdict

# What a pair takes in a process (831 pairs: 341 s in three, on an H100), and what a process takes before it measures.
PAIR_COST, PROCESS_COST = 0.14, 1.2
MOST_CHANGES = 5  # changes of kernels before which a commit is looked for that has the baseline's code


def newest_clean(runs: Iterable[RunRecord]) -> RunRecord | None:
    """Return the last of the runs that were made of a clean commit."""
    clean = [run for run in runs if run.commit.id and run.commit.dirty is False]
    return max(clean, key=lambda run: run.when or LONG_AGO, default=None)


def run_to_build(runs: Iterable[RunRecord], root: Path) -> RunRecord:
    """Return the newest run of a baseline whose commit may be built here.

    That is somebody's code, which runs here: so only a commit in HEAD's history is built. Raises BadRevision.
    """
    run = newest_clean(runs)
    if run is None:
        raise BadRevision("no run of the baseline names a clean commit that it was made of")
    if not is_ancestor(run.commit.id, "HEAD", root):
        cure = f": {UNSHALLOW}" if is_shallow(root) else ""
        raise BadRevision(f"{run.commit}, which the baseline was made of, is not in HEAD's history here{cure}")
    return run


@dataclass(frozen=True, kw_only=True)
class Then:
    """A case as a commit has it, which is what a baseline measured. ``why``: it is not the baseline's own commit.

    ``toolchain``: that of the baseline, where it was built by it.
    """

    commit: str
    other: OtherKernel
    image: Image
    why: str = ""
    toolchain: Toolchain = INSTALLED


def build_then(run: RunRecord, cases: Mapping[str, Case], project: Project, target: Target) -> dict[str, Then | str]:
    """Build cases as a run measured them; a sentence for each of which that cannot be done.

    An engine of today may be unable to read the declarations of the run's commit. Then later commits are tried, as long
    as they have the work that the run recorded, to the last bit of machine code.
    """
    built: dict[str, Then | str] = {name: CALL for name, case in cases.items() if case.variant.call}
    reasons: dict[str, str] = {}
    for number, commit in enumerate(_commits(run, cases.values(), project)):
        left = {name: case for name, case in cases.items() if name not in built}
        if not left:
            break
        for name, found in _build_at(commit, left, run, project, target, is_own=not number).items():
            if isinstance(found, str):
                reasons.setdefault(name, found)
            else:
                assert isinstance(found.image, Image)
                why = reasons.get(name, "")
                built[name] = Then(commit=commit, other=found.other, image=found.image, why=why)
    return reasons | built


def _commits(run: RunRecord, cases: Iterable[Case], project: Project) -> Iterator[str]:
    """Yield commits that may have the code of a run: its own, HEAD, and those before the last changes of kernels."""
    yield run.commit.id
    folder = project.module.partition(".")[0]
    sources = {os.path.relpath(case.build.source.parent, project.root) for case in cases}
    paths = (folder, f"{folder}.py", *sorted(path for path in sources if not path.startswith("..")))
    since = ("--max-count", str(MOST_CHANGES), f"{run.commit.id}..HEAD", "--", *paths)
    changes = git("HEAD", project.root, "rev-list", "--first-parent", *since)
    if changes.returncode == 0:
        for name in ("HEAD", *(f"{commit}^" for commit in changes.stdout.decode().split())):
            with suppress(BadRevision):
                if (commit := find_commit(name, project.root)) != run.commit.id:
                    yield commit


def _build_at(
    commit: str, cases: Mapping[str, Case], run: RunRecord, project: Project, target: Target, *, is_own: bool
) -> dict[str, CommitCase | str]:
    """Build cases from a commit; a sentence for each that is not what a run measured. ``is_own``: the run's commit."""
    toolkit = toolkit_of(target)
    try:
        found = build_cases(commit, f"the baseline's commit {run.commit}", cases, project, target)
    except BadRevision as error:
        return dict.fromkeys(cases, str(error))
    built = {name: built_again(case, found.get(name), run, toolkit) for name, case in cases.items()}
    for name, each in built.items():
        if not is_own and not isinstance(each, str) and difference(run.cases[name].facts.identity, each.identity):
            built[name] = f"{commit[:12]} does other work than the baseline's"
    return built


def built_again(case: Case, built: CommitCase | None, run: RunRecord, toolkit: str) -> CommitCase | str:
    """Return what a commit has for a case where that is what a run measured, else why not.

    ``toolkit``: the version that built it. Machine code of another one is known to be other machine code.
    """
    if case.variant.call:
        return CALL
    if built is None or case.id not in run.cases:
        return f"{run.commit}, the baseline's newest, does not have it"
    if isinstance(built.image, CompileError):
        return f"in {run.commit}, {first_line(built.image)}"
    same_toolkit = toolkit == (run.gpu.toolkit or toolkit)
    if same_toolkit and built.image.image_hash != run.cases[case.id].facts.image_hash:
        return f"{run.commit}, compiled here, is not the code that the baseline was measured with"
    return built


def toolkit_of(target: Target) -> str:
    """Return the version of nvcc that compiles for a target; empty where there is none, and images are ready."""
    try:
        return nvcc(target.program).version
    except NoCompiler:
        return ""


@dataclass(kw_only=True)
class Confirmation:
    """Decides by pairs about cases of a comparison with a baseline.

    ``run``: of the baseline, whose commit is built. ``recorded_variances``: as of RevisionComparison. ``built``: each
    case of that commit, or why it is not what the run measured. ``reasons``: why pairs did not decide about a case.
    ``pairs``: both sides, once there are any to measure. ``lacks``: why the toolkit of the baseline, of another major
    version, does not build its commit.
    """

    run: RunRecord
    project: Project
    device: DeviceInfo
    recorded_variances: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    built: dict[str, Then | str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    pairs: RevisionComparison | None = None
    lacks: str = ""
    _figures: str = ""

    @property
    def _sides(self) -> dict[str, Then]:
        return {name: each for name, each in self.built.items() if not isinstance(each, str)}

    def build(self, measured: Mapping[str, Measured], parts: int, say: Callable[[str], object]) -> None:
        """Build the other side of these cases, while processes start that most pairs need after the first one.

        It is built by the baseline's toolkit where that is of an older major version, which the driver runs too. What
        that does not build as it was measured is built by the one that is here. ``say``: is told what takes long.
        """
        if self.device.has_gpu_clock:
            start_spares(next(iter(measured.values())).kernel.worker, parts)
        cases, target = {name: each.case for name, each in measured.items()}, self.device.timing_target
        if old := self._old_toolchain(say):
            then = build_then(self.run, cases, self.project, old.target(target))
            self.built = {n: replace(each, toolchain=old) for n, each in then.items() if isinstance(each, Then)}
            why = next((each for each in then.values() if isinstance(each, str) and each != CALL), "")
            self.lacks = self._not_built_by_it(why) if why and not self.built else ""
        left = {name: case for name, case in cases.items() if name not in self.built}
        self.built |= build_then(self.run, left, self.project, target) if left else {}
        self.reasons = {name: built for name, built in self.built.items() if isinstance(built, str)}

    def _old_toolchain(self, say: Callable[[str], object]) -> Toolchain | None:
        """Return the toolchain of the baseline where it is of an older major version and can be had."""
        then, now = self.run.gpu.toolkit, toolkit_of(self.device.timing_target)
        versions = [re.fullmatch(r"(\d+)\.\d+", each) for each in (then, now)]
        majors = [int(each[1]) for each in versions if each]
        if len(majors) < 2 or majors[0] >= majors[1]:
            return None
        try:
            return of_release(then, say)
        except BadToolchain as error:
            self.lacks = self._not_built_by_it(str(error))
            return None

    def _not_built_by_it(self, why: str) -> str:
        now = toolkit_of(self.device.timing_target)
        return f"the baseline's commit was built by CUDA {now}, not {self.run.gpu.toolkit}: {why}"

    def decide(
        self, measured: Mapping[str, Measured], budget: Budget, again: Again, doubt: str, parts: int
    ) -> dict[str, Decision]:
        """Measure what was built beside the cases of this run, and decide; ``reasons`` has the rest."""
        if not (sides := self._sides):
            return {}
        builders = (
            Counter(each.toolchain.title for each in sides.values())
            if any(each.toolchain != INSTALLED for each in sides.values())
            else {}
        )
        self.pairs = pairs = RevisionComparison(
            revision="the baseline's code",
            commit=Counter(each.commit for each in sides.values()).most_common(1)[0][0],
            others={name: each.other for name, each in sides.items()},
            images={key(each.other): each.image for each in sides.values()},
            side_by_side=PairComparison(doubt, parts),
            recorded_variances=self.recorded_variances,
            toolchain=(INSTALLED, self.device.capability) if builders else None,
            old_toolchain=", ".join(f"{title} ({counted(count)})" for title, count in builders.items()),
        )
        self._measure({name: measured[name] for name in sides}, pairs, budget, again)
        decisions = {name: self._said(decision) for name, decision in pairs.decisions.items()}
        compared = {name: each for name, each in decisions.items() if each.decided_by}
        for name in compared.keys() & pairs.measured.keys():
            measured[name].facts["pairs"] = pairs.measured[name].facts["pairs"]
        why = {name: each.reason for name, each in decisions.items()} | again.broken
        self.reasons |= {name: why.get(name) or "it got no figure" for name in sides if name not in compared}
        return compared

    def _measure(
        self, measured: Mapping[str, Measured], pairs: RevisionComparison, budget: Budget, again: Again
    ) -> None:
        """Measure the cases that differ in this process, and in as many more as their verdicts need."""
        differing = {name: each for name, each in measured.items() if pairs.measures(each.case, each.kernel.image)}

        def measure(name: str) -> None:
            each = measured[name]
            pairs.measure(each.kernel, each.case, again.cold, budget)

        for name in measured:
            if name not in differing:
                measure(name)
        if not differing:
            return
        if self.device.has_gpu_clock:
            worker = next(iter(differing.values())).kernel.worker
            families = [each.case.family for each in differing.values()]
            open_spares(worker, families, self.device, cold=again.cold)
        expected, begin = seconds_of(len(differing)), time.monotonic()
        again.say(f"{counted(len(differing))} to measure in pairs with {pairs.commit[:12]}: about {expected:.0f} s")
        again.each(differing, measure, how="beside the baseline's code")
        pairs.conclude(again)
        self._figures = f" ({time.monotonic() - begin:.0f} s, about {expected:.0f} expected)"

    def _said(self, decision: Decision) -> Decision:
        """Return a decision with what decided it: pairs, the same work, or nothing where they could not."""
        if decision.verdict == Verdict.IDENTICAL:
            then, now = self.run.gpu.toolkit, toolkit_of(self.device.timing_target)
            is_other = now and then not in ("", now) and not (self.pairs and self.pairs.toolchain)
            other = f", which CUDA {then} made other machine code of than {now}" if is_other else ""
            reason = f"{self.run.commit}, built here, does the same work{other}"
            return replace(decision, reason=reason, decided_by=SAME_WORK)
        compared = decision.verdict not in (Verdict.INCOMPARABLE, Verdict.NEW)
        return replace(decision, decided_by=PAIRS if compared else "")

    def describe(self, why: str) -> Sequence[str]:
        """Return lines on what pairs decided. ``why``: they were asked."""
        lacks = [self.lacks] if self.lacks else []
        if not self.pairs or not (count := len(self.pairs.measured)):
            return lacks
        others = {name: f"{each.commit[:12]}, because {each.why}" for name, each in self._sides.items() if each.why}
        lines = listed("built of another commit that does the baseline's work", others)
        return [
            f"decided by pairs: {counted(count)}{self._figures}, because {why}",
            *self.pairs.describe(),
            *lacks,
            *lines,
        ]


def counted(cases: int) -> str:
    return f"{cases or 'no'} case{'s' * (cases != 1)}"


def seconds_of(pairs: int) -> float:
    """Return how long so many pairs are expected to take, in the processes that measure all of them."""
    return pairs * PAIR_COST * SCREENING_PROCESSES + PROCESS_COST * (SCREENING_PROCESSES - 1)
