"""Makes the first page: verdicts of the newest run, and what was not measured, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.report.site.material import FAILED, HOST, MISSING, NOT_COMPARED, Entry, Material
from warpwatch.runs.identity import Identity, difference

MOST_LISTED = 25  # cases of a verdict on the first page; all are on that of the cases
SHOWN = ("slower", "faster", "unsure", MISSING, FAILED)  # first, whatever their number
OTHERS = ("same", "identical", "new", "incomparable", NOT_COMPARED, HOST)
MEANING: Mapping[str, str] = {
    "slower": "beyond the noise floor, at a family-wise error of 1 %",
    "faster": "the mirror of slower",
    "unsure": "neither, or something else than the kernel explains it",
    MISSING: "the baseline has it, this run has not",
    FAILED: "wrong, or it did not run",
    "same": "within the noise floor",
    "identical": "the same work on both sides: machine code, launches, arguments and inputs",
    "new": "the baseline does not have it",
    "incomparable": "measured under other conditions",
    NOT_COMPARED: "nothing to compare it with",
    HOST: "serial C++ on the host, which no verdict judges",
}


def today_page(material: Material, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return what the first page shows.

    ``counts``: cases by verdict. ``lists``: those that need a look. ``renamed``: missing case -> a new one of the same
    machine code. ``unmeasured``: cases by the reason why they were not measured. ``left_out``: sentences on files and
    cases that could not be used.
    """
    counted, verdicts = Counter(entry.verdict for entry in entries), material.verdicts
    return {
        "run": material.today,
        "counts": {name: counted[name] for name in (*SHOWN, *OTHERS) if counted[name] or name in ("slower", "faster")},
        "lists": [_listed(verdict, entries) for verdict in SHOWN if counted[verdict]],
        "renamed": _renamed(material, entries),
        "unmeasured": _unmeasured(material),
        "notes": verdicts.notes,
        "alarm": verdicts.alarm,
        "left_out": material.problems,
        "past": verdicts.past,
    }


def _listed(verdict: str, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the cases of one verdict, the worst first, and how many they are by the reason that is given."""
    own = [entry for entry in entries if entry.verdict == verdict]
    own.sort(key=lambda e: e.ratio or 1.0, reverse=verdict != "faster")
    reasons = Counter(_reason(e) for e in own if verdict == "unsure")
    return {
        "verdict": verdict,
        "entries": own,
        "first": own[:MOST_LISTED],
        "reasons": dict(reasons.most_common()),
        "has_figures": any(entry.seconds for entry in own),
    }


def _reason(entry: Entry) -> str:
    reason = entry.decision.reason if entry.decision else ""
    return reason.partition(":")[0] or "no reason is known"


def _renamed(material: Material, entries: Sequence[Entry]) -> dict[str, str]:
    """Find new cases that do the work of one that is missing."""
    new: dict[str | None, list[tuple[str, Identity | None]]] = {}  # by machine code, so that few are compared
    for e in entries:
        if e.timed and e.decision and e.decision.verdict == "new":
            new.setdefault(e.timed.facts.image_hash, []).append((e.id, e.timed.facts.identity))
    facts = {name: timed.facts for run in material.baseline for name, timed in run.cases.items()}
    pairs = {
        name: next((other for other, work in new.get(own.image_hash, ()) if not difference(own.identity, work)), "")
        for name in material.verdicts.missing
        if (own := facts[name])
    }
    return {name: other for name, other in pairs.items() if other}


def _unmeasured(material: Material) -> dict[str, list[str]]:
    """Cases that are declared and not in the run, by the reason."""
    today, reasons = material.today, dict[str, list[str]]()
    for case in omitted_cases(material.project.families):
        reasons.setdefault("serial, and over a second each", []).append(case.id)
    if today.against:
        reasons["of the same work in both revisions, which is not measured, or not to be compared"] = [
            case.id for case in timed_cases(material.project.families) if case.id not in today.cases
        ]
        return {why: names for why, names in reasons.items() if names}
    known = {*today.cases, *today.failed}
    others = [case.id for case in timed_cases(material.project.families) if case.id not in known]
    why = "declared now, and not in this run: the GPU or a library that it needs was lacking, or it is newer"
    if not today.whole:
        why = "not chosen: this run is of some cases alone"
    return reasons | ({why: others} if others else {})
