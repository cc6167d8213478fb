"""Explains the slower and faster cases of a run, when their verdicts are known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from _pytest.junitxml import xml_key

from warpwatch.catalogue.project import Project
from warpwatch.compare.comparison import Comparison
from warpwatch.compare.declared import BadRevision
from warpwatch.compare.revision import is_ancestor
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.devices.compiler import CompileError, Image, Target
from warpwatch.devices.compiling import on_all_cores
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.other_kernel import key
from warpwatch.explain.commits import build_cases
from warpwatch.explain.explanation import CaseCode, explain, other_code, own_code
from warpwatch.report.tables import line, told
from warpwatch.runs.saved import Run
from warpwatch.timing.parent_samples import Measured
from warpwatch.verdict.rule import Decision, Verdict

EXPLAINED = 40  # cases of a run: disassembling takes a third of a second each
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
    target = device.timing_target
    if isinstance(comparison, RevisionComparison):
        both, why = _of_revision(comparison, chosen[:EXPLAINED])
    else:
        both, why = _of_baseline(comparison, chosen[:EXPLAINED], project, target)
    decisions, calls = comparison.decisions, {}
    for name, (measured, old) in both.items():
        calls[name] = functools.partial(_explained, measured, old, target.arch, decisions[name].verdict)
    said = dict.fromkeys(chosen[:EXPLAINED], why)
    said |= {name: job.result() for name, job in on_all_cores(calls, progress).items()}
    for name, sentence in said.items():
        if sentence:
            decisions[name] = replace(decisions[name], explanation=sentence)
            _measured(comparison)[name].facts[PROPERTY] = sentence


def _measured(comparison: RevisionComparison | BaselineComparison) -> Mapping[str, Measured]:
    if isinstance(comparison, BaselineComparison):
        return comparison.measured
    return {name: pair.measured for name, pair in comparison.side_by_side.pairs.items()}


def _explained(measured: Measured, old: CaseCode, arch: str, verdict: Verdict) -> str:
    return explain(old, own_code(measured.case, measured.kernel.image), arch, verdict).sentence


def _of_revision(comparison: RevisionComparison, names: list[str]) -> tuple[dict[str, Both], str]:
    found, pairs = {}, comparison.side_by_side.pairs
    for name in names:
        other = comparison.others[name]
        image = None if other.call else comparison.images.get(key(other))
        if isinstance(image, Image):
            found[name] = pairs[name].measured, other_code(other, image)
    return found, "it is a call, whose machine code is not compared"


def _of_baseline(
    comparison: BaselineComparison, names: list[str], project: Project, target: Target
) -> tuple[dict[str, Both], str]:
    """Build the baseline's side again from the commit of its newest run; say why where that cannot be done."""
    run = _newest(comparison.runs)
    if run is None:
        return {}, "not explained: the baseline does not say which commit it was made of"
    if not is_ancestor(run.commit.id, "HEAD", project.root):
        return {}, f"not explained: {run.commit}, which the baseline was made of, is not in HEAD's history here"
    try:
        made = build_cases(run.commit.id, f"the baseline's commit {run.commit}", names, project, target)
    except BadRevision as error:
        return {}, f"not explained: {str(error).replace('--against=', '')}"
    found = {}
    for name, each in made.items():
        recorded = run.cases[name].facts.image_hash if name in run.cases else None
        if each.code and not isinstance(each.image, CompileError) and each.image.image_hash == recorded:
            found[name] = comparison.measured[name], each.code
    return found, f"not explained: {run.commit}, compiled here, is not the code that the baseline was measured with"


def _newest(runs: Sequence[Run]) -> Run | None:
    """Return the last of the runs that were made of a clean commit."""
    clean = [run for run in runs if run.commit.id and not run.commit.dirty and run.when]
    return max(clean, key=lambda run: run.when or NEVER, default=None)


def reports(decisions: Mapping[str, Decision]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the messages of slower cases, and what reports for machines hold of each case, by id."""
    slower, properties = {}, {}
    for name, each in decisions.items():
        properties[name] = {"verdict": str(each.verdict), "comparison": told(each)}
        if each.explanation:
            properties[name][PROPERTY] = each.explanation
        if each.verdict == Verdict.SLOWER:
            slower[name] = line(each)
    return slower, properties


def add_to_junit(config: pytest.Config, report: pytest.TestReport) -> None:
    """Write the explanation of a case to the <system-out> of its entry in JUnit's file, where there is one."""
    text = dict(report.user_properties).get(PROPERTY)
    xml = config.stash.get(xml_key, None)
    if text and xml and report.when == "call":
        node = ElementTree.Element("system-out")
        node.text = str(text)
        xml.node_reporter(report).append(node)
