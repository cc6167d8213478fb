"""Tests --warpwatch-sarif in another repository: a planted fault is in the file, and an unwritable file is an error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.stranger import declare, run_pytest

TEST = "import pytest\n\n@pytest.mark.cases('tested')\ndef test_one(check):\n    check()\n"
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")


def results(folder: Path, *args: str) -> list[Any]:
    done = run_pytest(folder, "--device=software", "--sarif=faults.sarif", "-k", "naive-256 and float32", *args)
    assert "faults.sarif" in done.stdout, done.stdout + done.stderr
    (run,) = json.loads((folder / "faults.sarif").read_text())["runs"]
    found: list[Any] = run["results"]
    return found


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_planted_fault_is_in_the_file_and_gone_when_it_is_mended(tmp_path: Path, workers: str) -> None:
    source = declare(tmp_path) / "naive.cu"
    (tmp_path / "test_one.py").write_text(TEST)
    text = source.read_text()
    assert "if (i < n)" in text
    source.write_text(text.replace("if (i < n)", "if (i <= n)"))
    (fault,) = results(tmp_path, workers)
    line = 1 + text[: text.index("if (i < n)")].count("\n")
    (place,) = fault["locations"]
    assert fault["ruleId"] == "out-of-bounds"
    assert place["physicalLocation"]["artifactLocation"] == {"uri": "mine/naive.cu"}
    assert 0 <= place["physicalLocation"]["region"]["startLine"] - line <= 1
    source.write_text(text)
    assert results(tmp_path, workers) == []


def test_a_file_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(TEST)
    (tmp_path / "faults").mkdir()
    done = run_pytest(tmp_path, "--device=software", "--sarif=faults")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "cannot be written" in done.stderr
    assert "give another --warpwatch-sarif=FILE" in done.stderr
    assert "passed" not in done.stdout


@pytest.mark.parametrize(
    ("selected", "why"),
    [("naive-256 and float32", "no test ran"), ("zzz", "no test ran"), ("stops", "the run was cut short")],
)
def test_nothing_tested_is_no_file_without_faults(tmp_path: Path, selected: str, why: str) -> None:
    declare(tmp_path)
    stops = "def test_a_passes_and_stops(): pass\n\ndef test_b_stops(): pytest.exit('enough', 2)\n"
    (tmp_path / "test_one.py").write_text(f"{TEST}\n{stops}")
    done = run_pytest(tmp_path, "--device=none", "--sarif=faults.sarif", "-k", selected)
    assert done.returncode != 0, done.stdout
    assert f"faults.sarif is not written, because {why}" in done.stdout
    assert not (tmp_path / "faults.sarif").exists()
