"""Reads what a run of pytest reports for machines (JUnit XML) into one line: is a kernel right, is it slower?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from warpwatch.runs.faults import reported, sentence
from warpwatch.verdict.rule import Verdict

WORST_FIRST = (
    Verdict.SLOWER,
    Verdict.UNSURE,
    Verdict.INCOMPARABLE,
    Verdict.MISSING,
    Verdict.NEW,
    Verdict.FASTER,
    Verdict.SAME,
    Verdict.IDENTICAL,
)
FAILED = ("failure", "error")
LONGEST = 400  # characters of a line


@dataclass(frozen=True, kw_only=True)
class Report:
    """Holds what a run reports. ``failures``: messages. ``skips``: reasons. ``compared``: id, verdict and its line."""

    passed: int
    failures: tuple[str, ...]
    skips: tuple[str, ...]
    compared: tuple[tuple[str, Verdict, str], ...]


@dataclass(frozen=True, kw_only=True)
class Told:
    """Holds a line, and whether it is good news."""

    line: str
    good: bool


def read_report(path: Path) -> Report | None:
    """Read a report; None where the run wrote none that is whole."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return None
    failures = [entry.text or entry.get("message") or "" for case in cases for entry in case if entry.tag in FAILED]
    skips = [entry.get("message") or "" for case in cases for entry in case if entry.tag == "skipped"]
    passed = sum(not any(entry.tag in (*FAILED, "skipped") for entry in case) for case in cases)
    return Report(
        passed=passed,
        failures=tuple(text.strip() for text in failures),
        skips=tuple(skips),
        compared=tuple(filter(None, map(_compared, cases))),
    )


def _compared(case: ElementTree.Element) -> tuple[str, Verdict, str] | None:
    """Return the id, the verdict and the line of a case that was compared."""
    said = {each.get("name"): each.get("value", "") for each in case.iter("property")}
    if "verdict" not in said:
        return None
    name = str(case.get("name")).partition("[")[2].removesuffix("]")
    return name, Verdict(said["verdict"]), said.get("comparison", "")


def correctness(report: Report | None, printed: Sequence[str]) -> Told:
    """Say whether all tests found their kernels right. ``printed``: by the run, for where there is no report."""
    if report is None or not (report.passed or report.failures or report.skips):
        return Told(line=f"untested  {_last(printed)}", good=False)
    if report.failures:
        return Told(line=f"wrong     {first_fault(report.failures[0])}", good=False)
    reason, count = Counter(report.skips).most_common(1)[0] if report.skips else ("", 0)
    if not report.passed:
        return Told(line=f"untested  all {count} tests were skipped: {reason}", good=False)
    left = f", {len(report.skips)} skipped: {reason}" if report.skips else ""
    return Told(line=f"right     {plural(report.passed, 'test')}{left}", good=True)


def first_fault(message: str) -> str:
    """Return a failure's message in one line: place and fault where it names them, else how far a result is off."""
    if faults := reported(message):
        return _short(f"{faults[0].place.file}:{faults[0].place.line}: {sentence(faults[0])}")
    lines = [" ".join(line.split()) for line in message.splitlines() if line.strip()]
    raised = [line.removeprefix("E ") for line in lines if line.startswith("E ")]
    if raised:  # a traceback of pytest's
        return _short(raised[-1])
    worst = [line for line in lines[1:] if line.startswith("worst ")][:1]
    return _short("; ".join([*lines[:1], *worst]))


def times(report: Report | None, printed: Sequence[str]) -> Told:
    """Say how the times compare with HEAD: a count of each verdict, then the worst one's line."""
    compared = report.compared if report else ()
    known = {text for _, _, text in compared}
    broken = [text for text in (report.failures if report else ()) if text not in known]
    if broken:
        return Told(line=f"times     {first_fault(broken[0])}", good=False)
    if not compared:
        nothing = [line for line in printed if line.startswith("NOTHING")]
        return Told(line=f"times     {_last(nothing or printed)}", good=False)
    counts = Counter(verdict for _, verdict, _ in compared)
    name, worst, said = min(compared, key=lambda each: WORST_FIRST.index(each[1]))
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in WORST_FIRST if counts[verdict])
    more = " (the same work)" if worst == Verdict.IDENTICAL else f"; {name}: {said}"
    return Told(line=_short(f"times     {total}{more}"), good=worst != Verdict.SLOWER)


def plural(count: int, word: str) -> str:
    """Return a count with its word: ``1 test``, ``2 tests``."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def _last(printed: Sequence[str]) -> str:
    errors = [line.removeprefix("ERROR: ") for line in printed if line.startswith("ERROR: ")]
    return _short((errors or [*printed[-1:]] or ["pytest ended and said nothing"])[0])


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
