"""Tests of ``--json`` of subcommands, on the software device, and of the loop that docs/agents.md shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import stranger
from tests.cli.command import git
from tests.cli.test_watch import UNDER_WAY, Watching
from tests.project import ROOT
from tests.stranger import environment, made_by_init, run_command
from tests.test_docs import blocks
from warpwatch.cli import main
from warpwatch.cli.options import INTERRUPTED
from warpwatch.cli.run import UNPROVED
from warpwatch.report.document import COMMAND_ENDS, PYTEST_ENDS, CaseEntry, Document, End

CASE = "softmax-block_per_row-128-17x33-float32"
SOURCE = "perf/block_per_row.cu"
LAST = ("        y[row + i] = ", "        if (i < n - 1) y[row + i] = ")
BARRIER = ("        __syncthreads();  // the values of the step before are there\n", "")
SYNTAX = ("y[row + i] = ", "y[row + ] = ")
PAGE = ROOT / "docs" / "agents.md"
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = made_by_init(tmp_path / "mine")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a state")
    return folder


def edit(folder: Path, change: tuple[str, str]) -> None:
    text = (folder / SOURCE).read_text()
    assert change[0] in text
    (folder / SOURCE).write_text(text.replace(*change))


def run(folder: Path, *words: str, status: int) -> Any:
    """Run a subcommand with ``--json -``; returns its document, which alone is on the standard output."""
    done = run_command(folder, *words, "--json", "-")
    assert done.returncode == status, done.stdout + done.stderr
    msgspec.json.decode(done.stdout, type=Document)
    document = json.loads(done.stdout)
    assert document["exit_status"] == status
    shown = "\n".join(_strings(document))
    for line in done.stderr.splitlines():
        for fact in re.findall(r"[\w/]+\.cu:\d+|\b[a-z]+-\w+-[\dx]+-[\dx]+-\w+\b|\[\d+(?:, \d+)*\]", line):
            assert fact in shown or fact == CASE, f"{fact} of {line}"
    return document


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        place = [f"{value['file']}:{value['line']}"] if "line" in value else []
        return place + [text for each in value.values() for text in _strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    return [str(value)]


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        (LAST, 1, "wrong result"),
        pytest.param(BARRIER, 2, "uninitialised memory", marks=pytest.mark.slow),
        pytest.param(SYNTAX, 2, "compile error", marks=pytest.mark.slow),
    ],
    ids=["wrong", "racy", "broken"],
)
def test_a_case_that_is_run_has_its_fault(repository: Path, change: tuple[str, str], status: int, kind: str) -> None:
    words = ("run", CASE, "--device=software", "--seed", "1")
    document = run(repository, *words, status=0)
    assert (document["outcome"], document["cases"][0]["measured"]["samples"]) == ("passed", 11)
    assert UNPROVED in document["cases"][0]["remarks"]
    edit(repository, change)
    document = run(repository, *words, status=status)
    (case,) = document["cases"]
    assert (document["outcome"], case["outcome"], case["faults"][0]["kind"]) == ("failed", "failed", kind)
    assert case["faults"][0]["place"]["file"] == SOURCE
    assert case["again"] == f"python -m warpwatch run {CASE} --seed 1 --device software"


@pytest.mark.slow
def test_every_case_that_is_run_is_in_the_document(repository: Path) -> None:
    document = run(repository, "run", "--all", "--device=software", "-k", "17x33", status=0)
    assert [case["outcome"] for case in document["cases"]] == ["passed"] * 2
    document = run(repository, "run", "--all", "--device=software", "-k", "nothing", status=0)
    assert (document["outcome"], document["message"]) == ("nothing checked", "no case was run")


def test_what_is_refused_is_not_an_earlier_document(repository: Path) -> None:
    file = repository / "out.json"
    file.write_text('{"outcome": "passed"}')
    done = run_command(repository, "run", "softmax", "--json", str(file))
    document = json.loads(file.read_text())
    assert (done.returncode, document["outcome"]) == (2, "refused")
    assert document["message"] == done.stderr.strip().removeprefix("error: ")


@pytest.mark.once
@pytest.mark.parametrize(
    ("error", "outcome"),
    [(KeyboardInterrupt(), "interrupted"), (RuntimeError("odd"), "internal error"), (SystemExit(3), "internal error")],
)
def test_a_command_that_ends_early_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, outcome: str
) -> None:
    file, seen = tmp_path / "out.json", list[str]()

    def end(name: str, arguments: dict[str, Any]) -> int:
        seen.append(json.loads(file.read_text())["outcome"])
        raise error

    monkeypatch.setattr(main, "_run", end)
    monkeypatch.setattr(sys, "argv", ["warpwatch", "run", CASE, "--json", str(file)])
    if isinstance(error, KeyboardInterrupt):
        assert main.main() == INTERRUPTED
    else:
        with pytest.raises(type(error)):
            main.main()
    assert [*seen, json.loads(file.read_text())["outcome"]] == ["unfinished", outcome]


@pytest.mark.slow
def test_watch_has_the_tests_of_what_differs_and_what_was_not_checked(repository: Path) -> None:
    words = ("watch", "--once", "--device=software", "-k", "128-17x33")
    document = run(repository, *words, status=0)
    assert (document["outcome"], document["cases"]) == ("nothing checked", [])
    assert document["message"] == "nothing that kernels are made of differs from HEAD"
    edit(repository, ("    scalar_t sum = 0;", "    scalar_t sum = 0;  // of exponentials"))
    document = run(repository, *words, status=0)
    assert (document["outcome"], {case["outcome"] for case in document["cases"]}) == ("passed", {"passed"})
    assert any(each["reason"].startswith("times not taken: ") for each in document["not_checked"])
    edit(repository, SYNTAX)
    document = run(repository, *words, status=1)
    (build,) = document["cases"]
    assert (document["outcome"], build["id"]) == ("failed", "softmax-block_per_row-128-float32")
    assert build["faults"][0]["place"]["line"] == 43
    (repository / "perf" / "__init__.py").write_text("import nothing_of_that_name\n")
    document = run(repository, *words, status=1)
    assert document["outcome"] == "nothing checked"
    assert "nothing_of_that_name" in document["message"]


@pytest.mark.slow
def test_bisect_and_explain_have_causes_with_figures_of_both_sides(repository: Path) -> None:
    case = CASE.replace("17x33", "256x1024")
    edit(repository, (" / sum;", " * (1 / sum);"))
    git(repository, "commit", "-q", "-a", "-m", "Multiply")
    head = git(repository, "rev-parse", "HEAD")
    document = run(repository, "explain", case, "--against", "HEAD~1", status=0)
    (entry,) = document["cases"]
    assert (document["outcome"], document["against"]) == ("done", git(repository, "rev-parse", "HEAD~1"))
    assert any("fewer divisions" in cause["sentence"] for cause in entry["cause"]["causes"])
    assert {(row["kernel"], bool(row["old"])) for row in entry["cause"]["figures"]} == {("softmax_block_per_row", True)}
    document = run(repository, "bisect", case, "HEAD~1..HEAD", "--device=software", status=1)
    bisection = document["cases"][0]["bisection"]
    assert (bisection["commits"], bisection["codes"], bisection["note"]) == (2, 2, bisection["note"])
    assert bisection["note"].startswith("nothing was measured: ")
    (step,) = bisection["steps"]
    assert (step["commit"]["id"], step["commit"]["subject"], step["comparison"]) == (head, "Multiply", None)
    assert "fewer divisions" in step["cause"]["sentence"]


@pytest.mark.slow
def test_the_loop_of_the_page_prints_what_the_page_shows(repository: Path) -> None:
    (program,) = blocks(PAGE, "python")
    (shown,) = blocks(PAGE, "text")
    # Where Warpwatch is not installed pytest does not find the plugin by itself.
    own = environment() | {"PYTEST_ADDOPTS": "-p warpwatch.plugin"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=repository, env=own, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    without = [re.sub(r"(compile error: \S+) .*", r"\1", text) for text in (done.stdout, shown)]
    assert without[0] == without[1]  # but for the compiler's words


def test_the_page_names_every_outcome_and_every_key() -> None:
    text = PAGE.read_text()
    rows = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {*Document.__struct_fields__, *CaseEntry.__struct_fields__}
    assert {row for row in rows if "`" not in row} >= {str(end) for end in End}
    statuses = {cells[0].strip(): cells[2:] for line in text.splitlines() if (cells := line.strip("| ").split("|"))}
    for column, ends in enumerate((PYTEST_ENDS, COMMAND_ENDS)):
        for status, end in ends.items():
            if end != End.DONE or status:
                assert re.search(rf"\b{status}\b", statuses[str(end)][column]), (end, status)


def test_init_writes_a_page_for_programs_alone_and_leaves_one_that_is_there(tmp_path: Path) -> None:
    done = stranger.run_command(tmp_path, "init", "--agents", "--dry-run")
    assert (done.stdout, list(tmp_path.iterdir())) == ("would write AGENTS.md\n", [])
    assert stranger.run_command(tmp_path, "init", "--agents").stdout == "wrote AGENTS.md\n"
    assert [path.name for path in tmp_path.iterdir()] == ["AGENTS.md"]
    text = (tmp_path / "AGENTS.md").read_text()
    assert text.count("\n") <= 40
    known = {*Document.__struct_fields__, *CaseEntry.__struct_fields__}
    assert {*re.findall(r"`cases\[\]\.(\w+)", text), "outcome", "message", "not_checked"} <= known
    (tmp_path / "AGENTS.md").write_text("own")
    done = stranger.run_command(tmp_path, "init", "--agents")
    assert (tmp_path / "AGENTS.md").read_text() == "own"
    left, where = done.stdout.splitlines()
    assert left == "left AGENTS.md as it is"
    assert Path(where.split(" has the lines")[0]).read_text() == text


@pytest.mark.slow
def test_watch_writes_each_round_and_says_when_one_runs(repository: Path) -> None:
    file = repository / "out.json"
    watching = Watching(repository, "-k", "128-17x33", "--device", "software", "--json", str(file))

    def wait_for(outcome: str) -> None:
        limit = time.monotonic() + UNDER_WAY
        while json.loads(file.read_text())["outcome"] != outcome:
            assert time.monotonic() < limit
            time.sleep(0.02)

    try:
        watching.until("Ctrl-C ends it\n")
        wait_for("nothing checked")
        for change, outcome in ((LAST, "failed"), (LAST[::-1], "passed")):
            edit(repository, change)
            wait_for("unfinished")
            wait_for(outcome)
        watching.interrupt()
    finally:
        watching.process.kill()
    assert json.loads(file.read_text())["outcome"] == "interrupted"
