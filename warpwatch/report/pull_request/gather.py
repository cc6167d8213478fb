"""Reads what a job's runs left behind: JUnit's files of pytest, and the JSON of ``warpwatch diff``."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from warpwatch.catalogue.declaration import Family
from warpwatch.report.pull_request.result import Finding, Kind, one_line
from warpwatch.report.sarif import COMPILE_RULE, Found, found_in, merged, place_of

COMPARED = {"slower": Kind.SLOWER, "unsure": Kind.UNSURE, "faster": Kind.FASTER}  # verdicts that are listed
EXPECTED, IDLE = "failed as expected", "ran no kernel"
OUTCOMES = ("passed", "failed", "skipped", EXPECTED, IDLE)  # of tests, as they are counted
CHANGE = re.compile(r"([+-][\d.,]+) %")  # of a verdict's line


@dataclass(frozen=True, kw_only=True)
class JunitTest:
    """Holds one test of JUnit's file.

    ``outcome``: passed, failed, skipped or failed as expected. ``text``: of its failure, whole.
    """

    name: str
    outcome: str
    text: str
    properties: dict[str, str]

    @property
    def parameters(self) -> str:
        """Return what stands in the name's brackets: a case's id where the test is of one case."""
        return self.name.partition("[")[2].removesuffix("]")


def read_tests(path: Path) -> list[JunitTest]:
    """Read JUnit's file of this job's own run. Raises ValueError or OSError where it is not whole."""
    try:
        nodes = ElementTree.parse(path).getroot().iter("testcase")
    except ElementTree.ParseError as error:
        raise ValueError(f"{path} is not whole ({error})") from None
    return [_test(node) for node in nodes]


def _test(node: ElementTree.Element) -> JunitTest:
    bad = [each for kind in ("failure", "error") for each in node.findall(kind)]
    skipped = node.find("skipped")
    outcome = "failed" if bad else "passed" if skipped is None else "skipped"
    if skipped is not None and skipped.get("type") == "pytest.xfail":
        outcome = EXPECTED
    text = "\n".join(f"{each.get('message', '')}\n{each.text or ''}" for each in bad)
    properties = {each.get("name", ""): each.get("value", "") for each in node.iter("property")}
    return JunitTest(name=node.get("name", ""), outcome=outcome, text=text, properties=properties)


def count_tests(tests: Iterable[JunitTest]) -> dict[str, int]:
    """Count the tests of kernels by outcome. A case that is slower is right: its test failed for its time alone."""
    counts = Counter(_outcome(test) for test in tests if test.properties.get("case"))
    return {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}


def _outcome(test: JunitTest) -> str:
    outcome = "passed" if _is_slower(test) else test.outcome
    return IDLE if outcome == "passed" and not test.properties.get("launched") else outcome


def why_untested(tests: Sequence[JunitTest]) -> str:
    """Say why these tests show nothing of any kernel; empty where one passed or failed."""
    counts = count_tests(tests)
    if counts.get("passed") or counts.get("failed"):
        return ""
    words = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
    none = f"{len(tests):,} tests ran, and none is of a case or build" if tests else "no test ran"
    what = f"of the tests of kernels, {words}" if words else none
    return f"no kernel was tested: {what}"


def count_verdicts(tests: Iterable[JunitTest]) -> dict[str, int]:
    """Count the cases of each verdict."""
    counts = Counter(test.properties["verdict"] for test in tests if test.properties.get("verdict"))
    return dict(counts.most_common())


def _is_slower(test: JunitTest) -> bool:
    return test.outcome == "failed" and test.properties.get("verdict") == "slower"


def findings(tests: Sequence[JunitTest], families: Sequence[Family], root: Path) -> Iterator[Finding]:
    """Yield what failed tests and verdicts say: each fault once, and the first failure of each kernel."""
    faults: list[Found] = []
    wrong: dict[str, list[Finding]] = {}
    for test in tests:
        if test.outcome == "failed" and not _is_slower(test):
            found = found_in(test.text, test.parameters or test.name)
            faults += found
            if not found:
                wrong.setdefault(_kernel(test), []).append(_wrong(test, families, root))
    for first, *others in wrong.values():
        more = f"; {len(others)} more tests of this kernel failed" if others else ""
        yield replace(first, said=f"{first.said}{more}")
    for fault in merged(faults):
        kind = Kind.NOT_COMPILED if fault.rule == COMPILE_RULE else Kind.FAULT
        name = f"{fault.rule}{f' in {fault.kernel}' if fault.kernel else ''}"
        place = _relative(fault.place.file, root)
        yield Finding(kind=kind, name=one_line(name), said=one_line(fault.text), file=place, line=fault.place.line)
    compared = [test for test in tests if test.properties.get("verdict") in COMPARED]
    for test in sorted(compared, key=_change, reverse=True):
        yield _compared(test, families, root)


def _kernel(test: JunitTest) -> str:
    """Return family and variant of a test's case; the test's own name where it is of none."""
    return "-".join(test.parameters.split("-")[:2]) or test.name


def _change(test: JunitTest) -> float:
    found = CHANGE.search(test.properties.get("comparison", ""))
    return float(found[1].replace(",", "")) if found else 0.0


def _wrong(test: JunitTest, families: Sequence[Family], root: Path) -> Finding:
    first = next(filter(None, map(str.strip, test.text.splitlines())), "no message")
    first = re.sub(r"^(Failed|[\w.]+(?:Error|Exception)): ", "", first)
    said = first.removeprefix(f"{test.parameters} ") if test.parameters else first
    file, line = place_of(test.parameters, families)
    name = one_line(test.parameters or test.name)
    return Finding(
        kind=Kind.WRONG, name=name, said=one_line(said), file=_relative(file, root) if file else "", line=line
    )


def _compared(test: JunitTest, families: Sequence[Family], root: Path) -> Finding:
    kind = COMPARED[test.properties["verdict"]]
    said = one_line(test.properties.get("comparison", "").removeprefix(f"{kind}: "))
    file, line = place_of(test.parameters, families)
    likely = one_line(test.properties.get("explanation", ""))
    return Finding(
        kind=kind,
        name=one_line(test.parameters),
        said=said,
        likely=likely,
        file=_relative(file, root) if file else "",
        line=line,
    )


def _relative(file: str, root: Path) -> str:
    if not file:
        return ""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(root):
        path = path.relative_to(root)
    return one_line(path.as_posix())


def read_code(path: Path) -> tuple[dict[str, dict[str, int]], list[Finding], list[str]]:
    """Read the JSON of ``warpwatch diff``: counts by architecture, builds that got worse, and notes."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    worse = [
        Finding(kind=Kind.WORSE_CODE, name=one_line(f"{build['id']} ({build['arch']})"), said=one_line(said))
        for build in document["builds"]
        if (said := _worse(build))
    ]
    return document["counts"], worse, [one_line(note) for note in document["notes"]]


def _worse(build: dict[str, Any]) -> str:
    """Say by which figures a build got worse: local memory and occupancy; empty where it did not."""
    said = []
    for kernel in build.get("kernels", ()):
        old, new = kernel.get("old"), kernel.get("new")
        if not old or not new:
            continue
        before, after = old["needs"]["local_bytes"], new["needs"]["local_bytes"]
        if after > before:
            said.append(f"local memory {before:,} -> {after:,} B")
        shares = [min((o["occupancy"]["share"] for o in side["occupancies"] if o["occupancy"]), default=0.0)
                  for side in (old, new)]  # fmt: skip
        if shares[1] < shares[0]:
            registers = f"{old['needs']['registers']} -> {new['needs']['registers']}"
            said.append(f"occupancy {shares[0]:.2f} -> {shares[1]:.2f} (registers {registers})")
    return ", ".join(dict.fromkeys(said))
