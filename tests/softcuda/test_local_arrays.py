"""An index past a thread's own array is found, and one that stays inside a whole array of rows is not accused."""

from __future__ import annotations

import re

import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

SOURCE = ROOT / "tests" / "softcuda" / "local_arrays.cu"
PLACE = r"tests/softcuda/local_arrays\.cu:"
FOUND = {
    "reads_past_the_end": r"9: thread \(0, 0\) of block \(0, 0\) takes index 4 of local array own of 4 elements$",
    "writes_past_the_end": r"16: .* takes index 4 of local array own of 4 elements$",
    "in_a_function": rf"25 \(called at {PLACE}30\): .* takes index 4 of local array table of 4 elements$",
    "row_past_the_last": r"38: .* takes index 4 of local array own of 4 elements$",
}


def left(device: Device, entry: str, first: int) -> bytes | str:
    answer: bytes | str = device.once(calls.run_with_first, device.image(SOURCE), entry, first)
    return answer


@pytest.mark.parametrize("entry", FOUND)
def test_an_index_past_the_end_is_found_at_its_line(checked: Device, entry: str) -> None:
    assert isinstance(left(checked, entry, 3), bytes)
    said = str(left(checked, entry, 4))
    assert re.search(rf"softcuda: out of bounds in {entry}\n  {PLACE}{FOUND[entry]}", said), said


def test_an_index_before_the_start_is_found(checked: Device) -> None:
    assert "takes index -1 of local array own of 4 elements" in str(left(checked, "reads_past_the_end", -1))


def test_what_stays_inside_the_whole_is_not_accused(checked: Device) -> None:
    assert isinstance(left(checked, "inside_the_whole", 2), bytes)
