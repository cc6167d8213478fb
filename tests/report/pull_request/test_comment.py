"""Tests of results and of the comment that is made of them: its words, its limits, and hostile texts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpwatch.report.pull_request.comment import About, comment, headline, marker
from warpwatch.report.pull_request.gather import limited
from warpwatch.report.pull_request.result import (
    MOST,
    MOST_TOTALS,
    NAME,
    BadResult,
    Finding,
    Kind,
    Result,
    one_line,
    read_result,
    read_results,
)

ABOUT = About(marker=marker("kernels"), run_url="https://host/run")
RIGHT = Result(job="kernels", where="the software device", tests={"passed": 4}, against="1" * 40)


def slower(number: int = 1) -> Finding:
    return Finding(kind=Kind.SLOWER, name=f"copy-naive-{number}", said="+3.0 %", file="k.cu", line=9)


def test_the_worst_comes_first_and_at_most_twenty_lines_are_shown() -> None:
    findings = [
        replace(slower(), kind=Kind.UNSURE),
        *(slower(i) for i in range(30)),
        replace(slower(), kind=Kind.WRONG),
    ]
    shown, more = limited(findings)
    text = comment([replace(RIGHT, findings=shown, more=more, failed=True)], ABOUT)
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert lines[0].startswith("- **wrong**")
    assert lines[1].startswith("- **slower** `copy-naive-0` (`k.cu:9`): `+3.0 %`")
    assert lines[20] == "- … and 12 more: [all of them](https://host/run)"
    assert len(lines) == 21
    assert "### Kernels: 1 kernel wrong, 30 cases slower" in text


def test_what_does_not_fit_into_a_result_is_counted() -> None:
    shown, more = limited([slower(i) for i in range(MOST + 5)])
    assert (len(shown), more) == (MOST, {Kind.SLOWER: 5})
    assert headline([replace(RIGHT, findings=shown, more=more)], ABOUT) == f"Kernels: {MOST + 5} cases slower"


@pytest.mark.parametrize(
    ("results", "about", "said"),
    [
        ([], {}, "not checked, because the jobs left no result"),
        ([], {"conclusion": "success"}, "not checked"),
        ([RIGHT], {}, "right, not timed"),
        ([replace(RIGHT, verdicts={"same": 3})], {"conclusion": "success"}, "right, none slower"),
        ([replace(RIGHT, verdicts={"same": 3, "unsure": 2})], {}, "right, none slower, 2 unsure"),
        ([replace(RIGHT, verdicts={"unsure": 2})], {}, "right, not timed, 2 unsure"),
        ([replace(RIGHT, tests={})], {}, "no kernel was tested"),
        ([replace(RIGHT, tests={"skipped": 5})], {}, "no kernel was tested"),
        ([replace(RIGHT, tests={"failed as expected": 5}, failed=True)], {}, "no kernel was tested"),
        ([replace(RIGHT, tests={"passed": 4, "skipped": 1200})], {}, "right, not timed, 1,200 skipped"),
        ([replace(RIGHT, tests={"passed": 4, "failed as expected": 2})], {}, "right, not timed, 2 failed as expected"),
        ([replace(RIGHT, failed=True)], {}, "a job failed before all was checked"),
        ([replace(RIGHT, tests={"passed": 4, "failed": 1})], {}, "a job failed before all was checked"),
        ([replace(RIGHT, verdicts={"same": 4, "slower": 1})], {}, "a job failed before all was checked"),
        ([RIGHT], {"conclusion": "failure"}, "the run ended with `failure`"),
        ([RIGHT], {"conclusion": "cancelled"}, "the run ended with `cancelled`"),
        ([RIGHT], {"unreadable": ["x: is no result"]}, "a job failed before all was checked"),
    ],
)
def test_a_headline_is_good_news_only_where_all_was_checked(
    results: list[Result], about: dict[str, Any], said: str
) -> None:
    assert headline(results, replace(ABOUT, **about)).startswith(f"Kernels: {said}")


HOSTILE = [
    "@everyone look",
    "<img src=x onerror=alert(1)>",
    "[click](https://evil.example)",
    "![](https://evil.example/pixel.png)",
    "`@everyone` <b>",
    "``` ` @everyone",
    "a\n\n# A heading\n@everyone",
    "x | y | z",
    "-->",
    "::set-output name=x::y",
    "\u202e reversed",
    "https://evil.example",
    "/merge",
    "a\n/close",
    "!7 #7 ~label %milestone $`x`$",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_nothing_but_text(text: str) -> None:
    line = one_line(text)
    finding = Finding(kind=Kind.WRONG, name=line, said=line, likely=line, file=line, line=1)
    result = Result(
        job=line,
        where=line,
        tests={line: 1, "passed": 1},
        verdicts={line: 1},
        code={line: {line: 3}},
        findings=(finding,),
        totals=(line,),
        notes=(line,),
    )
    said = comment([result], replace(ABOUT, conclusion=line, unreadable=[text]))
    body = said.removeprefix(ABOUT.marker)
    bare = re.sub(r"`[^`\n]*`", "", body)  # what stands in no code span
    for bad in ("@", "evil", "<img", "<b>", "![", "-->", "onerror", "\u202e", "heading"):
        assert bad not in bare, bare
    assert body.count("`") % 2 == 0
    assert not [each for each in said.splitlines() if each.startswith(("::", "/"))]
    assert not re.search(r"[!#~%$]\w", bare)
    assert all(each.count("|") == 5 for each in body.splitlines() if each.startswith("| `"))


def largest(character: str) -> Result:
    """Return a result that is as large as one may be, of one character."""
    text = character * 1000
    kinds = (Kind.WRONG, Kind.SLOWER)
    counts = {f"{'x' * 990}{number}": 10**9 for number in range(20)}
    return Result(
        job=text,
        where=text,
        tests={**counts, "passed": 1},
        verdicts=counts,
        code={character * number: {"b" * 30: 10**9} for number in range(1, 50)},
        findings=tuple(Finding(kind=kind, name=text, said=text, likely=text, file=text, line=9) for kind in kinds) * 10,
        more=dict.fromkeys(Kind, 10**9),
        totals=(text,) * MOST_TOTALS,
        notes=(text,) * 50,
        failed=True,
    )


@pytest.mark.once
@pytest.mark.parametrize("character", ["a", "\U00010384", "`", "<", "|", "&"])
@pytest.mark.parametrize("jobs", [1, 100])
def test_a_comment_fits_the_hosts_limit_whatever_is_in_the_results(character: str, jobs: int) -> None:
    about = replace(ABOUT, run_url="https://host/" + "r" * 1900, site_url="s" * 10**6, conclusion="c" * 10**6)
    text = comment([largest(character)] * jobs, replace(about, unreadable=["u" * 10**6] * 10))
    assert len(text.encode()) <= 65_536
    assert text.startswith(ABOUT.marker)
    assert f"[run]({about.run_url})" in text.splitlines()[-1]
    assert "s" * 100 not in text
    for line in text.splitlines():
        assert line.count("`") % 2 == 0
        assert line.count("|") in (0, 5) or not line.startswith("|")
    if jobs > 1:
        assert "| … and 88 more jobs | | | |" in text
        if character == "\U00010384":
            assert re.search(
                r"^… and \d+ more lines, for which a comment of 65,536 bytes has no room: \[all of", text, re.M
            )


def test_totals_stand_below_the_findings_and_are_few() -> None:
    totals = tuple(f"total of a-b-{number}-float32: +1.0 %" for number in range(MOST_TOTALS))
    text = comment([replace(RIGHT, findings=(slower(),), totals=totals)], ABOUT)
    assert text.index("`total of a-b-0-float32: +1.0 %`") > text.index("- **slower**")
    assert text.count("`total of ") == 5
    assert "… and 15 more totals, which its log has" in text
    assert "total" not in comment([RIGHT], ABOUT)


def test_a_title_of_any_length_and_text_fits_into_the_marker() -> None:
    assert marker("x --> @you <b>") == "<!-- warpwatch: x  you b -->"
    assert marker("x" * 10**6) == marker("x" * 10**6)
    assert len(comment([], replace(ABOUT, marker=marker("x" * 10**6)))) < 1000


def test_a_result_of_the_longest_findings_can_be_read(tmp_path: Path) -> None:
    text = "\U00010384" * 400
    found = [Finding(kind=Kind.WRONG, name=text, said=text, likely=text, file=text)] * 500
    shown, more = limited(found)
    (tmp_path / NAME).write_bytes(msgspec.json.encode(replace(RIGHT, findings=shown, more=more)))
    result = read_result(tmp_path / NAME)
    assert len(result.findings) + result.more[Kind.WRONG] == 500
    assert len(result.findings) > 50


@given(st.text())
def test_any_text_becomes_one_line_that_a_result_can_hold(text: str) -> None:
    line = one_line(text)
    result = replace(RIGHT, findings=(Finding(kind=Kind.WRONG, name=line, said=line),), notes=(line,))
    assert len(line.splitlines()) <= 1
    assert msgspec.json.decode(msgspec.json.encode(result), type=Result, strict=True) == result


def test_results_of_several_jobs_are_read_from_their_folders(tmp_path: Path) -> None:
    for name in ("warpwatch-a-0", "warpwatch-b-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(msgspec.json.encode(replace(RIGHT, job=name)))
    assert [result.job for result in read_results(tmp_path)] == ["warpwatch-a-0", "warpwatch-b-0"]


def document(**changes: Any) -> str:
    return json.dumps({**msgspec.to_builtins(RIGHT), **changes})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no result of `warpwatch ci`"),
        ("[]", "is no result"),
        (document(job=3), "is no result"),
        (document(job="two\nlines"), "is no result"),
        (document(job="\x1b[31m"), "is no result"),
        (document(commit="HEAD"), "is no result"),
        (document(tests={"passed": -1}), "is no result"),
        (document(tests={"passed": True}), "is no result"),
        (document(tests=dict.fromkeys(map(str, range(51)), 1)), "is no result"),
        (document(code={"sm_90": dict.fromkeys(map(str, range(51)), 1)}), "is no result"),
        (document(findings=[{"kind": "nice", "name": "", "said": ""}]), "is no result"),
        (document(findings=[{"kind": "wrong", "name": "", "said": ""}] * (MOST + 1)), "is no result"),
        (document(format=2), "has format 2, and this version of warpwatch reads 1"),
        (document(job="x" * 2**20), "holds more than"),
        ("[" * 100_000, "is no result"),
    ],
)
def test_a_result_that_is_none_is_refused_by_name(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / NAME
    path.write_text(content)
    with pytest.raises(BadResult) as caught:
        read_result(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(msgspec.json.encode(RIGHT))
    (tmp_path / NAME).symlink_to(tmp_path / "secret")
    with pytest.raises(BadResult, match="is a link"):
        read_results(tmp_path)
