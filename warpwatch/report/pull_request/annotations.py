"""Writes findings as GitHub shows them beside the lines of a pull request: workflow commands on standard output.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from warpwatch.report.pull_request.result import FAILURES, NAME, Finding, Kind

LEVELS = {Kind.WORSE_CODE: "warning", Kind.UNSURE: "notice", Kind.FASTER: "notice"}
SHOWN = (*FAILURES, Kind.WORSE_CODE)
MOST = 10  # annotations of each level that GitHub shows of a step


def annotate(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each finding with a place that a reader should see there, as many as GitHub shows."""
    counts: Counter[str] = Counter()
    for finding in findings:
        level = LEVELS.get(finding.kind, "error")
        if finding.kind in SHOWN and finding.file:
            counts[level] += 1
            if counts[level] > MOST:
                continue
            title = _property(f"{finding.kind}: {finding.name}")
            place = f"file={_property(finding.file)},line={max(1, finding.line)},title={title}"
            said = f"{finding.said}; {finding.likely}" if finding.likely else finding.said
            yield f"::{level} {place}::{_data(said)}"
    for level, count in counts.items():
        if count > MOST:
            yield f"{count - MOST:,} more of level {level} are in {NAME}: GitHub shows {MOST} of a step"


def _data(text: str) -> str:
    """Return a text of which nothing is taken for the end of the command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a text of which nothing is taken for the end of a property either."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
