"""Tests which differences in machine code --fail-on takes for worse, on kernels that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.code_changes import change, difference, kernel
from warpwatch.cli.diff import GATES, exceeded, markdown_of, unknown
from warpwatch.compare.code_difference import Kernel, State

EVERY = tuple(GATES)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (kernel(), ""),
        (kernel(registers=31, local=8, shares={128: 0.75}), ""),
        (kernel(registers=33), "registers grew from 32 to 33"),
        (kernel(local=20), "local memory of a thread grew from 16 to 20 bytes"),
        (kernel(inside={"local load 8 B": 1}), "loads of local memory grew from 2 to 3"),
        (kernel(inside={"local store 4 B": 1}), "stores of local memory grew from 0 to 1"),
        (kernel(inside={"global load 4 B": 1}), ""),
        (kernel(shares={128: 0.25}), "occupancy at 128 threads fell from 0.50 to 0.25"),
        (kernel(shares={128: 0.5, 256: 0.25}), "the lowest occupancy fell from 0.50 to 0.25"),
        (kernel(shares={256: 0.75}), ""),
    ],
)
def test_what_is_worse_is_one_sentence(new: Kernel, said: str) -> None:
    wanted = [f"add-a-1-float32 (sm_90): {said}"] if said else []
    assert exceeded([change(kernel(), new)], EVERY) == wanted
    assert exceeded([change(kernel(), new)], ()) == []
    assert unknown([change(kernel(), new)], EVERY) == []


def test_a_gpu_whose_occupancy_is_not_known_is_an_error_for_that_gate_alone() -> None:
    without = replace(kernel(), occupancies=())
    assert unknown([change(kernel(), without)], ("spills", "registers")) == []
    assert unknown([change(kernel(), without)], ("occupancy",)) == [
        "add-a-1-float32 (sm_90): occupancy is not known for sm_90"
    ]


def test_nothing_in_a_message_becomes_html() -> None:
    build = change(kernel(), kernel(registers=40), ("wrong: a <img src=x> | b & c",))
    text = markdown_of(difference(build, revision="<b>"))
    assert "against &lt;b> (000000000000)" in text
    assert "wrong: a &lt;img src=x> \\| b &amp; c" in text
    assert "| 32 → 40 |" in text


def test_no_build_at_all_is_said_without_a_gate_too() -> None:
    (said,) = unknown([], ())
    assert said.startswith("no build was compared")


@pytest.mark.parametrize("state", [State.NEW, State.GONE, State.TOO_NEW])
def test_a_gate_where_no_build_has_two_sides_is_not_green(state: State) -> None:
    build = replace(change(None, kernel()), state=state)
    assert unknown([build], EVERY) == ["no build was compared"]
    assert unknown([build], ()) == []
