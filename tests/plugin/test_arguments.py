"""Tests that invalid values of options are refused with a sentence, by pytest and by `python -m warpwatch`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from tests.fork_server import run_module
from tests.project import ROOT
from tests.stranger import declare, run_pytest
from warpwatch.arguments import positive_integer, positive_seconds

COMMANDS = {
    "pytest": ("pytest", "correctness", "--device=none", "--collect-only", "-q", "-k", "nothing"),
    "warpwatch": ("warpwatch", "run", "copy-naive-64-1000-float32"),
}


@pytest.mark.parametrize("text", ["nan", "0", "-1", "inf", "-inf", "1e300", "86401", "ten", "", "1" * 400])
def test_a_time_limit_is_a_number_of_seconds_above_0(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of seconds above 0 and up to 86400"):
        positive_seconds(text)


def test_a_time_limit_may_be_short_or_a_day() -> None:
    assert [positive_seconds(text) for text in ("0.5", "10", "1e-3", "86400")] == [0.5, 10, 0.001, 86400]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "two", "", "²"])
def test_a_number_of_rounds_is_an_integer_above_0(text: str) -> None:
    assert positive_integer("12") == 12
    with pytest.raises(argparse.ArgumentTypeError, match="is not an integer above 0"):
        positive_integer(text)


def test_a_misspelt_option_and_a_misspelt_value_are_answered_by_the_nearest(tmp_path: Path) -> None:
    declare(tmp_path)
    for given, message in (
        ("--devce=software", "--devce is not an option; did you mean --device?"),
        ("--device=sofware", "'sofware' is not one of auto, gpu, software, none; did you mean software?"),
    ):
        done = run_pytest(tmp_path, given)
        assert done.returncode == pytest.ExitCode.USAGE_ERROR
        assert message in done.stderr


@pytest.mark.once
@pytest.mark.parametrize("command", COMMANDS)
def test_both_commands_refuse_it_in_one_line(command: str) -> None:
    done = run_module((*COMMANDS[command], "--launch-timeout=nan"), ROOT, os.environ, seconds=100)
    assert done.returncode in (2, 4)
    last = "argument --launch-timeout: 'nan' is not a number of seconds above 0 and up to 86400"
    assert last in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
