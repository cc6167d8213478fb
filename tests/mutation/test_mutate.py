"""Mutation testing of the kernels: its lists are sound, a mistake goes where it should, and the score is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernels import FAMILIES
from tests.mutation.mistakes import FOLDER, BadList, Change, Mistake, change, read_mistakes
from tests.mutation.mutate import FIXTURES, fast_tests, trials, variants_of
from tests.mutation.planted import located, read_faults
from tests.mutation.score import Verdict, judge, report, score
from tests.project import ROOT
from warpwatch.catalogue.selection import builds

TEXT = "int a;\nif (row < m && col < n)\n    b[row] = a[row];\nif (col < n)\n    b[col] = a[col];\n"
ENTRY = '[[mutant]]\nfile = "k/x.cu"\nkind = "guard"\nwhat = "{what}"\nfind = "{find}"\nreplace = "{replace}"\n{more}'


def mistake(find: str, replace: str = "", **more: Any) -> Mistake:
    fields = {"file": "k/x.cu", "kind": "guard", "what": "what", "find": find, "replace": replace}
    return Mistake(**(fields | more))


def lists(folder: Path, *entries: str) -> list[Mistake]:
    (folder / "kernels" / "k").mkdir(parents=True)
    (folder / "kernels" / "k" / "x.cu").write_text(TEXT)
    (folder / "one.toml").write_text("\n".join(entries))
    return read_mistakes(folder, folder / "kernels")


def entry(what: str = "w", find: str = "row < m", replace: str = "row <= m", more: str = "") -> str:
    return ENTRY.format(what=what, find=find, replace=replace, more=more)


def test_a_mistake_is_made_where_its_text_is_and_knows_its_lines() -> None:
    made = change(TEXT, mistake("row < m", "row <= m"))
    assert made.text == TEXT.replace("row < m", "row <= m")
    assert (made.first, made.last) == (2, 2)
    assert change(TEXT, mistake("int a;", "int a;\nint b;\nint c;")).last == 3


def test_white_space_counts_as_any_white_space() -> None:
    assert change(TEXT, mistake("if (row < m && col < n) b[row]", "b[row]")).text.startswith("int a;\nb[row] = a[row]")


def test_a_text_that_is_there_twice_is_refused_unless_it_is_said_after_what() -> None:
    with pytest.raises(BadList, match="'if' is there 2 times; add more of the line, or `after`"):
        change(TEXT, mistake("if"))
    assert change(TEXT, mistake("if", "while", after="a[row];")).first == 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (mistake("row > m"), "k/x.cu: what: 'row > m' is not there"),
        (mistake("row < m", "row < m"), "it changes nothing"),
        (mistake("row < m", "1", after="no such"), "'no such' is not there"),
        (mistake(" "), "nothing to look for"),
    ],
)
def test_a_mistake_that_cannot_be_made_says_why(wrong: Mistake, said: str) -> None:
    with pytest.raises(BadList, match=said):
        change(TEXT, wrong)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ((entry(), entry()), "2 entries have this name"),
        ((entry(find="gone"),), "'gone' is not there"),
        ((entry(more='other = "x"'),), "has no key other"),
        (('[[mutant]]\nfile = "k/x.cu"',), "lacks find, kind, replace, what"),
        ((entry().replace("k/x.cu", "k/y.cu"),), "there is no such file"),
        (("[[mutants]]",), r"tables are \[\[mutant\]\] and \[\[control\]\], not mutants"),
        (("what =",), "one.toml is not TOML"),
        ((entry(more='equivalent = "a"\nperformance = "b"'),), "give one of equivalent and performance"),
        ((entry(more='after = ["a"]'),), "after must be text"),
    ],
)
def test_a_list_that_cannot_be_used_says_which_entry_and_why(
    tmp_path: Path, entries: tuple[str, ...], said: str
) -> None:
    with pytest.raises(BadList, match=said):
        lists(tmp_path, *entries)


def test_the_lists_fit_the_kernels_and_are_long_enough() -> None:
    found = read_mistakes(FOLDER, ROOT / "kernels")
    assert sum(not m.same for m in found) >= 150
    assert sum(m.control for m in found) >= 20
    files = {
        str(path.relative_to(ROOT / "kernels"))
        for path in (ROOT / "kernels").glob("*/*.*")
        if path.suffix in (".cu", ".h") and variants_of(str(path.relative_to(ROOT / "kernels")))
    }
    per_file = {file: sum(m.file == file and not m.same for m in found) for file in files}
    assert [file for file, count in per_file.items() if count < (2 if "hello" in file else 3)] == []


def test_the_tests_of_a_header_are_those_of_every_kernel_that_includes_it() -> None:
    assert {v.name for v in variants_of("matmul/microtile.h")} == {"vectorised", "double_buffered", "asynchronous"}
    assert [v.name for v in variants_of("conv2d/slide.h")] == ["columns", "paired", "columns"]
    assert [v.name for v in variants_of("matmul/tiled.cu")] == ["tiled"]


def test_a_mistake_meets_every_test_of_its_variant_smallest_builds_first() -> None:
    tiled = next(f for f in FAMILIES if f.name == "matmul").variant("tiled")
    found = trials(tiled)
    names = {trial.name.partition("[")[0].rpartition(":")[2] for trial in found}
    assert names >= {"test_exact", "test_random", "test_edge", "test_unaligned", "test_ends_of_every_length"}
    assert names >= {"test_rows_of_blocks_that_continue_in_z", "test_blocks_that_are_not_square"}
    assert {t.build.id for t in found} >= {b.id for b in builds(FAMILIES) if b.variant is tiled}
    assert found[0].build.id == "matmul-tiled-8x8-float32"
    assert {t.build.id for t in trials(tiled, everything=False)} == {"matmul-tiled-8x8-float32"}
    assert set(FIXTURES) == {"kernel", "build", "case", "check"}


def verdict(said: str, test: str = "t", **more: Any) -> Verdict:
    return judge(mistake("x", **more), Change(text="", first=20, last=21), test, said)


def test_a_finding_is_near_where_it_names_a_line_of_the_same_file_within_five() -> None:
    assert verdict("softcuda: race in f\n  kernels/k/x.cu:15: thread\n  kernels/k/y.cu:3: thread").near
    assert verdict("softcuda: race in f\n  kernels/k/x.cu:26: thread").near
    depends = (
        "\n    the first address depends on row (kernels/k/x.cu:{})\n    condition before the access: kernels/k/x.cu:3"
    )
    same = verdict(f"softcuda: race in f\n  kernels/k/x.cu:40: thread{depends.format(14)}")
    assert (same.near, same.places) == (False, 1), "what an address depends on is no access"
    assert verdict(f"softcuda: race in f\n  kernels/k/x.cu:40: thread{depends.format(15)}").near
    far = verdict("softcuda: race in f\n  kernels/k/x.cu:27: thread\n  kernels/k/y.cu:20: thread")
    assert (far.near, far.places, far.finding) == (False, 2, True)
    compared = verdict("k is wrong in 3 of 4 elements, see kernels/k/x.cu:20")
    assert (compared.near, compared.finding) == (False, False)


def test_the_score_leaves_out_what_is_set_aside_and_a_control_must_not_be_noticed() -> None:
    noticed, survived = (
        verdict("softcuda: race\n kernels/k/x.cu:20: t"),
        Verdict(mistake("x"), Change(text="", first=1, last=1)),
    )
    aside = Verdict(mistake("x", same="because"), Change(text="", first=1, last=1))
    control = Verdict(mistake("x", same="computes the same", control=True), Change(text="", first=1, last=1))
    total = score([noticed] * 97 + [survived] * 3 + [aside, control])
    assert (total.mistakes, total.noticed, total.aside, total.controls, total.accused) == (100, 97, 1, 1, 0)
    assert (total.share, total.good) == (0.97, True)
    assert (total.findings, total.near) == (97, 97)
    assert not score([noticed] * 96 + [survived] * 4).good
    accused = verdict("is wrong in", same="computes the same", control=True)
    assert not score([noticed] * 100 + [accused]).good
    text, good = report([noticed, survived, accused])
    assert not good
    assert "survived: 1" in text
    assert "set aside, that somebody noticed: 1" in text
    assert "noticed 1 of 2 mistakes, 50.0% (at least 97%)" in text


@pytest.mark.slow
def test_the_fast_tests_of_a_kernel_are_some_of_all() -> None:
    fast_names = fast_tests()
    for family, name in (("matmul", "tiled"), ("matvec", "split")):
        variant = next(f for f in FAMILIES if f.name == family).variant(name)
        every, fast = trials(variant), trials(variant, among=fast_names)
        assert {trial.name for trial in fast} < {trial.name for trial in every}
        for part in (lambda trial: trial.build.dtype, lambda trial: trial.test.__name__):
            assert {*map(part, fast)} == {*map(part, every)}
        assert {trial.build.block for trial in fast} >= {configuration.block for configuration in variant.listed}
        longest = [max(max(trial.case.shape) for trial in some if trial.case) for some in (fast, every)]
        assert longest[0] == longest[1]


def test_faults_of_the_engine_can_be_planted_on_both_sides_of_its_gates() -> None:
    faults = read_faults()
    assert len(faults) >= 60
    assert len({fault.kind for fault in faults}) >= 10


def test_a_fault_is_planted_in_the_one_file_that_has_its_text() -> None:
    fault = mistake("adjusted = np.ones(len(values))", "", file="warpwatch/verdict")
    assert located(fault).file == "warpwatch/verdict/rule.py"
    with pytest.raises(BadList, match=r"is in (warpwatch/verdict/\w+.py(, )?){2,}$"):
        located(mistake("from __future__ import annotations", file="warpwatch/verdict"))
    with pytest.raises(BadList, match="is in no file of warpwatch/verdict"):
        located(mistake("no such text", file="warpwatch/verdict"))
