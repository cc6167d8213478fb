"""Tests `warpwatch bisect` and `warpwatch explain` of calls, in repositories that are made here."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.cli.command import arguments, git
from tests.compare.test_apart import KERNEL, edit
from tests.fake_gpu import INFO
from tests.project import importing_apart
from tests.stranger import declare
from warpwatch.catalogue.project import Project, find_project
from warpwatch.cli import bisect, explain
from warpwatch.cli.bisect import CaseHistory, Range, build_all, list_commits
from warpwatch.cli.json_file import JsonFile
from warpwatch.cli.options import gpu_case
from warpwatch.compare.apart import SameWork
from warpwatch.compare.pairs import Pair
from warpwatch.devices.compile.compiler import Target
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker
from warpwatch.explain.explanation import NOT_SEEN, SAME_LAUNCHES
from warpwatch.revision.declared import BadRevision
from warpwatch.runs.launched import Launched
from warpwatch.timing.pair_samples import PairSamples
from warpwatch.timing.side_by_side import OtherSideFailed
from warpwatch.verdict.rule import Decision, Verdict

CASE = "copy-memcpy-vendor-4096-float32"
COPY = '        check_status("cuMemcpyDtoDAsync", cuda'
TIMES = "        for _ in range(40):\n    " + COPY
SM_90 = Target("sm_90")


class History:
    """A repository with a call of its own, which is no call of a library alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        package = declare(folder)
        text = (package / "__init__.py").read_text()
        text = text.replace("needs=ww.Driver(), needs_gpu=False, benchmarks=BETWEEN", "needs_gpu=False, benchmarks=FEW")
        (package / "__init__.py").write_text(text.replace("\nCOPY =", "\nFEW = ((4096,),)  # a quick test\n\nCOPY ="))
        (folder / ".gitignore").write_text("__pycache__/\n")
        git(folder, "init", "-q", "-b", "main")

    def commit(self, subject: str, *edits: tuple[str, str]) -> str:
        for each in edits:
            edit(self.folder, *each)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", subject)
        return git(self.folder, "rev-parse", "HEAD")

    @property
    def project(self) -> Project:
        return find_project(self.folder)

    def bisect(self, span: str, *options: str) -> int:
        return bisect.run(self.project, **arguments("bisect", CASE, span, *options))


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    monkeypatch.chdir(tmp_path)
    with importing_apart("mine"):
        yield History(tmp_path)


