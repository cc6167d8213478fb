"""Tests the commands with ids, expressions and terminals that they were not made for."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import FAMILIES
from tests.fork_server import run_module
from tests.project import ROOT
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.names import BadCase, unknown_word
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli.main import COMMANDS, WITHOUT_PROJECT, main
from warpwatch.cli.options import INTERRUPTED, selector
from warpwatch.runs.files import run_files

BASELINE = ROOT / "bench" / "baselines" / "nvidia-h200"
RUNS = run_files(BASELINE)[:1]
NAIVE = "matmul-naive-16x16-5x5x5-float32"


def command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_module([*map(str, arguments)], ROOT, os.environ | environment, seconds=60)


@pytest.mark.parametrize(
    ("case_id", "message"),
    [
        ("copy-naive-99999999999999999999-4096-float32", "block 99999999999999999999 has a size above 1,073,741,824"),
        ("copy-naive-256-99999999999999999999-float32", "n = 99999999999999999999 is not in 1..1,073,741,824"),
        ("copy-naive-256--1-float32", "n = -1 is not in 1..1,073,741,824"),
        ("copy-naive--1-4096-float32", "is not a case id"),
        ("copy-naive-256-٣-float32", "is not a case id"),
        ("matmul-naive-16x16-5x5x5-float３２", "is not a case id"),
        ("matmul-naive-16x16-5x5_0x5-float32", "shape '5x5_0x5' is not of the form 16x16"),
        ("matmul-naive-16x16-5xx5-float32", "shape '5xx5' is not of the form 16x16"),
        ("matmul-naive-016x16-5x5x5-float32", f"is written {NAIVE}"),
        ("matmul-naive-16x16-05x5x5-float32", f"is written {NAIVE}"),
        ("matmul-naive-16x16-5x5x-0-float32", "k = 0 is not in"),
        ("Matmul-naive-16x16-5x5x5-float32", "no family is named 'Matmul'; did you mean matmul?"),
        (
            "matmul-register_tile-1x1-5x5x5-float32",
            "block 1x1 is too small for register_tile: it would have no",
        ),
        ("copy-vectorised-15-5-float32", "block 15 is too small for vectorised: it would have no threads"),
        ("hello-hello-5x5-1000000000-none", "blocks = 1000000000 is more than the 10,000 that may print"),
        (f"matmul-naive-{'9' * 5000}x1-5x5x5-float32", "is not a case id: it has 5,029 characters"),
        ("copy-" + "9" * 10**6, "is not a case id: it has 1,000,005 characters"),
        ("-" * 199, "is not a case id"),
        ("copy-naive-256-4096-float32\n", "is not a case id"),
        ("", "'' is not a case id"),
    ],
)
def test_an_id_that_no_case_has_is_one_sentence(case_id: str, message: str) -> None:
    with pytest.raises(BadCase) as caught:
        find_case(FAMILIES, case_id)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "copy-naive-99999999999999999999-4096-float32"),
        ("run", "copy-naive-256-٣-float32"),
        ("run", "copy-naive-256-33-float32", "--seed", "-1"),
        ("run", "copy-naive-256-33-float32", "--launch-timeout", "nan"),
        ("list", "-k", "copy (naive)"),
        ("list", "-k", "not " * 10_000 + "copy"),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_the_command_says_it_in_a_sentence(arguments: tuple[str, ...]) -> None:
    done = command("warpwatch", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "error: " in done.stderr
    assert len(done.stderr.splitlines()[-1]) < 300


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lst",), "there is no `warpwatch lst`; did you mean list?"),
        (("baseline", "promte"), "there is no `warpwatch baseline promte`; did you mean promote?"),
        (("judge", "corectness"), "there is no `warpwatch judge corectness`; did you mean correctness?"),
        (("report", "--htlm", "x"), "unrecognized arguments: --htlm; did you mean --html?"),
        (
            ("run", "--all", "--device", "sofware"),
            "is not one of auto, gpu, software; did you mean software?",
        ),
        (("zzz",), "there is no `warpwatch zzz`; there are: init, setup, list, run"),
    ],
)
def test_what_is_misspelt_is_answered_by_the_nearest_name(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["warpwatch", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "listed"), [((), "init "), (("baseline",), "promote ")])
def test_without_a_command_it_helps(
    arguments: tuple[str, ...], listed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["warpwatch", *arguments])
    assert main() == 0
    printed = capsys.readouterr().out
    assert f"    {listed}" in printed
    assert "``" not in printed


def test_ctrl_c_ends_a_command_in_a_word(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**given: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["warpwatch", "thin", "."])
    monkeypatch.setattr(importlib.import_module("warpwatch.cli.thin"), "run", interrupt)
    assert main() == INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


def test_a_misspelt_word_of_an_expression_is_answered_by_the_nearest_part_of_an_id() -> None:
    ids = [NAIVE, "copy-naive-256-33-float32"]
    assert unknown_word("matmul and not nave", ids) == "; no case has 'nave' in its id: did you mean naive?"
    assert unknown_word("copy and 33", ids) == unknown_word("zzz", ids) == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_each_subcommand_has_a_module_that_takes_its_arguments(name: str) -> None:
    module = importlib.import_module(f"warpwatch.cli.{re.sub('[ -]', '_', name)}")
    module.add_arguments(parser := argparse.ArgumentParser())
    names = {action.dest for action in parser._actions} - {"help"}
    assert inspect.signature(module.run).parameters.keys() - {"project"} == names
    assert ("project" in inspect.signature(module.run).parameters) is (name not in WITHOUT_PROJECT)


def test_a_command_line_imports_its_own_subcommand_alone() -> None:
    code = "import sys; sys.argv = ['warpwatch', 'list', '-k', 'none']; from warpwatch.cli.main import main; main()\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "print(*sys.modules)"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert "scipy" not in modules
    assert {each for each in modules if each.startswith("warpwatch.cli.")} == {
        f"warpwatch.cli.{each}" for each in ("list", "main", "options")
    }


# -k


@pytest.mark.parametrize(
    ("expression", "name", "matched"),
    [
        ("", "copy-naive-256-33-float32", True),
        ("  ", "copy-naive-256-33-float32", True),
        ("COPY and Naive", "copy-naive-256-33-float32", True),
        ("copy and not naive", "copy-naive-256-33-float32", False),
        ("(copy or matmul) and not (naive and float64)", "copy-naive-256-33-float32", True),
        ("256-33", "copy-naive-256-33-float32", True),
        ("true", "copy-naive-256-33-float32", False),
        ("andy", "copy-naive-256-33-float32", False),
    ],
)
def test_an_expression_means_what_it_means_to_pytest(expression: str, name: str, matched: bool) -> None:
    assert selector(expression)(name) is matched


@pytest.mark.slow
def test_the_same_cases_are_listed_as_pytest_collects() -> None:
    expression = "transpose and (Tiled or PADDED) and not 32x and 2048"
    done = command("pytest", "bench", "--collect-only", "-q", "-k", expression)
    collected = [line.split("[")[1].rstrip("]") for line in done.stdout.splitlines() if "::" in line]
    matches = selector(expression)
    assert collected == [case.id for case in timed_cases(FAMILIES) if matches(case.id)] != []


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("copy (naive)", "-k 'copy (naive)' is not an expression of words, and, or, not and brackets: "),
        ("copy and", "-k 'copy and' is not an expression"),
        ("copy=1", "-k 'copy=1' is not an expression"),
        ("copy(n=1)", "-k 'copy(n=1)': copy(...) is for pytest's -m; -k takes words without brackets"),
        ("__import__('os')", "is not an expression"),
        ("copy # naive", "and brackets: unexpected character '#'"),
        ("copy 'naive'", "and brackets: unexpected character"),
        ("()", "is not an expression"),
        ("copy) or (naive", "is not an expression"),
        ("copy naive", "and brackets: a word, an operator or a bracket is missing"),
        ("copy, naive", "is not an expression"),
        ("not " * 10_000 + "copy", "is nested too deeply: write it with fewer brackets or nots"),
        ("(" * 100_000, "is nested too deeply"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_no_expression_is_one_sentence(expression: str, message: str) -> None:
    with pytest.raises(BadCase) as caught:
        selector(expression)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


# Output

PRINTING = [
    ("warpwatch", "list"),
    ("warpwatch", "list", "-k", "nothing-has-this-name or copy"),
    ("warpwatch", "report", *RUNS),
    ("warpwatch", "ladder", *RUNS),
    ("warpwatch", "history", "--runs", BASELINE, "matmul-tiled-16x16-128x128x128-float32"),
]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("arguments", PRINTING, ids=lambda arguments: " ".join(map(str, arguments[:2])))
def test_a_reader_that_goes_away_ends_the_command_as_it_ends_others(arguments: tuple[str, ...]) -> None:
    """The command ends by SIGPIPE and prints nothing, as other programs do in ``| head``."""
    reading, writing = os.pipe()
    os.close(reading)
    started = [sys.executable, "-m", *map(str, arguments)]
    with subprocess.Popen(started, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True) as process:
        os.close(writing)
        _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGPIPE
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("arguments", PRINTING, ids=lambda arguments: " ".join(map(str, arguments[:2])))
def test_a_terminal_without_micro_signs_gets_plainer_ones(arguments: tuple[str, ...]) -> None:
    done = command(*arguments, LC_ALL="C", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    wanted = command(*arguments, PYTHONIOENCODING="utf-8")
    assert done.stdout == wanted.stdout.replace("µ", "u").replace("×", "x").replace("–", "-")


def test_a_case_by_hand_fits_an_ascii_terminal() -> None:
    done = command("warpwatch", "run", "copy-serial-host-33-float32", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert " us, " in done.stdout


def test_a_command_without_any_output_runs() -> None:
    code = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'warpwatch', 'list'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
