"""Tests that cases are called identical, and excused as unchanged, only where all that decides their work is equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from tests.runs.identities import KNOWN, known
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli.bisect import Commit, stretches
from warpwatch.compare.code_difference import Side, SideBuild, State, compare_build
from warpwatch.compare.comparison import listed
from warpwatch.compare.doubts import PRINTS, UNCHANGED, change_of_work, is_unchanged
from warpwatch.compare.pairs import PairComparison
from warpwatch.compare.self_check import own_side
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.other_kernel import OtherKernel, key
from warpwatch.revision import declarations
from warpwatch.revision.commit import CommitCase
from warpwatch.revision.declared import own_identity, with_code
from warpwatch.runs.identity import Identity, Scalar, difference
from warpwatch.runs.record import CaseRecord, Facts, RunRecord, read_runs
from warpwatch.verdict.rule import Decision, Verdict

KERNEL = find_case(FAMILIES, "matmul-tiled-8x8-128x128x128-float32")
CALL = find_case(FAMILIES, "matmul-cublas-vendor-128x128x128-float32")
IMAGE = Image(Path("none"), "source", "code")


def altered(case: Case, **parts: Any) -> OtherKernel:
    """Return the case as another revision would have it, with other parts."""
    identity = msgspec.structs.replace(own_identity(case), **parts)
    if case.variant.call:
        kernels = own_side(KERNEL).kernels
        return OtherKernel(call=case.variant.name, code=b"", kernels=kernels, steps=(), symbols={}, identity=identity)
    return replace(own_side(case), identity=identity)


def step_of(case: Case, **parts: Any) -> dict[str, Any]:
    (step,) = own_identity(case).steps or ()
    return {"steps": (msgspec.structs.replace(step, **parts),)}


def with_last_argument(case: Case, value: str) -> dict[str, Any]:
    (step,) = own_identity(case).steps or ()
    last = step.arguments[-1]
    assert isinstance(last, Scalar)
    return step_of(case, arguments=(*step.arguments[:-1], Scalar(last.dtype, value)))


def array_of(**parts: Any) -> dict[str, Any]:
    first, *rest = own_identity(KERNEL).arrays or ()
    return {"arrays": (msgspec.structs.replace(first, **parts), *rest)}


def compared(case: Case, other: OtherKernel, **options: Any) -> tuple[Decision | None, RevisionComparison]:
    comparison = RevisionComparison(
        revision="HEAD",
        commit="0" * 40,
        others={case.id: other},
        images={key(other): IMAGE},
        side_by_side=PairComparison(),
        **options,
    )
    return comparison._decide_unmeasured(IMAGE, case), comparison


@pytest.mark.parametrize("case", [KERNEL, CALL], ids=str)
def test_the_same_work_is_identical(case: Case) -> None:
    decision, comparison = compared(case, altered(case))
    assert decision
    assert decision.verdict == Verdict.IDENTICAL
    assert comparison.changed == {}


@pytest.mark.parametrize(
    ("case", "parts", "said"),
    [
        (KERNEL, step_of(KERNEL, entry="matmul_slow"), "entry matmul_slow -> matmul_tiled"),
        (KERNEL, step_of(KERNEL, grid=(1, 1, 1)), "grid 1x1x1 -> 16x16x1"),
        (KERNEL, with_last_argument(KERNEL, "1"), "argument 6 (k): 1 -> 128"),
        (KERNEL, {"symbols": {"weights": "A"}}, "symbol weights: A -> none"),
        (KERNEL, array_of(aligned=256), "array A: aligned 256 -> 0"),
        (CALL, {"source": "another"}, "the source that prepares the call"),
        (CALL, with_last_argument(CALL, "1"), "argument 3 (n): 1 -> 128"),
        (CALL, {"library": "cublas2"}, "library cublas2 installed -> cublas installed"),
    ],
)
def test_another_work_of_the_same_machine_code_is_measured_and_named(case: Case, parts: Any, said: str) -> None:
    decision, comparison = compared(case, altered(case, **parts))
    assert decision is None
    assert comparison.changed[case.id].words == said
    assert f"changed besides machine code: {said} ({case.id})" in comparison.describe()


@pytest.mark.parametrize(
    "parts",
    [array_of(dtype="float64"), array_of(initial="0"), array_of(role="in-out")],
)
@pytest.mark.parametrize("case", [KERNEL, CALL], ids=str)
def test_arrays_that_a_kernel_cannot_run_on_are_incomparable(case: Case, parts: dict[str, Any]) -> None:
    decision, _ = compared(case, altered(case, **parts))
    assert decision
    assert decision.verdict == Verdict.INCOMPARABLE
    assert decision.reason.startswith("in HEAD, its ")


def test_inputs_that_are_drawn_in_another_way_are_said_once() -> None:
    comparison = compared(KERNEL, altered(KERNEL, draw="uniform 1 ab", **array_of(low="0")))[1]
    comparison.decisions[KERNEL.id] = Decision(verdict=Verdict.SAME)
    assert comparison.describe()[1:] == [
        f"inputs of 1 case are drawn in another way than in HEAD, such as {KERNEL.id} (how inputs are drawn): "
        "both sides were timed on today's"
    ]


def test_what_cannot_be_followed_is_identical_only_where_no_file_differs() -> None:
    other = altered(KERNEL, draw=None, why={"draw": "it reaches numpy.load"})
    decision, comparison = compared(KERNEL, other)
    assert decision is None
    said = f"not known to be the same: how inputs are drawn is unknown: it reaches numpy.load ({KERNEL.id})"
    assert said in comparison.describe()
    decision, _ = compared(KERNEL, other, same_files=True)
    assert decision
    assert decision.verdict == Verdict.IDENTICAL


def test_a_baseline_excuses_only_what_all_its_runs_are_known_to_have_done() -> None:
    own = Facts(identity=KNOWN)
    assert is_unchanged(own, [own, own])
    for other in (None, known(draw=None), known(code="other"), known(library="b")):
        assert not is_unchanged(own, [own, Facts(identity=other)])
        assert not is_unchanged(own, [Facts(identity=other), own])
        assert not is_unchanged(own, [Facts(identity=other)])
    assert not is_unchanged(own, [])
    assert is_unchanged(own, [Facts(identity=known(derived=True))])


def baseline_of(identity: Identity | None) -> BaselineComparison:
    run = RunRecord(path=Path("0.json"), cases={KERNEL.id: CaseRecord(samples=(1e-5,), facts=Facts(identity=identity))})
    comparison = BaselineComparison(runs=[run])
    comparison.changed = {KERNEL.id: change_of_work(Facts(identity=KNOWN), [Facts(identity=identity)])}
    return comparison


def test_a_comparison_with_a_baseline_says_what_changed_and_what_is_unknown() -> None:
    assert (
        f"changed besides machine code: symbol a: x -> none ({KERNEL.id})"
        in baseline_of(known(symbols={"a": "x"})).describe()
    )
    *_, unknown, cure = baseline_of(None).describe()
    assert unknown.startswith("not known to be the baseline's work, so no controls: which work it did is not recorded")
    assert cure == "`python -m warpwatch baseline migrate` adds what earlier runs do not record of it"


def test_a_comparison_with_a_baseline_names_cases_whose_time_is_not_judged() -> None:
    comparison = baseline_of(KNOWN)
    same = Decision(verdict=Verdict.IDENTICAL, processes=1)
    reasons = {"hello-a": PRINTS, "hello-b": PRINTS, "copy-a": UNCHANGED}
    comparison.decisions = {name: replace(same, reason=why) for name, why in reasons.items()}
    comparison.decisions["copy-b"] = Decision(verdict=Verdict.IDENTICAL, reason="built here, does the same work")
    said = [line for line in comparison.describe() if line.startswith("the same work")]
    assert said == [f"the same work, whose time is not judged: {PRINTS} (2 cases, such as hello-a)"]


def commits_of(*works: dict[str, Any]) -> tuple[list[Commit], dict[str, CommitCase | str]]:
    commits = [Commit(id=str(i) * 40, author="a", day="d", subject="s") for i in range(len(works))]
    built = [CommitCase(other=altered(KERNEL, **work), image=IMAGE) for work in works]
    return commits, {commit.id: each for commit, each in zip(commits, built, strict=True)}


def test_bisect_measures_a_commit_that_changed_an_argument_alone() -> None:
    found, _ = stretches(*commits_of({}, with_last_argument(KERNEL, "1"), step_of(KERNEL, entry="other")))
    assert [len(each.commits) for each in found] == [1, 1, 1]


def test_bisect_measures_no_commit_that_changed_how_inputs_are_drawn_and_names_it() -> None:
    found, _ = stretches(*commits_of({}, {"draw": "other"}, {"draw": None}))
    assert [len(each.commits) for each in found] == [3]
    assert [commit.id[0] for commit in found[0].drawn] == ["1"]


def test_every_timed_case_of_this_repository_is_known() -> None:
    cases = [case for case in timed_cases(PROJECT.families) if not case.variant.on_host]
    assert not [case.id for case in cases if own_identity(case).why]


def test_the_version_of_a_library_is_known_or_the_work_is_not() -> None:
    identity = own_identity(CALL)
    assert with_code(identity, "", "13.1.0").library == "cublas 13.1.0"
    assert with_code(identity, "", "").library is None
    assert with_code(own_identity(KERNEL), "ab").library == ""


def test_diff_shows_an_argument_that_changed_where_the_machine_code_did_not(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(".version 8.0\n")
    image = Image(path, "source", "code")

    def side(**parts: Any) -> Side:
        works = {KERNEL.id: msgspec.structs.replace(own_identity(KERNEL), **parts)}
        build = SideBuild(id="tiled", compile=lambda target: image, entries=("matmul_tiled",), works=works)
        return Side(build=build, image=image)

    same = compare_build("tiled", "sm_90", side(), side(), disassemble=False)
    assert (same.state, same.notes) == (State.IDENTICAL, ())
    found = compare_build("tiled", "sm_90", side(**with_last_argument(KERNEL, "1")), side(), disassemble=False)
    assert (found.state, found.notes) == (State.DIFFERENT, (f"changed: argument 6 (k): 1 -> 128 ({KERNEL.id})",))


def test_a_case_that_cannot_be_recorded_is_unknown_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    own = declarations.identity(KERNEL, PROJECT.root)
    own["steps"][0]["entry"] = "scale<" + "x" * 5000 + ">"
    monkeypatch.setattr(declarations, "identity", lambda case, tree: own)
    found = own_identity.__wrapped__(KERNEL)
    assert found.steps is None
    assert "it cannot be recorded (Expected `str` of length <= 2000" in difference(found, found).words


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(("gpu", "controls"), [("nvidia-h200", 1050), ("nvidia-h100-80gb-hbm3", 905)])
def test_the_committed_baselines_still_have_their_controls(gpu: str, controls: int) -> None:
    past = [run.cases for run in read_runs(PROJECT.baselines / gpu)]
    unchanged = 0
    for case in timed_cases(PROJECT.families):
        facts = [cases[case.id].facts for cases in past if case.id in cases]
        if facts and not case.variant.on_host:
            own = with_code(own_identity(case), facts[-1].image_hash or "", facts[-1].library or "")
            unchanged += is_unchanged(replace(facts[-1], identity=own), facts)
    assert unchanged == controls


def test_a_list_of_changes_that_is_cut_says_where_the_rest_is() -> None:
    lines = listed("changed", {f"case{i}": f"argument {i // 2}: 1 -> 2" for i in range(13)} | {"same": ""})
    assert lines[0] == "changed: argument 0: 1 -> 2 (2 cases, such as case0)"
    assert lines[-1] == "changed: 3 more cases, in other ways: compare `identity` in the saved runs"
    assert len(lines) == 6
