"""Memory that two processes of the software device use, by cuIpcGetMemHandle and cuIpcOpenMemHandle."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.project import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE = 1, 201, 400


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """The answers of tests/softcuda/sharing.py, which starts a second process for each case."""
    command = [sys.executable, "-m", "tests.softcuda.sharing", "main"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def test_each_process_sees_what_the_others_kernel_writes(answers: dict[str, Any]) -> None:
    assert answers["both_write"] == [0, 40, "", 41, 42]


def test_the_end_of_an_array_is_known_where_it_was_opened(answers: dict[str, Any]) -> None:
    assert "out of bounds in add_one" in answers["out_of_bounds"]
    assert "just past the end of a (argument 1), 400 bytes" in answers["out_of_bounds"]


def test_who_has_it_open_keeps_memory_that_was_freed_and_nobody_else_gets_it(answers: dict[str, Any]) -> None:
    assert answers["freed_while_open"] == ["", 1, INVALID_HANDLE]


def test_a_handle_that_names_no_memory_is_invalid(answers: dict[str, Any]) -> None:
    assert answers["wrong_handles"] == [INVALID_HANDLE] * 4


def test_memory_is_closed_as_often_as_it_was_opened_and_never_freed(answers: dict[str, Any]) -> None:
    assert answers["opened_twice"] == [True, INVALID_VALUE, INVALID_VALUE, 0, 0, INVALID_VALUE]


def test_a_process_does_not_open_its_own_memory_or_without_the_flag(answers: dict[str, Any]) -> None:
    assert answers["in_the_same_process"] == [INVALID_CONTEXT, INVALID_VALUE]


def test_only_memory_of_cu_mem_alloc_has_a_handle(answers: dict[str, Any]) -> None:
    assert answers["without_a_handle"] == [INVALID_VALUE] * 4


def test_no_file_outlives_its_memory_or_the_next_process_that_shares_some(answers: dict[str, Any]) -> None:
    assert answers["files"] == [1, 1, 0]
