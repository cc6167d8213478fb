"""Tests which findings comments and declarations accept, of which kernels, and what is wrong with others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwatch as ww
from tests.catalogue.changed import own_family
from warpwatch.catalogue.accepted import BadComment, comments_in
from warpwatch.catalogue.cases import Build
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.validation import problems
from warpwatch.devices.accepting import accepted_of

SOURCE = """#include "more.h"
template <typename T> __global__ void first(T* x)
{
    // warpwatch: accept race: the same value
    // is written by all
    x[0] = 1;
    x[1] = 2; // warpwatch:accept out of bounds : within its allocation
}
"""


def test_a_comment_is_of_its_line_or_of_the_next_line_of_code() -> None:
    assert list(comments_in(SOURCE)) == [
        ww.Accept("race", line=6, reason="the same value"),
        ww.Accept("out of bounds", line=7, reason="within its allocation"),
    ]


@pytest.mark.parametrize("comment", ["accept race", "accept race:", "accept: why", "allow race: why", "accept 5: why"])
def test_a_comment_that_cannot_be_read_is_a_mistake(comment: str) -> None:
    with pytest.raises(BadComment, match=f"line 2: .*{comment.rstrip(':')}.* is not '// warpwatch: accept race: rea"):
        list(comments_in(f"int x;\nint y; // warpwatch: {comment}\n"))


@pytest.mark.parametrize("sign", ["\f", "\x1c", "\x85", "\u2028"])
def test_a_line_ends_where_it_does_for_compilers(sign: str) -> None:
    (accept,) = comments_in(f"// page {sign} two\nint x; // warpwatch: accept race: why\n")
    assert accept.line == 2


def build(folder: Path, **fields: Any) -> Build:
    (folder / "two.cu").write_text(SOURCE)
    (folder / "more.h").write_text("inline int f() { return 1; } // warpwatch: accept race: of a header\n")
    fields = {"source": "two.cu", "entry": "ns::first<float>", "configurations": (32,), "grid": 1, **fields}
    kernel = ww.kernel("two", **fields)
    family = own_family(
        lambda n: {"x": ww.Out(n, "float32")},
        reference=lambda n: np.full(n, 8.0),
        tests=((3,),),
        folder=folder,
        variants=(kernel,),
    )
    return Build(family, kernel, kernel.listed[0], "float32")


def test_all_that_is_accepted_of_a_kernel(tmp_path: Path) -> None:
    declared = (ww.Accept("race", line=9, reason="so"), ww.Accept("race", line=1, reason="it is", file="more.h"))
    keys = [re.sub(r"\S+/", "", each.key) for each in accepted_of(build(tmp_path, accept=declared))]
    assert keys == [
        "race\tfirst\ttwo.cu:9",
        "race\tfirst\tmore.h:1",
        "race\tfirst\ttwo.cu:6",
        "out of bounds\tfirst\ttwo.cu:7",
        "race\tfirst\tmore.h:1",
    ]
    assert str(accepted_of(build(tmp_path))[0]).endswith("two.cu:6: the same value")


def test_what_several_launches_accept_at_one_place_is_one_sentence(tmp_path: Path) -> None:
    """Else what is found in one kernel of a variant is told as not found in the others."""
    steps = tuple(ww.Step(f"ns::{name}<float>", grid=1, arguments="x") for name in ("first", "second"))
    accepted = accepted_of(build(tmp_path, entry="", grid=None, launches=steps))
    assert len({each.key for each in accepted}) == 6
    assert len({str(each) for each in accepted}) == 3


@pytest.mark.parametrize(
    ("accept", "said"),
    [
        (("race",), "accept has 'race': give a tuple of ww.Accept('race', line=15, reason='why it is right')"),
        ((ww.Accept("race", line=0, reason="so"),), "accept has Accept(kind='race', line=0"),
        ((ww.Accept("race", line=3, reason=" "),), "accept has Accept(kind='race', line=3, reason=' '"),
        ((ww.Accept("race", line=3, reason="so", file="no.h"),), "accept names 'no.h', which is not a file"),
    ],
)
def test_an_accepted_finding_has_a_kind_a_line_and_a_reason(tmp_path: Path, accept: Any, said: str) -> None:
    assert said in str(problems([build(tmp_path, accept=accept).family])[0])


def test_a_comment_without_a_reason_is_a_mistake_of_the_declaration(tmp_path: Path) -> None:
    family = build(tmp_path).family
    (tmp_path / "two.cu").write_text("// warpwatch: accept race\n")
    assert "accept of two.cu, line 1: '// warpwatch: accept race' is not" in str(problems([family])[0])


def test_a_comment_without_a_reason_in_a_header_names_case_file_and_line(tmp_path: Path) -> None:
    wrong = build(tmp_path)
    (tmp_path / "more.h").write_text("int f(); // warpwatch: accept race\n")
    with pytest.raises(BadCase, match=r"^own-two-32-float32: .*more\.h, line 1: '// warpwatch: accept race' is not"):
        accepted_of(wrong)
