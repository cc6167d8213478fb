"""First page: verdicts of the newest run, and what was not measured, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from warpwatch.catalogue.selection import omitted_cases, timed_cases
from warpwatch.compare.history import Step
from warpwatch.report.entries import FAILED, HOST, MISSING, NOT_COMPARED, Entry
from warpwatch.report.site.content import Content
from warpwatch.runs.identity import Identity, difference
from warpwatch.verdict.rule import Verdict

LATEST = 5  # lasting changes that are listed here; all are on the page of the nights
NEEDS_A_LOOK = ("slower", "faster", "unsure", MISSING, FAILED)
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


@dataclass(frozen=True)
class TodayPage:
    content: Content
    meaning = MEANING

    @property
    def counts(self) -> dict[str, int]:
        counted = Counter(entry.verdict for entry in self.content.entries)
        return {name: counted[name] for name in MEANING if counted[name] or name in ("slower", "faster")}

    @property
    def compared(self) -> bool:
        """True where the time of any case was compared, or known to be of the same work as before."""
        return any(e.ratio or e.verdict == Verdict.IDENTICAL for e in self.content.entries)

    @cached_property
    def lists(self) -> dict[str, list[Entry]]:
        """The cases that need a look, by verdict, the worst first."""
        lists = {}
        for verdict in NEEDS_A_LOOK:
            own = [entry for entry in self.content.entries if entry.verdict == verdict]
            lists[verdict] = sorted(own, key=lambda e: e.ratio or 1.0, reverse=verdict != "faster")
        return {verdict: own for verdict, own in lists.items() if own}

    @property
    def reasons(self) -> dict[str, int]:
        """Number of unsure cases by the reason that is given."""
        unsure = [e.decision for e in self.content.entries if e.verdict == "unsure" and e.decision]
        named = (decision.reason.partition(":")[0] or "no reason is known" for decision in unsure)
        return dict(Counter(named).most_common())

    @property
    def renamed(self) -> dict[str, str]:
        """New case that does the same work, by missing case."""
        new: dict[str | None, list[tuple[str, Identity | None]]] = {}  # by machine code, so that few are compared
        for e in self.content.entries:
            if e.timed and e.decision and e.decision.verdict == "new":
                new.setdefault(e.timed.facts.image_hash, []).append((e.id, e.timed.facts.identity))
        facts = {name: timed.facts for run in self.content.baseline for name, timed in run.cases.items()}
        pairs = {
            name: next((other for other, work in new.get(own.image_hash, ()) if not difference(own.identity, work)), "")
            for name in self.content.verdicts.missing
            if (own := facts[name])
        }
        return {name: other for name, other in pairs.items() if other}

    @property
    def latest(self) -> Sequence[Step]:
        numbers = self.content.numbers
        return sorted(self.content.kernel_steps, key=lambda step: numbers[step.after.path], reverse=True)[:LATEST]

    @cached_property
    def unmeasured(self) -> dict[str, list[str]]:
        """Cases that are declared and not in the run, by the reason."""
        today, families = self.content.today, self.content.project.families
        known, why = {*today.cases, *today.failed}, "not chosen: this run is of some cases alone"
        if today.against:
            known = set(today.cases)
            why = "of the same work in both revisions, which is not measured, or not to be compared"
        elif today.whole:
            why = "declared now, and not in this run: the GPU or a library that it needs was lacking, or it is newer"
        reasons = {
            "serial, and over a second each": [case.id for case in omitted_cases(families)],
            why: [case.id for case in timed_cases(families) if case.id not in known],
        }
        return {why: names for why, names in reasons.items() if names}
