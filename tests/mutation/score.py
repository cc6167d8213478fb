"""What came of the mistakes: who noticed which, the score, and how near the place that was named lies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.mutation.mistakes import Change, Mistake

NEEDED = 0.97  # share of the mistakes that must be noticed
NEAR = 5  # lines
DEPENDS = re.compile(r"\s+(?:the (?:first |second )?address depends on|condition before the access:) ")
PLACE = re.compile(r"kernels/([\w/]+\.(?:cu|h)):(\d+)")


@dataclass(frozen=True)
class Verdict:
    """What the tests said of one mistake. ``test`` is that which failed, or nothing.

    ``finding``: the software device said it, not a comparison of results or a refused launch. ``near``: a place that it
    named lies within NEAR lines of the mistake. ``places``: how many different ones it named, without the calls that
    lead there and what an address depends on.
    """

    mistake: Mistake
    change: Change
    test: str = ""
    said: str = ""
    finding: bool = False
    near: bool = False
    places: int = 0

    @property
    def noticed(self) -> bool:
        return bool(self.test)

    @property
    def line(self) -> str:
        """Return one line about it."""
        what = f"kernels/{self.mistake.file}:{self.change.first}: {self.mistake.what}"
        if not self.noticed:
            return f"{'as it should be' if self.mistake.same else 'SURVIVED':<15} {what}"
        by = (
            "result or launch"
            if not self.finding
            else "finding, near"
            if self.near
            else f"finding, {self.places} place(s)"
        )
        return f"{'NOTICED' if self.mistake.same else 'noticed':<15} {what} [{by}: {self.test}]"


def judge(mistake: Mistake, change: Change, test: str, said: str) -> Verdict:
    """Make the verdict of what a failed test said."""
    places = {(file, int(line)) for file, line in PLACE.findall(said)}
    near = any(file == mistake.file and change.first - NEAR <= line <= change.last + NEAR for file, line in places)
    finding = "softcuda:" in said
    of_accesses = [line for line in said.splitlines() if not DEPENDS.match(line)]
    accesses = {match.groups() for match in map(PLACE.search, of_accesses) if match}
    return Verdict(mistake, change, test, said, finding, finding and near, len(accesses))


@dataclass(frozen=True)
class Score:
    """Counts over all verdicts. A mistake that is set aside has a reason why nobody can notice it."""

    mistakes: int
    noticed: int
    aside: int
    controls: int
    accused: int  # controls and mistakes set aside that somebody noticed
    findings: int
    near: int
    both: int  # findings that name no place near, and two places or more

    @property
    def share(self) -> float:
        return self.noticed / self.mistakes if self.mistakes else 1.0

    @property
    def good(self) -> bool:
        return self.share >= NEEDED and self.accused == 0


def score(verdicts: Sequence[Verdict]) -> Score:
    """Count."""
    real = [verdict for verdict in verdicts if not verdict.mistake.same]
    same = [verdict for verdict in verdicts if verdict.mistake.same]
    findings = [verdict for verdict in real if verdict.finding]
    return Score(
        mistakes=len(real),
        noticed=sum(verdict.noticed for verdict in real),
        aside=sum(not verdict.mistake.control for verdict in same),
        controls=sum(verdict.mistake.control for verdict in same),
        accused=sum(verdict.noticed for verdict in same),
        findings=len(findings),
        near=sum(verdict.near for verdict in findings),
        both=sum(not verdict.near and verdict.places > 1 for verdict in findings),
    )


def report(verdicts: Sequence[Verdict], said: bool = False) -> tuple[str, bool]:
    """Return the tables in words, and whether the score is good enough."""
    total = score(verdicts)
    lines = ["", "| kind | mistakes | noticed |", "|---|---:|---:|"]
    real = [verdict for verdict in verdicts if not verdict.mistake.same]
    kinds = Counter(verdict.mistake.kind for verdict in real)
    for kind, count in sorted(kinds.items()):
        lines.append(f"| {kind} | {count} | {sum(v.noticed for v in real if v.mistake.kind == kind)} |")
    lines += [f"| all | {total.mistakes} | {total.noticed} |", ""]
    lines += _list("survived", [v for v in real if not v.noticed])
    lines += _list(
        "controls, or set aside, that somebody noticed", [v for v in verdicts if v.mistake.same and v.noticed]
    )
    aside = [v for v in verdicts if v.mistake.same and not v.mistake.control]
    lines += _list("set aside", aside)
    lines += _list("findings that name no line near", [v for v in real if v.finding and not v.near])
    if said:
        lines += [f"{verdict.line}\n{_indent(verdict.said)}" for verdict in verdicts if verdict.noticed]
    lines += [
        f"noticed {total.noticed} of {total.mistakes} mistakes, {total.share:.1%} (at least {NEEDED:.0%})",
        f"set aside, with a reason: {total.aside}; controls: {total.controls}; of both noticed: {total.accused}",
        f"the software device's findings: {total.findings}, of which {total.near} name a line within {NEAR} of the "
        f"mistake ({100 * total.near / max(1, total.findings):.0f} %), and {total.both} others two places",
    ]
    return "\n".join(lines), total.good


def _list(title: str, verdicts: Sequence[Verdict]) -> list[str]:
    if not verdicts:
        return []
    lines = [f"{title}: {len(verdicts)}"]
    for verdict in verdicts:
        mistake = verdict.mistake
        lines.append(f"  kernels/{mistake.file}:{verdict.change.first}: {mistake.what}")
        lines.append(f"    {' '.join(mistake.find.split())}  ->  {' '.join(mistake.replace.split())}")
        if mistake.same and not mistake.control:
            lines.append(f"    because {mistake.same}")
        if verdict.noticed:
            lines.append(f"    {verdict.test}")
            lines.append(_indent(verdict.said))
    return [*lines, ""]


def _indent(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.splitlines()[:6])