@pytest.mark.slow
def test_the_commit_that_made_a_call_slower_is_found_by_running_both_sides(
    history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the software device, whose times are the host's: the copy is made forty times."""
    good = history.commit("The call")
    slow = history.commit("A better way", (COPY, TIMES))
    history.commit("Words")
    monkeypatch.setattr(bisect, "_target", lambda worker, arch: (SM_90, ""))
    assert history.bisect(f"{good}..HEAD", "--device=software") == 0
    said = capsys.readouterr().out
    assert f"{CASE}: 3 commits, 3 of which may do other work\n" in said
    assert said.count(" Ada: ") == 1
    assert f"  {slow[:12]} " in said
    assert "      changed besides machine code: the source that prepares the call" in said


@pytest.mark.slow
def test_commits_whose_call_fails_are_left_out(
    history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = history.commit("The call")
    halves = ("ctypes.c_size_t(A.nbytes)", "ctypes.c_size_t(A.nbytes // 2)")
    wrong = history.commit("Wrong", halves)
    history.commit("Right and slow", halves[::-1], (COPY, TIMES))
    monkeypatch.setattr(bisect, "_target", lambda worker, arch: (SM_90, ""))
    assert history.bisect(f"{good}..HEAD", "--device=software") == 0
    said = capsys.readouterr().out
    assert f"  {wrong[:12]} cannot be measured: " in said
    assert "is wrong in 2,048 of 4,096 elements" in said
    assert f"or one of the commits before it that cannot be measured: {wrong[:12]}" in said


def walked(history: History, span: str) -> CaseHistory:
    commits = list_commits(span, history.folder, first_parent=True)
    (one,) = build_all(history.project, [gpu_case(history.project, CASE, "bisect")], commits, SM_90)
    return one


def test_each_commit_of_a_call_may_launch_other_kernels_unless_a_library_has_them(history: History) -> None:
    history.commit("The call")
    history.commit("Words")
    history.commit("A better way", (COPY, TIMES))
    assert [len(each.commits) for each in walked(history, "HEAD~2..HEAD").stretches] == [1, 1, 1]
    path = history.folder / "mine" / "__init__.py"
    path.write_text(path.read_text().replace("prepare=memcpy, ", "prepare=memcpy, needs=ww.Driver(), "))
    for name in ("mine", "mine.memcpy"):
        sys.modules.pop(name, None)
    history.commit("It needs the driver alone")
    history.commit("More words")
    assert [len(each.commits) for each in walked(history, "HEAD~1..HEAD").stretches] == [2]


def test_a_pair_that_launches_the_same_machine_code_needs_no_samples(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.commit("The call")
    history.commit("Words")

    def take(pair: Pair, process: int) -> None:
        assert pair.same_source
        raise SameWork

    monkeypatch.setattr(Pair, "take", take)
    worker = Worker(history.project, Settings())
    for name in ("renew", "open_spares", "await_spares"):
        monkeypatch.setattr(worker, name, lambda *given: None)
    (decision,) = bisect.measure(walked(history, "HEAD~1..HEAD"), worker, [(0, 1)], cold=True).values()
    assert isinstance(decision, Decision)
    assert decision.verdict == Verdict.IDENTICAL


def test_what_both_sides_of_a_step_launch_explains_it(
    history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    history.commit("The call")
    history.commit("A better way", (COPY, TIMES))

    def measure(found: CaseHistory, worker: Any, ranges: Sequence[Range], *, cold: bool) -> dict[Range, Decision]:
        found.launched.update({0: launched(), 1: launched(registers=32, local_bytes=48, code="b2")})
        decision = Decision(verdict=Verdict.SLOWER, ratio=1.5, low=1.4, high=1.6, before=1e-6, after=2e-6)
        return dict.fromkeys(ranges, decision)

    monkeypatch.setattr(bisect, "measure", measure)
    monkeypatch.setattr(bisect, "_target", lambda worker, arch: (SM_90, ""))
    assert history.bisect("HEAD~1..HEAD") == 0
    said = capsys.readouterr().out
    assert "      likely cause: registers are spilled: local memory of a thread 0 -> 48 bytes" in said
    assert "add: other machine code" in said


def test_without_a_gpu_a_call_is_not_looked_at(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    history.commit("The call")
    history.commit("A better way", (COPY, TIMES))
    assert history.bisect("HEAD~1..HEAD", "--device=software") == 1
    assert "what a call launches is seen on a GPU alone\n" in capsys.readouterr().out


def test_a_range_that_begins_before_the_call_has_nothing_to_compare(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = history.folder / "mine" / "__init__.py"
    text = declared.read_text()
    declared.write_text(text.replace('"memcpy", "the', '"other", "the'))
    before = history.commit("A call by another name")
    declared.write_text(text)
    history.commit("The call")
    assert history.bisect(f"{before}..HEAD", "--device=software") == 1
    said = capsys.readouterr().out
    assert f"such as {before[:12]}: it does not have this case\n" in said
    assert "no commit that can be used changed what its declarations say, so there are no two versions to" in said


def test_a_commit_whose_declarations_cannot_be_read_is_named_once(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    good = history.commit("The call")
    words = ('"""Calls the driver', 'raise RuntimeError("""Calls the driver')
    wrong = history.commit("Broken", words)
    history.commit("Mended", words[::-1])
    assert history.bisect(f"{good}..HEAD", "--device=software") == 1
    assert f"such as {wrong[:12]}: its declarations cannot be read by this code (" in capsys.readouterr().out


# explain


def facts(words: str = "add, grid 32x1x1", **figures: Any) -> dict[str, Any]:
    return {"launches": [words], "kernels": [KERNEL | {"registers": 64} | figures]}


def launched(**figures: Any) -> Launched:
    return Launched.of(facts(**figures))


def explained(history: History, file: JsonFile | None = None) -> int:
    return explain.run(history.project, **arguments("explain", CASE, "--against", "HEAD") | {"json": file})


def test_without_a_gpu_what_is_declared_of_a_call_is_compared(
    history: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    history.commit("The call")
    edit(history.folder, COPY, TIMES)
    monkeypatch.setattr(explain, "_gpu", lambda project: None)
    assert explained(history) == 0
    said = capsys.readouterr().out
    assert "\nchanged besides machine code: the source that prepares the call" in said
    assert f"\n  {NOT_SEEN}\n  {explain.NOT_SEEN_OF_CALLS}\n" in said


@pytest.mark.parametrize(
    ("new", "shown"),
    [
        (facts(registers=32, code="b2"), ["registers 64 32", "machine code a1 b2"]),
        (facts("add, grid 64x1x1", grid=(64, 1, 1)), ["grid 32x1x1 64x1x1"]),
        (facts("sub, grid 32x1x1", name="sub"), ["launches 1 0", "launches 0 1", "registers 64"]),
        (facts(), []),
    ],
)
def test_all_that_is_known_of_launches_is_shown(
    history: History,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    new: dict[str, Any],
    shown: list[str],
) -> None:
    history.commit("The call")
    taken = PairSamples(old=(1e-5, 1e-5), new=(2e-5, 2e-5), beside={"host_seconds": ((3e-6,), (4e-6,))}, facts=new)
    monkeypatch.setattr(explain, "_gpu", lambda project: INFO)
    monkeypatch.setattr(explain, "_measure_call", lambda *given: (taken, launched()))
    file = JsonFile()
    assert explained(history, file) == 0
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "time, µs 10.00 20.00 2.00" in said
    assert "host's time of a launch, µs 3.00 4.00 1.33" in said
    assert [each for each in shown if each in said] == shown
    assert (SAME_LAUNCHES in said) == (not shown)
    figures = [figure.name for figure in file.causes[CASE].figures]
    assert figures[-2:] == ["time, µs", "host's time of a launch, µs"]
    assert (len(figures) > 2) == bool(shown)


@pytest.mark.slow
def test_both_sides_take_turns_in_processes_of_their_own(history: History) -> None:
    commit = history.commit("The call")
    edit(history.folder, COPY, TIMES)
    case = gpu_case(history.project, CASE, "explain")
    built = explain._built(history.project, CASE, commit, "HEAD", SM_90)
    taken, before = explain._measure_call(history.project, case, built, Settings(kind="software"))
    assert median(taken.new) > 2 * median(taken.old)
    assert len(taken.beside["host_seconds"]) == 2
    assert before == Launched(), "no CUPTI"


@pytest.mark.parametrize(("error", "raised"), [(OtherSideFailed, BadRevision), (WrongResult, DeviceError)])
def test_a_side_that_fails_is_a_sentence(
    history: History, monkeypatch: pytest.MonkeyPatch, error: type[Exception], raised: type[Exception]
) -> None:
    history.commit("The call")

    def fail(pair: Pair, process: int) -> None:
        raise error("it is wrong")

    monkeypatch.setattr(explain, "_gpu", lambda project: INFO)
    monkeypatch.setattr(Pair, "take", fail)
    with pytest.raises(raised, match="it is wrong"):
        explained(history)
