"""An index past a thread's own array is found, and one that stays inside a whole array of rows is not accused."""

from __future__ import annotations

import re

import pytest

from tests.project import ROOT
from tests.softcuda import calls
from warpwatch.devices.compile.compiler import Image, compile_file
from warpwatch.devices.worker import Worker, describe_device

SOURCE = ROOT / "tests" / "softcuda" / "local_arrays.cu"
PLACE = r"tests/softcuda/local_arrays\.cu:"
FOUND = {
    "reads_past_the_end": r"9: thread \(0, 0\) of block \(0, 0\) takes index 4 of local array own of 4 elements$",
    "writes_past_the_end": r"16: .* takes index 4 of local array own of 4 elements$",
    "in_a_function": rf"25 \(called at {PLACE}30\): .* takes index 4 of local array table of 4 elements$",
    "row_past_the_last": r"38: .* takes index 4 of local array own of 4 elements$",
}


@pytest.fixture(scope="module")
def image(software: Worker) -> Image:
    return compile_file(SOURCE, {}, software.call(describe_device).target)


@pytest.mark.parametrize("entry", FOUND)
@pytest.mark.parametrize("last", [3, 4])
def test_an_index_past_the_end_is_found_at_its_line(software: Worker, image: Image, entry: str, last: int) -> None:
    left = software.call(calls.run_with_first, image.path, entry, last)
    if last == 3:
        assert isinstance(left, bytes), left
    else:
        assert re.search(rf"softcuda: out of bounds in {entry}\n  {PLACE}{FOUND[entry]}", str(left)), left


def test_an_index_before_the_start_is_found(software: Worker, image: Image) -> None:
    left = software.call(calls.run_with_first, image.path, "reads_past_the_end", -1)
    assert "takes index -1 of local array own of 4 elements" in str(left)


def test_what_stays_inside_the_whole_is_not_accused(software: Worker, image: Image) -> None:
    left = software.call(calls.run_with_first, image.path, "inside_the_whole", 2)
    assert isinstance(left, bytes), left
