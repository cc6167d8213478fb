"""Tests `warpwatch bisect` on histories that are made here; the number of instructions stands for the GPU's time."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import arguments
from warpwatch.catalogue.project import Project, find_project
from warpwatch.cli import bisect as command
from warpwatch.cli.bisect import Walked, _print_result, walk
from warpwatch.cli.options import kernel_case
from warpwatch.devices.compile.compiler import Target
from warpwatch.explain.bisection import Bisection, Measure, Range, Unusable, list_commits
from warpwatch.revision.declared import BadRevision
from warpwatch.verdict.rule import Decision, Verdict

CASE = "lines-chain-128-1x65536-float32"
IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
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
        done = subprocess.run(
            ["git", *IDENTITY, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

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

    def on_gpu(walked: Walked, worker: Any, *, cold: bool) -> Measure:
        def cost(code: int) -> int:
            (side,) = _sides(walked, code)
            return int(side.code.instructions)

        def decide(ranges: Sequence[Range]) -> dict[Range, Decision | Unusable]:
            return {(i, j): _unusable(walked, i, j) or _decision(cost(i), cost(j)) for i, j in ranges}

        return decide

    def _unusable(walked: Walked, *codes: int) -> Unusable | None:
        bad = [code for code in codes if walked.stretches[code].commits[0].id in wrong]
        return Unusable(bad[0], "it is wrong in 3 of 512 elements") if bad else None

    monkeypatch.setattr(command, "_on_gpu", on_gpu)
    monkeypatch.setattr(command, "_target", lambda worker, arch: (Target("sm_90"), ""))


def _sides(walked: Walked, code: int) -> list[Any]:
    from warpwatch.explain.explanation import code_of, explain  # noqa: PLC0415

    built = code_of(walked.stretches[code].built)
    return [side for side, _ in explain(built, built, "sm_90", Verdict.SLOWER).sides.values()]


def _decision(old: int, new: int) -> Decision:
    ratio = new / old
    verdict = Verdict.SLOWER if ratio > 1.01 else Verdict.FASTER if ratio < 0.99 else Verdict.SAME
    return Decision(
        verdict=verdict,
        before=old * 1e-6,
        after=new * 1e-6,
        ratio=ratio,
        low=ratio,
        high=ratio,
        floor=0.01,
        processes=5,
    )


def ask(history: History, span: str, *options: str) -> int:
    return command.run(history.project, **arguments("bisect", CASE, span, *options))


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
    (walked,) = walk(history.project, [kernel_case(history.project, CASE, "bisect")], commits, Target("sm_90"))
    _print_result(walked.stretches, unsure, Target("sm_90"))
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
