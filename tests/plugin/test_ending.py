"""Tests what a benchmark run prints at its end: little by default, everything with -v, and what to do next."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.checkout import FEW, Bench
from tests.fake_gpu import INFO
from tests.project import PROJECT
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.comparison import CALL
from warpwatch.compare.pairs import PairComparison
from warpwatch.compare.with_baseline import BaselineComparison
from warpwatch.compare.with_revision import RevisionComparison
from warpwatch.explain.explanation import SAME_LAUNCHES
from warpwatch.plugin import ending
from warpwatch.plugin.benchmark import Progress
from warpwatch.plugin.ending import TOO_MANY, Ending
from warpwatch.runs.launched import Launched
from warpwatch.runs.record import RunRecord
from warpwatch.timing.measurement import Measured
from warpwatch.verdict.rule import Decision, Verdict

TABLE = "Name (time in us)"
MANY = ("-k", "matmul and float32 and not host and not vendor and (128x128x128 or 256x256x256)")


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A checkout without a baseline."""
    return Bench(tmp_path_factory.mktemp("unknown"))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A checkout with a baseline of seventeen cases."""
    checkout = Bench(tmp_path_factory.mktemp("judged"))
    checkout.fill_baseline()
    return checkout


@pytest.mark.slow
def test_few_cases_have_a_table_and_a_new_gpu_the_command_for_its_baseline(unknown: Bench) -> None:
    done = unknown.bench()
    assert done.returncode == 0
    assert TABLE in done.stdout
    said = "there is no baseline for fake-gpu-1 yet; `python -m warpwatch baseline record` makes one\n"
    assert said in done.stdout
    assert "times of" not in done.stdout


@pytest.mark.slow
def test_many_cases_have_a_line_that_says_where_their_times_are(unknown: Bench) -> None:
    done = unknown.bench(*MANY, few=False)
    assert TABLE not in done.stdout
    (count, command) = re.findall(
        r"^times of (\d+) cases: (python -m warpwatch report .+); a run with -v", done.stdout, re.M
    )[0]
    assert int(count) > 20
    assert Path(unknown.folder, shlex.split(command)[-1]).is_file()  # a path with a blank is quoted


@pytest.mark.once
@pytest.mark.parametrize("option", ["-vv", "--benchmark-columns=median", "--benchmark-sort=name"])
def test_tables_are_printed_where_they_are_asked_for(unknown: Bench, option: str) -> None:
    done = unknown.bench(*MANY, option, few=False)
    assert TABLE in done.stdout
    assert "times of" not in done.stdout


@pytest.mark.slow
def test_verdicts_have_twenty_lines_each_and_all_with_v(unknown: Bench) -> None:
    play = {"slower": {"matmul": 1.1}, "throttle": ["hardware slowdown"]}
    done = unknown.bench("--against", "HEAD", *MANY, few=False, **play)
    listed = re.findall(r"^matmul-\S+: unsure: .*$", done.stdout, re.M)
    assert len(listed) == 20
    html = r"^every verdict of this run: python -m warpwatch report \S.*\.json'? --html FOLDER$"
    assert re.search(html, done.stdout, re.M)
    ((more, file),) = re.findall(r"^\.\.\. and (\d+) more unsure: (.+) has all$", done.stdout, re.M)
    rest = Path(unknown.folder, file).read_text().splitlines()
    assert sum(": unsure: " in line for line in rest) == 20 + int(more)
    assert set(listed) <= set(rest)
    every = unknown.bench("--against", "HEAD", *MANY, "-vv", few=False, **play)
    assert len(re.findall(r"^matmul-\S+: unsure: .*$", every.stdout, re.M)) == 20 + int(more)


@pytest.mark.slow
def test_what_to_do_next_is_one_line(unknown: Bench, judged: Bench) -> None:
    slower = {"matmul-naive-8x8": 1.1, "matmul-naive-16x16": 1.2}
    worst = "matmul-naive-16x16-128x128x128-float32"
    done = unknown.bench("--against", "HEAD", slower=slower)
    assert re.findall(r"^next: .*$", done.stdout, re.M) == [f"next: python -m warpwatch explain {worst} --against HEAD"]
    done = judged.bench("--benchmark-compare", slower=slower)
    (line,) = re.findall(r"^next: .*$", done.stdout, re.M)
    assert re.fullmatch(rf"next: python -m warpwatch explain {worst} --against [0-9a-f]{{12}}", line)
    assert "there is no baseline" not in done.stdout
    done = judged.bench("--benchmark-compare", wrong=["matmul-naive-8x8"])
    (line,) = re.findall(r"^next: .*$", done.stdout, re.M)
    assert line == "next: mend what is wrong; python -m warpwatch run matmul-naive-8x8-128x128x128-float32"


class Lines:
    """A reporter of pytest that keeps its lines."""

    verbosity, isatty = 0, False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def ensure_newline(self) -> None:
        """End the line of dots."""
        self.lines.append("")

    def write_line(self, text: str) -> None:
        self.lines.append(text)


def test_between_dots_the_time_left_is_told_every_ten_seconds() -> None:
    lines, now = Lines(), [0.0]
    progress = Progress(cast(pytest.TerminalReporter, lines), lambda: now[0])
    for done in range(1, 41):
        now[0] += 1.0
        progress("timing", done, 40, between_dots=True)
    assert [line for line in lines.lines if line] == ["timing: 12 of 40, 0:25 left", "timing: 23 of 40, 0:16 left",
                                                      "timing: 34 of 40, 0:05 left"]  # fmt: skip


@pytest.mark.slow
def test_a_run_without_a_comparison_tells_it_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "checkout")
    with (bench.folder / "conftest.py").open("a") as file:
        file.write("\nfrom warpwatch.plugin import benchmark\nbenchmark.SECONDS = 0\n")
    done = bench._run(sys.executable, "-m", "pytest", "bench", "-p", "tests.fake_gpu", "-k", FEW)
    assert "timing: 9 of 17, 0:00 left\n" in done.stdout


def test_more_slower_cases_than_are_explained_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [case.id for case in timed_cases(PROJECT.families) if not case.variant.on_host][:3]
    slower = [Decision(verdict=Verdict.SLOWER, ratio=1.1 + number) for number in range(3)]
    kernel: Any = None
    measured = {n: Measured(kernel=kernel, case=find_case(PROJECT.families, n), kind="cold") for n in names}
    decisions = dict(zip(names, slower, strict=True))
    comparison = BaselineComparison(runs=[RunRecord(path=Path("0.json"))], measured=measured, decisions=decisions)
    monkeypatch.setattr(ending, "EXPLAINED", 2)
    run: Any = SimpleNamespace(config=None, comparison=comparison, device=INFO, project=PROJECT)
    Ending(run).explain(lambda done, total: None)
    said = [comparison.decisions[name].explanation for name in names]
    assert said == [TOO_MANY, *["not explained: no run of the baseline names a clean commit that it was made of"] * 2]


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (
            {"registers": 32, "local_bytes": 48, "code": "b2"},
            "likely cause: registers are spilled: local memory of a thread 0 -> 48 bytes, with 64 -> 32 registers; "
            "add: other machine code, registers 64 -> 32, bytes of local memory of a thread 0 -> 48",
        ),
        ({"code": "b2"}, "add: other machine code"),
        ({}, SAME_LAUNCHES),
        ({"code": ""}, f"not explained: {CALL}"),
    ],
)
def test_a_slower_call_is_explained_by_what_it_launches(new: dict[str, Any], said: str) -> None:
    name = next(case.id for case in timed_cases(PROJECT.families) if case.variant.call)
    kernel = {"name": "add", "grid": (32, 1, 1), "block": (128, 1, 1), "registers": 64, "code": "a1"}
    facts: dict[str, Any] = {"launches": ["add, grid 32x1x1"], "kernels": [kernel | new]}
    apart: Any = SimpleNamespace(launched={name: Launched.of({**facts, "kernels": [kernel]})})
    worker: Any = None
    measured = Measured(kernel=worker, case=find_case(PROJECT.families, name), kind="cold", facts=facts)
    decisions = {name: Decision(verdict=Verdict.SLOWER, ratio=1.1)}
    comparison: Any = RevisionComparison(
        revision="HEAD",
        commit="c" * 40,
        others={name: SimpleNamespace(call="it")},  # type: ignore[dict-item]
        images={},
        side_by_side=PairComparison(),
        apart=apart,
        measured={name: measured},
        decisions=decisions,
    )
    run: Any = SimpleNamespace(config=None, comparison=comparison, device=INFO, project=PROJECT)
    Ending(run).explain(lambda done, total: None)
    assert comparison.decisions[name].explanation == said
    assert comparison.next_step(name, "--against") == f"python -m warpwatch explain {name} --against HEAD"
    changes = comparison.old_launches(name).changes(Launched.of(facts))
    assert comparison._other_launches() == [f"changed in what is launched: {changes} ({name})"] * bool(changes)
    if "registers" in new:
        causes = comparison.explained[name].causes
        assert (causes[0].kernel, causes[0].rule, causes[0].likely) == ("add", "spills", True)


def concluded(monkeypatch: pytest.MonkeyPatch, *, option: str = "", **stats: list[object]) -> list[str]:
    """Return the last lines of a benchmark run of one case, which is compared with nothing."""
    monkeypatch.setattr(Ending, "_wants_tables", lambda self: True)
    monkeypatch.setattr(Ending, "_observed", lambda self, option: (0, ()))
    monkeypatch.setattr(ending, "value_of", lambda config, name: [])
    asked = SimpleNamespace(option=option, required=False, nothing="", advice=())
    comparison = BaselineComparison()
    config = SimpleNamespace(option=SimpleNamespace(collectonly=False))
    selected = {"a"} if option else set[str]()
    run = SimpleNamespace(comparison=comparison, asked=asked, selected=selected, missing=(), passed={}, config=config)
    own, session = Ending(cast("Any", run)), cast("Any", SimpleNamespace(exitstatus=pytest.ExitCode.OK))
    return own.conclude(session, pytest.ExitCode.OK, cast("Any", SimpleNamespace(stats=stats)))


def test_a_run_that_compared_nothing_says_so_last(monkeypatch: pytest.MonkeyPatch) -> None:
    (words,) = concluded(monkeypatch, option="--against", passed=[object()])
    assert words.startswith("NOTHING WAS COMPARED (--against): ")
    assert concluded(monkeypatch, passed=[object()]) == []


def test_a_run_whose_tests_were_all_skipped_says_so_last(monkeypatch: pytest.MonkeyPatch) -> None:
    (words,) = concluded(monkeypatch, skipped=[object(), object()])
    assert words.startswith("NOTHING WAS TESTED: all 2 tests were skipped")
    assert concluded(monkeypatch, skipped=[object()], passed=[object()]) == []


def test_a_remark_on_several_cases_is_a_line() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("a-1", {"remarks": ("is odd", "leaks")}),
        ("b-1", {}),
        ("b-2", {"remarks": ("is odd",)}),
    ]
    assert ending._remarks(cases) == ["a-1 and 1 more: is odd", "a-1: leaks"]
