"""Tests that what kernels and programs print can steer neither a terminal nor the host of a job, nor fill a log."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpwatch.devices.foreign_text import LONGEST, Limited, limited, plain, plain_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::set-output name=x::y", ": :set-output name=x::y"),
        ("  \u00a0::add-mask::x", "  \u00a0: :add-mask::x"),
        ("\x1b[32m::stop-commands::x\x1b[0m", ": :stop-commands::x"),
        (":\x1b[0m:stop-commands::x", ": :stop-commands::x"),
        (":::stop-commands::x", ": ::stop-commands::x"),
        ("a ##[group]x", "a # #[group]x"),
        ("##vso[task.setvariable variable=x]y", "# #vso[task.setvariable variable=x]y"),
        ("##teamcity[buildStop]", "# #teamcity[buildStop]"),
        ("#\x1b[m#[error]x", "# #[error]x"),
        ("section_start:1:a\r\x1b[0Kx", "section_start:1:a\\r\\x1b[0Kx"),
        ("\x1b]0;title\x07\x9b2J\x7f", "\\x1b]0;title\\x07\\x9b2J\\x7f"),
        ("a \u202ereversed\u2028b", "a \\u202ereversed\\u2028b"),
        ("\udcff", "\\udcff"),
        ("x[3]\t= 4.5 µs, std::vector, a :: b, # a, ## b", "x[3]\t= 4.5 µs, std::vector, a :: b, # a, ## b"),
    ],
)
def test_a_line_is_shown_with_its_controls_and_is_no_command(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text(alphabet=st.sampled_from("::##[]\r\n\x1b\x85\u2028 mvsoa;0\x0b\x1c\u3000\ufeff")))
def test_no_text_holds_a_command_or_an_escape(text: str) -> None:
    for line in plain_lines(text).split("\n"):
        assert not line.lstrip().startswith("::")
        assert not re.search(r"##\w*\[", line)
        assert all(character.isprintable() or character.isspace() for character in line)
        assert "\r" not in line
        assert "\x1b" not in line


def test_a_long_text_has_its_begin_its_end_and_how_much_is_left_out() -> None:
    lines = [f"line {number}" for number in range(10_000)]
    shown = limited("\n".join(lines), 1000, "elsewhere is all").split("\n")
    left = next(number for number, line in enumerate(shown) if line.startswith("... "))
    count = int(re.findall(r"^\.\.\. ([\d,]+) lines \([\d,]+ characters\) are left out here; elsewhere is all$",
                           shown[left])[0].replace(",", ""))  # fmt: skip
    assert shown[:left] == lines[:left]
    assert shown[left + 1 :] == lines[left + count :]
    assert len("\n".join(shown)) < 1200
    assert min(left, len(shown) - left) > 10


def test_a_short_text_is_shown_whole_and_a_long_line_is_cut() -> None:
    assert limited("a\nb\n", 1000, "") == "a\nb\n"
    assert limited("x" * (LONGEST + 5), 10_000, "") == "x" * LONGEST + "... 5 characters are left out"
    assert len(limited("x" * 10**6, 1000, "")) < LONGEST + 100


def test_what_a_program_prints_is_logged_whole_up_to_a_limit() -> None:
    printed, log, shown = io.StringIO("one\n::two::\n" + "x" * 200_000 + "::three::\n"), io.StringIO(), list[str]()
    last = Limited(show=shown.append, most=10_000, rest="").pass_on(printed, log, 10**6)
    assert last.endswith("::three::")
    assert shown[:2] == ["one", ": :two::"]
    assert log.getvalue().replace("\n", "").endswith("x" * 200_000 + "::three::")
    log = io.StringIO()
    Limited(show=shown.append, most=100, rest="").pass_on(io.StringIO("line\n" * 1000), log, 100)
    assert log.getvalue() == "line\n" * 21 + "... the rest is left out: more than 100 characters\n"
