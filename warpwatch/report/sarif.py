"""Makes SARIF of the failures of a run: faults with their lines, errors of compilers, wrong results, and all others.

SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html) is what code hosts show beside the lines
of a pull request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from warpwatch import __version__
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.declaration import Family
from warpwatch.catalogue.names import BadCase

FINDING = re.compile(r"^softcuda: (?P<what>.+) in (?P<kernel>\S+)\n(?P<places>(?:  .*\n?)+)", re.MULTILINE)
PLACE = re.compile(r"^  (?P<file>[^\s:][^:\n]*?):(?P<line>\d+)(?: \(called at [^)]*\))?: (?P<said>.+)$", re.MULTILINE)
COMPILE = re.compile(
    r"^(?P<file>[^\s:(]+)(?::(?P<line>\d+)(?::\d+)?|\((?P<nvcc>\d+)\)): error: (?P<said>.+)$", re.MULTILINE
)
PROCESS = re.compile(r"\[gw\d+\] ")  # the line in which xdist names one of its processes
COMPILE_RULE = "compile error"
WRONG = "wrong result"
# What the first line of another failure says, and its rule.
KINDS = (
    (r" is wrong in | was right at its first launch", WRONG),
    (r"^family \S+: ", "mistake in a declaration"),
    (r"does not compile|nvcc refuses", COMPILE_RULE),
    (r"^(slower|unsure): ", "slower"),
    (r"did not end within|no answer within|longer than", "timeout"),
    (r"process .* died|ended the process|the kernel failed", "lost device"),
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of a file, and what happens there."""

    file: str
    line: int
    said: str


@dataclass(frozen=True, kw_only=True)
class Found:
    """A fault in a kernel: what it is, where it shows, and where its other side is. ``tests``: those that found it."""

    rule: str
    kernel: str
    place: Place
    others: tuple[Place, ...] = ()
    tests: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the fault in a sentence, with the first test that found it."""
        where = f" in {self.kernel}" if self.kernel else ""
        said = [f"{self.rule}{where}: {self.place.said}", *(f"{o.file}:{o.line}: {o.said}" for o in self.others)]
        count = len(self.tests)
        by = f"found by {self.tests[0]}" + (f" and {count - 1} other tests" if count > 1 else "") if count else ""
        return "; ".join([*said, by] if by else said)


def found_in(text: str, test: str) -> list[Found]:
    """Return the faults that the message of a failed test names with a line."""
    faults = []
    for match in FINDING.finditer(text):
        places = [
            Place(file=place["file"], line=int(place["line"]), said=place["said"])
            for place in PLACE.finditer(match["places"])
        ]
        if places:
            rule = match["what"].partition("(")[0].strip() or match["what"]
            first, *others = places
            faults.append(Found(rule=rule, kernel=match["kernel"], place=first, others=tuple(others), tests=(test,)))
    for match in COMPILE.finditer(text):
        place = Place(file=match["file"], line=int(match["line"] or match["nvcc"]), said=match["said"])
        faults.append(Found(rule=COMPILE_RULE, kernel="", place=place, tests=(test,)))
    return faults


def compile_errors(text: str) -> tuple[Place, ...]:
    """Return the errors of a compiler in the message of a failed test, without what differs between builds."""
    return tuple(found.place for found in found_in(text, "") if found.rule == COMPILE_RULE)


def place_of(name: str, families: Sequence[Family]) -> tuple[str, int]:
    """Return a kernel's file and the first line of its function; empty and 0 where there is no such case."""
    try:
        case = find_case(families, name)
    except (BadCase, ValueError):
        return "", 0
    if case.variant.call or callable(case.variant.source):
        return "", 0
    return str(case.build.source), first_line(case)


def first_line(case: Case) -> int:
    """Return the line in which a case's kernel function begins, or else the file's first kernel."""
    try:
        lines = case.build.source.read_text(errors="replace").splitlines()
    except OSError:
        return 1
    name = re.split(r"[<(]", case.entry)[0].rpartition("::")[2]
    called = re.compile(rf"\b{re.escape(name)}\s*\(")
    here = [number for number, line in enumerate(lines) if called.search(line.partition("//")[0])]
    for number in here:
        for start in range(number, max(-1, number - 6), -1):
            if "__global__" in lines[start]:
                return start + 1
            if start < number and re.search(r"[;}]\s*$", lines[start]):
                break
    marked = [number for number, line in enumerate(lines) if "__global__" in line.partition("//")[0]]
    return next(iter([*here, *marked]), 0) + 1  # the name of a template's or a macro's instance is in no line


def merged(faults: Iterable[Found]) -> list[Found]:
    """Return each fault once, by kind and lines, with all the tests that found it."""
    known: dict[tuple[object, ...], Found] = {}
    for fault in faults:
        lines = tuple((place.file, place.line) for place in (fault.place, *fault.others))
        key = (fault.rule, fault.kernel, *lines)
        before = known.get(key)
        known[key] = replace(before, tests=(*before.tests, *fault.tests)) if before else fault
    return list(known.values())


def failure(text: str, test: str, place: Place) -> Found:
    """Return the fault of a failed test whose message names no line: a wrong result, or whatever it says first."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not PROCESS.match(line)] or ["no message"]
    raised = [line.removeprefix("E ").strip() for line in lines if line.startswith("E  ")]  # in pytest's traceback
    first = next((line for line in lines if " is wrong in " in line), (raised or lines)[0])
    rule = next((rule for pattern, rule in KINDS if re.search(pattern, first)), "failed test")
    worst = [line for line in lines if rule == WRONG and line.startswith("worst ")][:1]
    said = "; ".join(" ".join(line.split()) for line in (first, *worst))
    return Found(rule=rule, kernel="", place=replace(place, said=said), tests=(test,))


def document(faults: Iterable[Found], root: Path) -> Mapping[str, Any]:
    """Return a SARIF document with a result for each fault.

    ``root``: the repository's folder. Paths in it are relative, as code hosts want them.
    """
    faults = list(faults)
    rules = sorted({fault.rule for fault in faults})
    driver = {
        "name": "warpwatch",
        "version": __version__,
        "rules": [{"id": _identifier(rule), "shortDescription": {"text": rule}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "results": [_result(fault, root) for fault in faults],
    }
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _identifier(rule: str) -> str:
    return re.sub(r"\W+", "-", rule).strip("-")


def _result(fault: Found, root: Path) -> Mapping[str, Any]:
    others = [_location(place, root) | {"message": {"text": place.said}} for place in fault.others]
    return {
        "ruleId": _identifier(fault.rule),
        "level": "error",
        "message": {"text": fault.text},
        "locations": [_location(fault.place, root)],
        "relatedLocations": [{"id": number} | other for number, other in enumerate(others, 1)],
    }


def _location(place: Place, root: Path) -> dict[str, Any]:
    path = Path(place.file)
    if path.is_absolute() and path.is_relative_to(root):
        path = path.relative_to(root)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": max(1, place.line)}}}
