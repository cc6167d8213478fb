"""Makes the first page: verdicts of the newest run, and what was not measured, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.report.site.material import FAILED, HOST, MISSING, NOT_COMPARED, Entry, Material
from warpwatch.runs.identity import Identity, difference
from warpwatch.runs.record import RunRecord

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


@dataclass(frozen=True, kw_only=True)
class Listed:
    """Holds the cases of one verdict, the worst first, and how many they are by the reason that is given."""

    verdict: str
    entries: Sequence[Entry]
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def first(self) -> Sequence[Entry]:
        return self.entries[:MOST_LISTED]

    @property
    def has_figures(self) -> bool:
        """True where cases of this verdict were timed."""
        return any(entry.seconds for entry in self.entries)


@dataclass(frozen=True, kw_only=True)
class TodayPage:
    """Holds what the first page shows.

    ``counts``: cases by verdict. ``lists``: those that need a look. ``renamed``: missing case -> a new one of the same
    machine code. ``unmeasured``: cases by the reason why they were not measured. ``alarm``: what
    changed for all cases together. ``left_out``: sentences on files and cases that could not be used.
    """

    run: RunRecord
    counts: Mapping[str, int]
    lists: Sequence[Listed]
    renamed: Mapping[str, str]
    unmeasured: Mapping[str, Sequence[str]]
    notes: Sequence[str]
    left_out: Sequence[str]
    alarm: str
    past: Sequence[RunRecord]


def today_page(material: Material, entries: Sequence[Entry]) -> TodayPage:
    """Make the first page."""
    counted = Counter(entry.verdict for entry in entries)
    found = [_listed(verdict, entries) for verdict in SHOWN if counted[verdict]]
    return TodayPage(
        run=material.today,
        counts={name: counted[name] for name in (*SHOWN, *OTHERS) if counted[name] or name in ("slower", "faster")},
        lists=found,
        renamed=_renamed(material, entries),
        unmeasured=_unmeasured(material),
        notes=material.verdicts.notes,
        left_out=material.problems,
        alarm=material.verdicts.alarm,
        past=material.verdicts.past,
    )


def _listed(verdict: str, entries: Sequence[Entry]) -> Listed:
    own = [entry for entry in entries if entry.verdict == verdict]
    own.sort(key=lambda e: e.ratio or 1.0, reverse=verdict != "faster")
    reasons = Counter(_reason(e) for e in own if verdict == "unsure")
    return Listed(verdict=verdict, entries=own, reasons=dict(reasons.most_common()))


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
    today, found = material.today, dict[str, list[str]]()
    for case in omitted_cases(material.project.families):
        found.setdefault("serial, and over a second each", []).append(case.id)
    if today.against:
        found["of the same work in both revisions, which is not measured, or not to be compared"] = [
            case.id for case in timed_cases(material.project.families) if case.id not in today.cases
        ]
        return {why: names for why, names in found.items() if names}
    known = {*today.cases, *today.failed}
    others = [case.id for case in timed_cases(material.project.families) if case.id not in known]
    why = "declared now, and not in this run: the GPU or a library that it needs was lacking, or it is newer"
    if not today.whole:
        why = "not chosen: this run is of some cases alone"
    return found | ({why: others} if others else {})
