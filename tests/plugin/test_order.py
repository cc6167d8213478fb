"""Tests the order in which tests run: those that only compile after the others, and exclusive ones last."""

from __future__ import annotations

from pathlib import Path

from tests.stranger import TABLE, declare, run_pytest

TESTS = """
import pytest

@pytest.mark.exclusive
def test_times(): pass

@pytest.mark.compiles_for("sm_80")
def test_compiles(): pass

def test_first(): pass

def test_second(): pass
"""


def test_what_compiles_comes_late_and_what_is_exclusive_last(tmp_path: Path) -> None:
    declare(tmp_path, TABLE)
    (tmp_path / "test_mine.py").write_text(TESTS)
    done = run_pytest(tmp_path, "test_mine.py", "--collect-only", "-q")
    collected = [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    assert collected == ["test_first", "test_second", "test_compiles", "test_times"], done.stdout + done.stderr
