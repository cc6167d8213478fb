"""Tests --warpwatch-sarif in another repository: a planted fault is in the file, and an unwritable file is an error."""

from __future__ import annotations

import json
import re
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


@pytest.mark.once
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


@pytest.mark.once
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


def kinds(folder: Path, test: str, *args: str) -> list[tuple[str, str, str]]:
    """Run a test and return rule, file and message of each result."""
    (folder / "test_one.py").write_text(test)
    done = run_pytest(folder, "--device=software", "--sarif=faults.sarif", *args)
    assert done.returncode != 0, done.stdout
    (run,) = json.loads((folder / "faults.sarif").read_text())["runs"]
    assert all(result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1 for result in run["results"])
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    return [(r["ruleId"], uri, r["message"]["text"]) for r, uri in zip(run["results"], uris, strict=True)]


def test_a_wrong_result_is_in_the_file_at_its_kernel(tmp_path: Path) -> None:
    source = declare(tmp_path) / "naive.cu"
    text = source.read_text()
    source.write_text(text.replace("if (i < n)", "if (i < n - 1)"))
    ((rule, file, message),) = kinds(tmp_path, TEST, "-k", "naive-256 and float32")
    assert (rule, file) == ("wrong-result", "mine/naive.cu")
    assert re.search(r"copy-naive-256-\d+-float32 is wrong in 1 of \d+ elements; worst \w+\[\d+\] = ", message)


@pytest.mark.once
@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("import nothing_of_that_name\n", "nothing_of_that_name"),
        ("import pytest\n@pytest.fixture\ndef broken(): 1 / 0\n\ndef test_one(broken): pass\n", "ZeroDivisionError"),
        ("import os\ndef test_one(): os.kill(os.getpid(), 9)\n", "crashed"),
    ],
    ids=["collection", "fixture", "crash"],
)
def test_whatever_fails_is_in_the_file(tmp_path: Path, test: str, said: str) -> None:
    declare(tmp_path)
    ((rule, file, message),) = kinds(tmp_path, test, *(["-n1"] if said == "crashed" else []))
    assert (rule, file) == ("failed-test", "test_one.py")
    assert said in message
