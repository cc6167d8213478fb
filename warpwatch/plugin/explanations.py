"""Explains the slower and faster cases of a run, when their verdicts are known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from warpwatch.catalogue.project import Project
from warpwatch.compare.code_difference import first_line
from warpwatch.compare.comparison import Comparison
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.devices.compile.background import on_all_cores
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.other_kernel import key
from warpwatch.explain.commits import CommitCase, build_cases
from warpwatch.explain.explanation import BESIDES, CaseCode, could_read_code, explain, other_code, own_code
from warpwatch.report.tables import line, sentence
from warpwatch.revision.commit import is_ancestor
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.record import RunRecord
from warpwatch.timing.parent_samples import Measured
from warpwatch.verdict.rule import Decision, Verdict

EXPLAINED = 40  # cases of a run: disassembling takes a third of a second each
TOO_MANY = f"not explained: the {EXPLAINED} worst are; python -m warpwatch explain CASE does it"
CALL = "it is a call, whose machine code is not compared"
PROPERTY = "explanation"  # of a report, and a fact of a saved case
NEVER = datetime.min.replace(tzinfo=UTC)
EXPLAINABLE = (Verdict.SLOWER, Verdict.FASTER)
Progress = Callable[[int, int], None]
Both = tuple[Measured, CaseCode]  # a measured case, and the other side's code


def explain_cases(comparison: Comparison, project: Project, device: DeviceInfo | NoDevice, progress: Progress) -> None:
    """Give the slower and faster cases of a comparison the likely cause: the worst of them, where there are many."""
    if not isinstance(comparison, RevisionComparison | BaselineComparison) or not isinstance(device, DeviceInfo):
        return
    chosen = [name for name, each in comparison.decisions.items() if each.verdict in EXPLAINABLE]
    chosen.sort(key=lambda name: -comparison.decisions[name].ratio)
    if not chosen:
        return
    target, worst = device.timing_target, chosen[:EXPLAINED]
    if isinstance(comparison, RevisionComparison):
        found = {name: _of_revision(comparison, name) for name in worst}
    else:
        found = _of_baseline(comparison, worst, project, target)
    decisions, calls = comparison.decisions, {}
    said = dict.fromkeys(chosen, TOO_MANY)
    for name, each in found.items():
        if isinstance(each, str):
            besides = changed.besides("code") if (changed := comparison.changed.get(name)) else ""
            said[name] = f"{BESIDES}: {besides}" if besides else f"not explained: {each}"
        else:
            measured, old = each
            calls[name] = functools.partial(_explained, measured, old, target.arch, decisions[name].verdict)
    read = {code.image.image_hash: functools.partial(could_read_code, code) for code in _codes(found.values())}
    steps = len(read)  # many cases have one image, which takes a third of a second to be read
    on_all_cores(read, lambda done, _: progress(done, steps + len(calls)))
    explained = on_all_cores(calls, lambda done, _: progress(steps + done, steps + len(calls)))
    said |= {name: job.result() for name, job in explained.items()}
    for name, explanation in said.items():
        decisions[name] = replace(decisions[name], explanation=explanation)


def _codes(found: Iterable[Both | str]) -> Iterator[CaseCode]:
    for each in found:
        if not isinstance(each, str):
            measured, old = each
            yield old
            yield own_code(measured.case, measured.kernel.image)


def _explained(measured: Measured, old: CaseCode, arch: str, verdict: Verdict) -> str:
    return explain(old, own_code(measured.case, measured.kernel.image), arch, verdict).sentence


def _of_revision(comparison: RevisionComparison, name: str) -> Both | str:
    """Return a measured case and the other revision's code, or why that is not compared."""
    other = comparison.others[name]
    image = None if other.call else comparison.images.get(key(other))
    if not isinstance(image, Image):
        return CALL
    return comparison.side_by_side.pairs[name].measured, other_code(other, image)


def _of_baseline(
    comparison: BaselineComparison, names: Sequence[str], project: Project, target: Target
) -> dict[str, Both | str]:
    """Build the baseline's side again from the commit of its newest run; of each case its code, or why there is none.

    That is somebody's code, which runs here: so only a commit in HEAD's history is built.
    """
    run = _newest(comparison.runs)
    if run is None:
        return dict.fromkeys(names, "the baseline does not say which commit it was made of")
    if not is_ancestor(run.commit.id, "HEAD", project.root):
        return dict.fromkeys(names, f"{run.commit}, which the baseline was made of, is not in HEAD's history here")
    try:
        made = build_cases(run.commit.id, f"the baseline's commit {run.commit}", names, project, target)
    except BadRevision as error:
        return dict.fromkeys(names, str(error))
    return {name: _built_again(comparison.measured[name], made.get(name), run) for name in names}


def _built_again(measured: Measured, built: CommitCase | None, run: RunRecord) -> Both | str:
    """Return a measured case and what a run's commit has for it, where that is what the run measured."""
    name = measured.case.id
    if measured.case.variant.call:
        return CALL
    if built is None or name not in run.cases:
        return f"{run.commit}, the baseline's newest, does not have it"
    if isinstance(built.image, CompileError):
        return f"in {run.commit}, {first_line(built.image)}"
    if built.image.image_hash != run.cases[name].facts.image_hash:
        return f"{run.commit}, compiled here, is not the code that the baseline was measured with"
    return measured, other_code(built.other, built.image)


def _newest(runs: Sequence[RunRecord]) -> RunRecord | None:
    """Return the last of the runs that were made of a clean commit."""
    clean = [run for run in runs if run.commit.id and not run.commit.dirty and run.when]
    return max(clean, key=lambda run: run.when or NEVER, default=None)


def reports(decisions: Mapping[str, Decision]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the messages of slower cases, and what reports for machines hold of each case, by id."""
    slower, properties = {}, {}
    for name, each in decisions.items():
        properties[name] = {"verdict": str(each.verdict), "comparison": sentence(each)}
        if each.explanation:
            properties[name][PROPERTY] = each.explanation
        if each.verdict == Verdict.SLOWER:
            slower[name] = line(each)
    return slower, properties
