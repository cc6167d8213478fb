"""Explains the slower and faster cases of a run, when their verdicts are known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from warpwatch.catalogue.project import Project
from warpwatch.compare.comparison import Comparison
from warpwatch.devices.compile.background import on_all_cores
from warpwatch.devices.gpu import NoDevice
from warpwatch.devices.info import DeviceInfo
from warpwatch.explain.explanation import BESIDES, CaseCode, explain, other_code, own_code
from warpwatch.report.tables import line, sentence
from warpwatch.verdict.rule import Decision, Verdict

EXPLAINED = 40  # cases of a run: disassembling takes a third of a second each
TOO_MANY = f"not explained: the {EXPLAINED} worst are; python -m warpwatch explain CASE does it"
PROPERTY = "explanation"  # of a report, and a fact of a saved case
EXPLAINABLE = (Verdict.SLOWER, Verdict.FASTER)
Progress = Callable[[int, int], None]


def explain_cases(comparison: Comparison, project: Project, device: DeviceInfo | NoDevice, progress: Progress) -> None:
    """Give the slower and faster cases of a comparison the likely cause: the worst of them, where there are many."""
    decisions, calls = comparison.decisions, {}
    chosen = [name for name, each in decisions.items() if each.verdict in EXPLAINABLE]
    chosen.sort(key=lambda name: -decisions[name].ratio)
    if not chosen or not isinstance(device, DeviceInfo):
        return
    target, codes = device.timing_target, list[CaseCode]()
    sides = comparison.old_codes(chosen[:EXPLAINED], project, target)
    said = dict.fromkeys(chosen, TOO_MANY)
    for name, side in sides.items():
        if isinstance(side, str):
            besides = changed.besides("code") if (changed := comparison.changed.get(name)) else ""
            said[name] = f"{BESIDES}: {besides}" if besides else f"not explained: {side}"
        else:
            measured = comparison.measured[name]
            both = other_code(*side), own_code(measured.case, measured.kernel.image)
            calls[name] = functools.partial(_explained, *both, target.arch, decisions[name].verdict)
            codes += both
    read = {code.image.image_hash: code.read_ahead for code in codes}
    steps = len(read)  # many cases have one image, which takes a third of a second to be read
    on_all_cores(read, lambda done, _: progress(done, steps + len(calls)))
    explained = on_all_cores(calls, lambda done, _: progress(steps + done, steps + len(calls)))
    said |= {name: job.result() for name, job in explained.items()}
    for name, explanation in said.items():
        decisions[name] = replace(decisions[name], explanation=explanation)


def _explained(old: CaseCode, new: CaseCode, arch: str, verdict: Verdict) -> str:
    return explain(old, new, arch, verdict).sentence


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
