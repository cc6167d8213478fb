"""Shows findings beside their lines: as GitHub's workflow commands and as GitLab's code quality report."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from warpwatch.report.pull_request.result import NAME, Finding, Kind

# GitLab's severity of each kind of finding that is shown beside a line; the other kinds are not faults.
SEVERITIES: Mapping[Kind, str] = {
    Kind.NOT_COMPILED: "blocker",
    Kind.FAULT: "critical",
    Kind.WRONG: "critical",
    Kind.BROKEN: "major",
    Kind.SLOWER: "major",
    Kind.WORSE_CODE: "minor",
}
LEVELS = {Kind.WORSE_CODE: "warning"}  # of GitHub, where it is not an error
MOST_ANNOTATIONS = 10  # of each level that GitHub shows of a step


def annotate(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each finding that has a place, as many as GitHub shows.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
    """
    counts: Counter[str] = Counter()
    for finding in _with_place(findings):
        level = LEVELS.get(finding.kind, "error")
        counts[level] += 1
        if counts[level] > MOST_ANNOTATIONS:
            continue
        title = _property(f"{finding.kind}: {finding.name}")
        place = f"file={_property(finding.file)},line={max(1, finding.line)},title={title}"
        yield f"::{level} {place}::{_data(_text(finding))}"
    for level, count in counts.items():
        if count > MOST_ANNOTATIONS:
            left = f"{count - MOST_ANNOTATIONS:,} more of level {level}"
            yield f"{left} are in {NAME}: GitHub shows {MOST_ANNOTATIONS} of a step"


def code_quality(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return GitLab's code quality report of the findings that have a place in the repository.

    A fingerprint holds neither figures nor lines, which change from run to run: GitLab shows as new what the target
    branch's report does not have. https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
    """
    counts: Counter[tuple[str, ...]] = Counter()
    report = []
    for finding in _with_place(findings):
        if finding.file.startswith("/"):
            continue
        same = (finding.kind, finding.name, finding.file)
        counts[same] += 1
        report.append(
            {
                "description": f"{finding.kind}: {finding.name}: {_text(finding)}",
                "check_name": f"warpwatch-{finding.kind.replace(' ', '-')}",
                "fingerprint": hashlib.sha256("\0".join((*same, str(counts[same]))).encode()).hexdigest(),
                "severity": SEVERITIES[finding.kind],
                "location": {"path": finding.file, "lines": {"begin": max(1, finding.line)}},
            }
        )
    return report


def _with_place(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.kind in SEVERITIES and finding.file)


def _text(finding: Finding) -> str:
    return f"{finding.said}; {finding.likely}" if finding.likely else finding.said


def _data(text: str) -> str:
    """Return a text of which nothing is taken for the end of the command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return a text of which nothing is taken for the end of a property either."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
