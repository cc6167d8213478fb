"""Writes the one comment of a pull request, in Markdown.

What it says comes from code that nobody has reviewed yet. So every text of a result stands in a code span, in which
nothing is a link, a picture, HTML or a mention of somebody.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from warpwatch.report.pull_request.result import Kind, Result, one_line, total, worst_first

MOST_LINES = 20  # findings in a comment
MOST_NOTES = 5  # sentences on what was not done, of a job
MOST_JOBS = 12
MOST_WORDS = 8  # kinds of outcomes in a cell
SAID = 300  # characters of a text
LONGEST_LINK = 2000  # characters
# GitHub takes 65,536 characters; in bytes of UTF-8 a text has at least as many, in whatever way characters are counted.
MOST_BYTES = 65_536
SAID_OF_RIGHT = ("failed as expected", "ran no kernel", "skipped")  # outcomes of tests that good news must not hide
NOUNS: Mapping[Kind, tuple[str, str, str]] = {
    Kind.NOT_COMPILED: ("place", "places", " where a compiler stops"),
    Kind.FAULT: ("fault", "faults", ""),
    Kind.WRONG: ("kernel", "kernels", " wrong"),
    Kind.BROKEN: ("kernel", "kernels", " beyond a limit"),
    Kind.SLOWER: ("case", "cases", " slower"),
}


@dataclass(frozen=True, kw_only=True)
class About:
    """Subject of a comment.

    ``marker``: tells this comment from others. ``run_url``, ``site_url``: where all of it is; empty where there is
    none. ``conclusion``: what the host says of the run, such as failure; empty where nobody asked. ``unreadable``: why
    results could not be read.
    """

    marker: str
    commit: str = ""
    run_url: str = ""
    site_url: str = ""
    conclusion: str = ""
    unreadable: Sequence[str] = ()


def marker(title: str) -> str:
    """Return the line by which the comment of that title is found again; GitHub does not show it."""
    return f"<!-- warpwatch: {re.sub(r'[^A-Za-z0-9 _.]', '', title)[:SAID]} -->"


def comment(results: Sequence[Result], about: About) -> str:
    """Return the whole comment: the worst first, and at most MOST_LINES lines of findings and MOST_BYTES bytes."""
    lines = [about.marker, f"### {headline(results, about)}", ""]
    lines += [f"- {code(reason)}" for reason in about.unreadable]
    lines += [*_table(results), *_findings(results, about), *_totals(results), *_code(results), *_notes(results)]
    rest = f": {link}" if (link := _link("all of them", about.run_url)) else ""
    return _fitted(lines, ["", _foot(results, about), ""], rest)


def _fitted(lines: Sequence[str], last: Sequence[str], end: str) -> str:
    """Join lines, and leave out as many before the ``last`` ones as do not fit into MOST_BYTES.

    ``end``: says where all lines are. No line may depend on one below it, as the begin of a fence does.
    """
    if _bytes([*lines, *last]) <= MOST_BYTES:
        return "\n".join([*lines, *last])
    room = MOST_BYTES - _bytes(last) - 200 - _bytes([end])
    count = sum(total <= room for total in accumulate(_bytes([line]) for line in lines))
    left = f"… and {len(lines) - count:,} more lines, for which a comment of {MOST_BYTES:,} bytes has no room{end}"
    return "\n".join([*lines[:count], "", left, *last])


def _bytes(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def headline(results: Sequence[Result], about: About) -> str:
    """Return the outcome in a few words. Without a result, or beside a failed job, it is never good news."""
    counts = _counts(results)
    bad = [
        f"{counts[kind]:,} {one if counts[kind] == 1 else several}{word}"
        for kind, (one, several, word) in NOUNS.items()
        if counts.get(kind)
    ]
    if not results:
        return "Kernels: not checked, because the jobs left no result"
    if bad:
        return f"Kernels: {', '.join(bad)}"
    tests, verdicts = total(results, "tests"), total(results, "verdicts")
    if not tests.get("passed"):
        return "Kernels: no kernel was tested"
    is_red = any(result.failed for result in results) or tests.get("failed") or verdicts.get("slower")
    if is_red or about.unreadable:
        return "Kernels: a job failed before all was checked"
    if about.conclusion not in ("", "success"):
        return f"Kernels: the run ended with {code(about.conclusion)}, not by what is listed here"
    compared = any(verdicts.get(word) for word in ("same", "faster", "identical"))
    words = ["none slower" if compared else "not timed"]
    beside = {"unsure": verdicts.get("unsure"), **{word: tests.get(word) for word in SAID_OF_RIGHT}}
    words += [f"{count:,} {word}" for word, count in beside.items() if count]
    return f"Kernels: right, {', '.join(words)}"


def code(text: str, most: int = SAID) -> str:
    """Return a text as a code span of one line, in which nothing has another meaning."""
    plain = one_line(text, most).replace("`", "'")
    return f"`{plain}`" if plain else ""


def _counts(results: Sequence[Result]) -> Mapping[Kind, int]:
    listed = Counter(finding.kind for result in results for finding in result.findings)
    return sum((Counter(result.more) for result in results), listed)


def _table(results: Sequence[Result]) -> Iterator[str]:
    if not results:
        return
    yield from ("| job | on | tests | times |", "|---|---|---|---|")
    for result in results[:MOST_JOBS]:
        tests, verdicts = _listed(result.tests) or "none of a kernel", _listed(result.verdicts) or "not timed"
        yield f"| {_cell(result.job)} | {_cell(result.where)} | {tests} | {verdicts} |"
    if len(results) > MOST_JOBS:
        yield f"| … and {len(results) - MOST_JOBS:,} more jobs | | | |"


def _cell(text: str) -> str:
    return code(text.replace("|", "/")) or "–"


def _listed(counts: Mapping[str, int]) -> str:
    words = [f"{count:,} {word}" for word, count in counts.items() if count and re.fullmatch(r"[a-z ]{1,30}", word)]
    more = [f"{len(words) - MOST_WORDS:,} more kinds"] if len(words) > MOST_WORDS else []
    return ", ".join([*words[:MOST_WORDS], *more])


def _findings(results: Sequence[Result], about: About) -> Iterator[str]:
    findings = worst_first([finding for result in results for finding in result.findings])
    if findings:
        yield ""
    for finding in findings[:MOST_LINES]:
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        where, likely = f"({code(place)})" * bool(finding.file), f" — {code(finding.likely)}" * bool(finding.likely)
        yield f"- **{finding.kind}** {code(finding.name)} {where}: {code(finding.said)}{likely}"
    count = sum(_counts(results).values())
    if count > MOST_LINES:
        link = _link("all of them", about.run_url)
        yield f"- … and {count - MOST_LINES:,} more{': ' if link else ''}{link}"


def _totals(results: Sequence[Result]) -> Iterator[str]:
    for result in results[:MOST_JOBS]:
        yield from (f"\n{code(line)}" for line in result.totals[:MOST_NOTES])
        if len(result.totals) > MOST_NOTES:
            yield f"\n… and {len(result.totals) - MOST_NOTES} more totals, which its log has"


def _code(results: Sequence[Result]) -> Iterator[str]:
    for result in results[:MOST_JOBS]:
        for arch, counts in list(result.code.items())[:MOST_JOBS]:
            if said := _listed(counts):
                yield f"\nMachine code, {code(arch)}: {said}"


def _notes(results: Sequence[Result]) -> Iterator[str]:
    for result in results[:MOST_JOBS]:
        for note in result.notes[:MOST_NOTES]:
            yield f"\nNot done in {code(result.job)}: {code(note)}"
        if len(result.notes) > MOST_NOTES:
            yield f"\nNot done in {code(result.job)}: {len(result.notes) - MOST_NOTES} more things, which its log has"


def _foot(results: Sequence[Result], about: About) -> str:
    against = next((result.against for result in results if result.against), "")
    parts = [f"commit {about.commit[:12]}"] if about.commit else []
    parts += [f"against {against[:12]}"] if against else []
    parts += filter(None, [_link("run", about.run_url), _link("site", about.site_url)])
    return f"<sub>{' · '.join(parts)}</sub>" if parts else ""


def _link(text: str, url: str) -> str:
    """Return a link, or nothing where it would be longer than an address is."""
    return f"[{text}]({url})" if url and len(url) <= LONGEST_LINK else ""
