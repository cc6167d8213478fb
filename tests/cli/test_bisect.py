"""Tests `warpwatch bisect` on histories that are made here; the number of instructions stands for the GPU's time."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command import arguments, git
from warpwatch.catalogue.project import Project, find_project
from warpwatch.cli import bisect as command
from warpwatch.cli.bisect import Bisection, CaseHistory, Range, Unusable, _print_result, build_all, list_commits, search
from warpwatch.cli.options import gpu_case
from warpwatch.devices.compile.compiler import Target
from warpwatch.revision.declared import BadRevision
from warpwatch.verdict.rule import Decision, Verdict

CASE = "lines-chain-128-1x65536-float32"
DECLARATION = """
import numpy as np

import warpwatch as ww

LINES = ww.Family(
    "lines",
    sizes=("m", "n"),
    dtypes=("float32",),
    arrays=lambda m, n: {"x": ww.In((m, n)), "y": ww.Out(n)},
    reference=lambda x: np.full(x.shape[1], 0.5),
    tolerance=ww.relative(1e-3),
    work=lambda m, n: ww.Work(m * n, 4 * (m * n + n)),
    tests=((1, 512),),
    benchmarks=((1, 65536),),
    variants=(ww.kernel("chain", "FMA after FMA", source="chain.cu", configurations=((128,),),
                        grid=lambda n, block: ww.blocks(n, block[0]), arguments="x y n"),),
)
"""
KERNEL = """extern "C" __global__ void lines_chain(const float* x, float* y, int n)
{{
    const int at = blockIdx.x * BLOCK_X + threadIdx.x;
    if (at >= n || n == -{mark})
        return;
    float value = x[at];
#pragma unroll
    for (int i = 0; i < {steps}; ++i)
        value = value * 0.5f + 0.25f;
    y[at] = value;
}}
"""


@dataclass
class History:
    """A repository with one kernel, whose instructions are as many as its steps."""

    folder: Path

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    def commit(self, subject: str, *, steps: int = 0, mark: int = 1, text: str = "", **files: str) -> str:
        """Commit a state of the kernel, or another text of its file; returns the commit."""
        if steps or text:
            (self.folder / "perf" / "chain.cu").write_text(text or KERNEL.format(steps=steps, mark=mark))
        for name, content in files.items():
            (self.folder / "perf" / f"{name}.py").write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    @property
    def project(self) -> Project:
        return find_project(self.folder)


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    (tmp_path / "perf").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "perf"\n')
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    (tmp_path / "perf" / "__init__.py").write_text(DECLARATION)
    made = History(tmp_path)
    made.git("init", "-q", "-b", "main")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "perf", raising=False)
    return made


@pytest.fixture
def wrong() -> set[str]:
    """Commits whose results are wrong."""
    return set()


@pytest.fixture
def instructions(monkeypatch: pytest.MonkeyPatch, wrong: set[str]) -> None:
    """Let the number of instructions stand for the time: 1 % more of them is slower."""

    def measure(
        walked: CaseHistory, worker: Any, ranges: Sequence[Range], *, cold: bool
    ) -> dict[Range, Decision | Unusable]:
        def cost(code: int) -> int:
            (side,) = _sides(walked, code)
            return int(side.code.instructions)

        return {(i, j): _unusable(walked, i, j) or _decision(cost(i), cost(j)) for i, j in ranges}

    def _unusable(walked: CaseHistory, *codes: int) -> Unusable | None:
        bad = [code for code in codes if walked.stretches[code].commits[0].id in wrong]
        return Unusable(bad[0], "it is wrong in 3 of 512 elements") if bad else None

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(command, "_target", lambda worker, arch: (Target("sm_90"), ""))


def _sides(walked: CaseHistory, code: int) -> list[Any]:
    from warpwatch.explain.explanation import code_of, explain  # noqa: PLC0415

    built = code_of(walked.stretches[code].built)
    return [side for side, _ in explain(built, built, "sm_90", Verdict.SLOWER).sides.values()]


def _decision(old: int, new: int) -> Decision:
    ratio = new / old
    verdict = Verdict.SLOWER if ratio > 1.01 else Verdict.FASTER if ratio < 0.99 else Verdict.SAME
    times: dict[str, Any] = {"before": old * 1e-6, "after": new * 1e-6, "ratio": ratio, "low": ratio, "high": ratio}
    return Decision(verdict=verdict, **times, floor=0.01, processes=5)


def ask(history: History, span: str, *options: str) -> int:
    return command.run(history.project, **arguments("bisect", CASE, span, *options))


@pytest.mark.slow
@pytest.mark.usefixtures("instructions")
def test_the_commit_is_named_with_its_author_effect_and_explanation(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    good = history.commit("The kernel", steps=100)
    history.commit("Words")
    history.commit("A check", steps=100, mark=2)
    slow = history.commit("A better way", steps=120, mark=2)
    history.commit("Another check", steps=120, mark=3)
    history.commit("More words")
    assert ask(history, f"{good}..HEAD") == 0
    said = capsys.readouterr().out
    assert f"{CASE}: 6 commits, 4 different machine codes or launches\n" in said
    assert f"  {slow[:12]} " in said
    assert " Ada: A better way\n      slower: median" in said
    assert said.count(" Ada: ") == 1
    assert "      likely cause: more arithmetic: " in said


@pytest.mark.slow
@pytest.mark.usefixtures("instructions")
def test_two_steps_are_listed_with_their_shares(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    good = history.commit("The kernel", steps=100)
    first = history.commit("One", steps=110)
    history.commit("A check", steps=110, mark=7)
    second = history.commit("Two", steps=130, mark=7)
    assert ask(history, f"{good}..HEAD") == 0
    said = capsys.readouterr().out
    assert said.index(f"  {first[:12]} ") < said.index(f"  {second[:12]} ")
    shares = [
        float(line.split(" % of the slowdown")[0].split()[-1]) for line in said.splitlines() if "of the slow" in line
    ]
    assert len(shares) == 2
    assert math.isclose(sum(shares), 100, abs_tol=1)


@pytest.mark.slow
@pytest.mark.usefixtures("instructions")
def test_commits_that_cannot_be_used_are_skipped_and_named_beside_the_step(
    history: History, wrong: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    good = history.commit("The kernel", steps=100)
    broken = history.commit("Does not compile", text="no code")
    bad_declaration = history.commit("Cannot be read", __init__="raise RuntimeError('half done')\n")
    other = history.commit("Another case", __init__=DECLARATION.replace('"chain"', '"bond", entry="lines_chain"'))
    slow = history.commit("A better way", steps=120, __init__=DECLARATION)
    wrong.add(history.commit("A wrong one", steps=120, mark=5))
    history.commit("Words")
    assert ask(history, f"{good}..HEAD") == 0
    said = capsys.readouterr().out
    assert "; 3 of 7 cannot be used, such as " in said
    (beside,) = (line for line in said.splitlines() if "or one of the commits before it" in line)
    assert [each in beside for each in (broken[:12], bad_declaration[:12], other[:12])] == [True] * 3
    assert f"  {slow[:12]} " in said
    assert f"  {next(iter(wrong))[:12]} cannot be measured: it is wrong in 3 of 512 elements\n" in said


@pytest.mark.slow
@pytest.mark.usefixtures("instructions")
def test_merged_branches_are_walked_where_that_is_asked_for(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    good = history.commit("The kernel", steps=100)
    history.git("checkout", "-q", "-b", "work")
    slow = history.commit("On the branch", steps=130)
    history.commit("Words on the branch")
    history.git("checkout", "-q", "main")
    history.commit("Words on main", notes="")
    history.git("merge", "-q", "--no-ff", "-m", "The merge", "work")
    assert ask(history, f"{good}..HEAD") == 0
    assert " Ada: The merge\n" in capsys.readouterr().out
    assert ask(history, f"{good}..HEAD", "--all-commits") == 0
    assert f"  {slow[:12]} " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("instructions")
def test_what_is_not_slower_is_said(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    good = history.commit("The kernel", steps=100)
    history.commit("Slower", steps=130)
    history.commit("As before", steps=100, mark=2)
    assert ask(history, f"{good}..HEAD") == 1
    assert "so there is no slowdown in this range to look for\n" in capsys.readouterr().out
    unsure = Bisection(ends=Decision(verdict=Verdict.UNSURE, reason="4 of 5 processes"), first=0, last=1)
    commits = list_commits(f"{good}..HEAD", history.folder, first_parent=True)
    (walked,) = build_all(history.project, [gpu_case(history.project, CASE, "bisect")], commits, Target("sm_90"))
    _print_result(walked, unsure, Target("sm_90"))
    assert "so it cannot be told whether there is a slowdown" in capsys.readouterr().out
    history.commit("Words")
    assert ask(history, "HEAD~1..HEAD") == 1
    assert "no commit changed its machine code, launches or arguments" in capsys.readouterr().out


@pytest.mark.usefixtures("instructions")
def test_changes_that_are_not_committed_are_named(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    history.commit("The kernel", steps=100)
    history.commit("Slower", steps=130)
    (history.folder / "perf" / "chain.cu").write_text(KERNEL.format(steps=1, mark=1))
    assert ask(history, "HEAD~1..HEAD") == 0
    assert "changes that are not committed: they take no part" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ("HEAD", "give one case or several, then GOOD..BAD"),
        ("..HEAD", "is not a range: give GOOD..BAD"),
        ("HEAD...HEAD~1", "is not a range: give GOOD..BAD"),
        ("HEAD..HEAD~1", "HEAD is not an ancestor of HEAD~1"),
        ("HEAD..HEAD", "holds no commit"),
        ("nonsense..HEAD", "git knows no such revision"),
    ],
)
def test_bad_ranges_are_a_sentence(history: History, span: str, said: str) -> None:
    history.commit("The kernel", steps=100)
    history.commit("Words")
    with pytest.raises(BadRevision, match=said):
        ask(history, span)


@pytest.mark.slow
def test_without_a_gpu_the_changes_of_machine_code_are_listed(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    good = history.commit("The kernel", steps=100)
    slow = history.commit("A better way", steps=120)
    assert ask(history, f"{good}..HEAD", "--device=software") == 1
    said = capsys.readouterr().out
    assert "nothing was measured: " in said
    assert f"  {slow[:12]} " in said
    assert "      more arithmetic: 100 -> 120 instructions in the code" in said


def test_a_shallow_clone_is_told_how_to_get_the_rest(
    history: History, tmp_path_factory: pytest.TempPathFactory
) -> None:
    good = history.commit("The kernel", steps=100)
    history.commit("Words")
    folder = tmp_path_factory.mktemp("shallow") / "clone"
    history.git("clone", "-q", "--depth=1", f"file://{history.folder}", str(folder))
    with pytest.raises(BadRevision, match="fetch --unshallow"):
        command.run(find_project(folder), **arguments("bisect", CASE, f"{good}..HEAD"))


# The search for steps among machine codes, with costs that are known

FLOOR = 0.005


class Costs:
    """Answers as a GPU would on which the codes take these times. ``wrong``: codes whose results are wrong."""

    def __init__(self, times: Sequence[float], wrong: Sequence[int] = ()) -> None:
        self.times, self.wrong = times, wrong
        self.rounds: list[list[Range]] = []

    def __call__(self, ranges: Sequence[Range]) -> dict[Range, Decision | Unusable]:
        self.rounds.append(list(ranges))
        return {key: self._one(*key) for key in ranges}

    def _one(self, i: int, j: int) -> Decision | Unusable:
        for code in (i, j):
            if code in self.wrong:
                return Unusable(code, f"{code} is wrong")
        ratio = self.times[j] / self.times[i]
        verdict = Verdict.SLOWER if ratio > 1 + FLOOR else Verdict.FASTER if ratio < 1 / (1 + FLOOR) else Verdict.SAME
        return Decision(verdict=verdict, ratio=ratio)


def found(times: Sequence[float], wrong: Sequence[int] = ()) -> Bisection:
    return search(len(times), Costs(times, wrong))


def test_one_step_takes_few_rounds() -> None:
    costs = Costs([1.0] * 9 + [1.02] * 8)
    assert list(search(17, costs).steps) == [(8, 9)]
    assert len(costs.rounds) <= 6  # both ends, and four halvings and the last
    assert sum(map(len, costs.rounds)) <= 1 + 2 * 4


def test_two_steps_are_both_found_with_their_ratios() -> None:
    steps = found([1, 1, 1.03, 1.03, 1.03, 1.05, 1.05]).steps
    assert list(steps) == [(1, 2), (4, 5)]
    assert math.isclose(math.prod(each.ratio for each in steps.values()), 1.05)


def test_what_is_not_slower_is_not_searched() -> None:
    costs = Costs([1, 1.2, 1])
    assert not search(3, costs).steps
    assert costs.rounds == [[(0, 2)]]
    assert found([1, 1]).ends.verdict == Verdict.SAME  # type: ignore[union-attr]
    assert found([1.1, 1]).ends.verdict == Verdict.FASTER  # type: ignore[union-attr]


def test_a_drift_in_parts_below_the_floor_is_a_range() -> None:
    result = found([1, 1.004, 1.008])
    assert not result.steps
    assert list(result.ranges) == [(0, 2)]


def test_a_step_beside_a_gain_is_found() -> None:
    assert list(found([1, 1.10, 1.10, 1.02]).steps) == [(0, 1)]


@pytest.mark.parametrize("wrong", [[0], [3], [2, 3], [6], [0, 6], [1, 2, 4, 5]])
def test_codes_that_cannot_be_measured_are_left_out(wrong: list[int]) -> None:
    result = found([1, 1, 1, 1.05, 1.05, 1.05, 1.05], wrong)
    assert set(result.unusable) <= set(wrong)
    ((first, last),) = result.steps
    assert first < 3 <= last
    assert not {first, last} & set(wrong)
    assert set(range(first + 1, last)) <= set(wrong)


def test_where_nothing_can_be_measured_that_is_said() -> None:
    result = found([1, 1, 1], [0, 1, 2])
    assert result.ends is None
    assert len(result.unusable) == 2  # one is left, and there is nothing to measure it against


@given(st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.02, 0.05]), min_size=1, max_size=12))
def test_every_step_is_found_where_no_code_is_faster_than_the_one_before(logs: list[float]) -> None:
    times = [1.0]
    for log in logs:
        times.append(times[-1] * math.exp(log))
    expected = [(i, i + 1) for i, (a, b) in enumerate(pairwise(times)) if b > a * (1 + FLOOR)]
    assert sorted(found(times).steps) == expected
