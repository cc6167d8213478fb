"""Tests of what makes a slowdown doubtful, by facts alone."""

from __future__ import annotations

import pytest

from warpwatch.compare.doubts import disturbance
from warpwatch.runs.record import Facts


@pytest.mark.parametrize(
    ("clocks", "sentence"),
    [
        ((), ""),
        ((1980, 1980), ""),
        ((1965, 1980), ""),
        ((1500, 1980), "SM clock between 1,500 and 1,980 MHz while it was measured"),
        ((1980, 1500), "SM clock between 1,500 and 1,980 MHz while it was measured"),
        ((0, 1980), ""),
    ],
)
def test_a_clock_that_was_low_once_is_a_doubt(clocks: tuple[int, ...], sentence: str) -> None:
    assert disturbance(Facts(sm_clock_mhz=clocks)) == sentence
