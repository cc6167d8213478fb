"""Tests of the lines on cases: figures beside each other are of the same thing, or the line says of what."""

from __future__ import annotations

from dataclasses import replace

from warpwatch.compare.beside import line as energy_line
from warpwatch.report.tables import figures_of, line
from warpwatch.verdict.rule import Decision, Verdict

AGREES = Decision(
    verdict=Verdict.SLOWER,
    before=325.6e-6,
    after=329.8e-6,
    ratio=1.0123,
    low=1.0112,
    high=1.0134,
    floor=0.005,
    processes=5,
)
DIFFERS = replace(AGREES, before=4828e-6, after=4624e-6, ratio=1.019, low=1.017, high=1.021)


def test_a_change_that_is_that_of_the_medians_stands_beside_them() -> None:
    said = "slower: median 325.6 -> 329.8 µs, +1.2 % (95 %: +1.1 to +1.3), floor 0.5 %, 5 processes"
    assert line(AGREES) == said
    assert figures_of(AGREES) == said.removeprefix("slower: ")


def test_a_change_that_is_not_that_of_the_medians_says_of_what_it_is() -> None:
    said = "median 4,828.0 -> 4,624.0 µs, turn by turn +1.9 % (95 %: +1.7 to +2.1), floor"
    assert said in line(DIFFERS)
    assert "turn by turn +1.9 % (95 %" in energy_line(DIFFERS)
