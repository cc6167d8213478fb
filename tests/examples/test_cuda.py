"""Tests examples/cuda: mistakes planted in its kernels are found. That they are right tests/test_wheel.py tests."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.examples.faults import MISSING_BARRIERS, SLOWDOWNS, WRONG_BLOCK_COUNTS, WRONG_INDICES, Edit
from tests.fork_server import run_module
from tests.project import ROOT
from tests.stranger import PYTEST, environment

EXAMPLE = ROOT / "examples" / "cuda"
FAMILIES = 10
LINES = 25  # of a declaration, at most
RUN = (*PYTEST, "-p", "no:hypothesispytest", "tests", "-q", "-rfE", "--tb=no")
# One configuration and one element type of each kernel, without the largest arrays: the mistakes show in those too.
FEW = "not 512 and not micro8 and not 64x4x2 and not float16 and not float64 and not 2500001"


def rounds(edits: Iterable[Edit]) -> list[list[Edit]]:
    """Divide edits into as few rounds as may be, so that each kernel of a round has one mistake and no other.

    A header belongs to several kernels, so its edits have rounds of their own.
    """
    made: list[list[Edit]] = []
    for edit in edits:
        for others in made:
            same = {(other.file, other.old) for other in others}
            header = any(file.endswith(".cuh") for file in (edit.file, *(other.file for other in others)))
            if all(other.kernel != edit.kernel for other in others) and (not header or same == {(edit.file, edit.old)}):
                others.append(edit)
                break
        else:
            made.append([edit])
    return made


def copy_with(folder: Path, edits: Iterable[Edit]) -> Path:
    """Copy the example to a folder, with these edits made."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    for file, old, new in dict.fromkeys((edit.file, edit.old, edit.new) for edit in edits):  # a header's are shared
        text = (folder / file).read_text()
        assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times"
        (folder / file).write_text(text.replace(old, new))
    return folder


def run_tests(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the example's own tests on the software device."""
    command = (*RUN, "--device", "software", *args)
    return run_module(command, folder, environment(), seconds=600, imports_from_folder=False)


def families() -> list[ast.Call]:
    """Find the calls of ww.Family in the example's declarations."""
    trees = [ast.parse(path.read_text()) for path in sorted((EXAMPLE / "perf").glob("*.py"))]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) == "ww.Family"]


def test_no_declaration_is_longer_than_25_lines() -> None:
    lengths = {ast.unparse(call.args[0]): (call.end_lineno or 0) - call.lineno + 1 for call in families()}
    assert len(lengths) == FAMILIES
    assert {name: lines for name, lines in lengths.items() if lines > LINES} == {}


KINDS = [rounds(MISSING_BARRIERS), rounds(WRONG_INDICES), rounds(WRONG_BLOCK_COUNTS)]
# A round takes up to a minute, so that `make test` plants one of barriers and one of block counts; EXAMPLES=all plants
# every mistake, and the slowdowns.
ALL = os.environ.get("EXAMPLES") == "all"
MISTAKES = [edits for kind in KINDS for edits in kind] if ALL else [KINDS[0][0], KINDS[2][0]]


@pytest.mark.slow
@pytest.mark.parametrize("edits", MISTAKES, ids=lambda edits: f"{edits[0].kernel}-{edits[0].what}".replace(" ", "_"))
def test_every_planted_mistake_is_found(tmp_path: Path, edits: list[Edit]) -> None:
    chosen = " or ".join(f"{edit.kernel}-" for edit in edits)
    done = run_tests(copy_with(tmp_path / "cuda", edits), "-k", f"({chosen}) and {FEW}")
    found = set(re.findall(r"^(?:FAILED|ERROR) \S*\[(\w+-\w+)-", done.stdout, re.MULTILINE))
    assert found == {edit.kernel for edit in edits}, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("edits", [SLOWDOWNS] if ALL else [SLOWDOWNS[:3]], ids=["slowdowns"])
def test_planted_slowdowns_leave_every_kernel_right(tmp_path: Path, edits: Sequence[Edit]) -> None:
    chosen = " or ".join(f"{edit.kernel}-" for edit in edits)
    done = run_tests(copy_with(tmp_path / "cuda", edits), "-k", chosen if ALL else f"({chosen}) and {FEW}")
    assert done.returncode == 0, done.stdout + done.stderr
