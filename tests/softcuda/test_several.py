"""The software device tells all different faults of a launch, and each has a place of its own in SARIF."""

from __future__ import annotations

import re
import time

import pytest

from tests.project import ROOT
from tests.softcuda.device import Device
from warpwatch.report.sarif import document
from warpwatch.runs.faults import reported

SOURCE = ROOT / "tests" / "softcuda" / "several.cu"


def said(device: Device, entry: str) -> str:
    return device.said(device.image(SOURCE), entry, 256, 64)


def findings(text: str) -> list[tuple[str, list[int]]]:
    """Return the kind of each finding, and the lines of its places."""
    parts = text.split("\nsoftcuda: ")[1:]
    return [(part.partition(" in ")[0], [int(n) for n in re.findall(r"several\.cu:(\d+): ", part)]) for part in parts]


def test_faults_of_three_kinds_are_told_in_the_order_in_which_they_came(checked: Device) -> None:
    text = said(checked, "three_kinds")
    assert "cuMemcpyDtoH failed: unspecified launch failure\nsoftcuda: uninitialised memory in three_kinds" in text
    assert findings(text) == [
        ("uninitialised memory", [7, 6]),
        ("uninitialised memory", [9]),
        ("out of bounds", [10]),
        ("out of bounds", [11]),
    ]


def test_an_access_far_away_from_all_arrays_ends_no_launch(checked: Device) -> None:
    text = said(checked, "far_away")
    assert findings(text) == [("out of bounds", [17]), ("out of bounds", [18]), ("race", [19, 20])]


def test_a_write_where_the_device_has_no_memory_ends_it(checked: Device) -> None:
    assert findings(said(checked, "wild")) == [("out of bounds", [26]), ("out of bounds", [27])]


def test_no_more_than_eight_are_told_and_the_others_are_counted(checked: Device) -> None:
    *told, last = said(checked, "many").split("\nsoftcuda: ")[1:]
    assert [int(re.findall(r"several\.cu:(\d+)", finding)[0]) for finding in told] == list(range(34, 42))
    assert last == "2 more findings are not told here"


def test_what_ends_a_launch_is_told_behind_what_came_before(checked: Device) -> None:
    text = said(checked, "goes_wrong_at_a_barrier")
    assert findings(text) == [("race", [49, 50]), ("barrier error", [52])]


def test_two_lines_are_told_once_whichever_comes_first(checked: Device) -> None:
    """Read before written, written after read, in the loop's first run and in the next ones."""
    assert findings(said(checked, "one_missing_barrier")) == [("uninitialised memory", [61, 60])]


@pytest.mark.slow
def test_a_launch_goes_on_for_a_second_only(checked: Device) -> None:
    begin = time.monotonic()
    assert findings(said(checked, "runs_on")) == [("out of bounds", [68])]
    assert time.monotonic() - begin < 8


def test_each_is_a_result_of_sarif(checked: Device) -> None:
    faults = reported(said(checked, "three_kinds"))
    assert [fault.kind for fault in faults] == [kind for kind, _ in findings(said(checked, "three_kinds"))]
    (run,) = document([(fault, ("a test",)) for fault in faults], ROOT)["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [place["region"]["startLine"] for place in places] == [7, 9, 10, 11]
    assert {place["artifactLocation"]["uri"] for place in places} == {"tests/softcuda/several.cu"}
