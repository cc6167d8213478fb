"""Describes what a job found out about kernels, as a file that another job reads without trusting it.

The comment on a pull request is written by a job with a token that may write, and what it says comes from a job that
ran the pull request's own code. So the file is checked like a saved run: by msgspec, into plain frozen dataclasses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

FORMAT = 1
NAME = "warpwatch-result.json"
LARGEST = 2**20  # bytes of a file
MOST, MOST_CHARACTERS = 200, 2**17  # findings in a file, and of their texts; how many more there are is counted
MOST_NOTES, MOST_TOTALS = 50, 20

_UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
Line = Annotated[str, Meta(pattern=rf"^[^{_UNPRINTABLE}]*\Z", max_length=1000)]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Counts = Annotated[dict[Line, Count], Meta(max_length=50)]
Hash = Annotated[str, Meta(pattern=r"^([0-9a-f]{40})?\Z")]


class BadResult(ValueError):
    """Raised when a file is not a readable result; the message names the file and what is wrong with it."""


class Kind(StrEnum):
    """Kinds of findings, the worst first."""

    NOT_COMPILED = "not compiled"
    FAULT = "fault"
    WRONG = "wrong"
    BROKEN = "broken contract"
    SLOWER = "slower"
    WORSE_CODE = "worse code"
    UNSURE = "unsure"
    FASTER = "faster"


FAILURES = (Kind.NOT_COMPILED, Kind.FAULT, Kind.WRONG, Kind.BROKEN, Kind.SLOWER)  # kinds that make a job red


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Line on a case or a place. ``file`` and ``line``: where it shows; empty and 0 where that is unknown."""

    kind: Kind
    name: Line
    said: Line
    likely: Line = ""
    file: Line = ""
    line: Count = 0


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of a job.

    ``where``: what ran the kernels. ``tests``: how many tests of kernels passed, failed, were skipped and so on.
    ``verdicts``: how many cases were slower, the same and so on than in ``against``. ``code``: how many builds have
    other machine code, by architecture. ``totals``: weighted ones of builds, in words. ``notes``: what was
    not done, and why. ``more``: findings of each kind that are not listed. ``failed``: the job is red.
    """

    format: Count = FORMAT
    job: Line = ""
    where: Line = ""
    commit: Hash = ""
    against: Hash = ""
    tests: Counts = field(default_factory=dict)
    verdicts: Counts = field(default_factory=dict)
    code: Annotated[dict[Line, Counts], Meta(max_length=50)] = field(default_factory=dict)
    findings: Annotated[tuple[Finding, ...], Meta(max_length=MOST)] = ()
    more: dict[Kind, Count] = field(default_factory=dict)
    totals: Annotated[tuple[Line, ...], Meta(max_length=MOST_TOTALS)] = ()
    notes: Annotated[tuple[Line, ...], Meta(max_length=MOST_NOTES)] = ()
    failed: bool = False


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings by their kind; those of one kind stay in their order."""
    order = list(Kind)
    return sorted(findings, key=lambda finding: order.index(finding.kind))


def one_line(text: str, most: int = 400) -> str:
    """Return a text as a result holds it: one line without control characters, cut off where it is too long."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    words = " ".join(plain.split())
    return words if len(words) <= most else f"{words[: most - 3]}..."


def read_results(folder: Path) -> list[Result]:
    """Read the results in a folder and in the folders in it, in the order of their names. Raises BadResult."""
    if not folder.is_dir():
        raise BadResult(f"{folder} is no folder: give the one that the results were downloaded to")
    return [read_result(path) for path in sorted((*folder.glob(NAME), *folder.glob(f"*/{NAME}")))]


def read_result(path: Path) -> Result:
    """Read a result. Raises BadResult."""
    if path.is_symlink():
        raise BadResult(f"{path}: is a link, and no result of a job is one")
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise BadResult(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > LARGEST:
        raise BadResult(f"{path}: holds more than {LARGEST:,} bytes, and no result does")
    try:
        result = msgspec.json.decode(content, type=Result, strict=True)
    except (ValueError, RecursionError) as error:
        raise BadResult(f"{path}: is no result of `warpwatch ci` ({one_line(str(error))})") from None
    if result.format != FORMAT:
        use = f"this version of warpwatch reads {FORMAT}: use the same version in both jobs"
        raise BadResult(f"{path}: has format {result.format}, and {use}")
    return result


def total(results: Sequence[Result], name: str) -> Mapping[str, int]:
    """Add up ``tests`` or ``verdicts`` of several results."""
    return sum((Counter(getattr(result, name)) for result in results), Counter[str]())
