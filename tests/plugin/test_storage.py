"""Tests that results which cannot be written are refused before anything is measured, or reported at the end."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.checkout import Bench
from warpwatch.plugin.storage import require_space


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A checkout with a baseline. Tests that share it do not change it."""
    checkout = Bench(tmp_path_factory.mktemp("judged"))
    checkout.fill_baseline()
    (checkout.folder / "a file").write_text("no folder\n")
    return checkout


@pytest.mark.once
@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--benchmark-storage=file://a file", "a file/fake-gpu-1/run.json cannot be written (Not a directory)"),
        ("--benchmark-storage=a file", "a file/fake-gpu-1/run.json cannot be written (Not a directory)"),
        ("--benchmark-storage=file:///proc/none", "/proc/none/fake-gpu-1/run.json cannot be written (No such file"),
        ("--benchmark-json=a file/out.json", "a file/out.json cannot be written (File exists)"),
        ("--benchmark-json=tests", "tests cannot be written (Is a directory)"),
        ("--junitxml=a file/results.xml", "a file/results.xml cannot be written (File exists)"),
        (
            "--benchmark-storage=http://somewhere",
            "--benchmark-storage=http://somewhere: give a folder, as FOLDER or file://FOLDER",
        ),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_measured(
    judged: Bench, option: str, name: str
) -> None:
    done = judged.bench("--benchmark-compare", option)
    assert done.returncode == 4
    assert name in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "passed" not in done.stdout


@pytest.mark.slow
def test_a_disk_without_space_for_the_run_is_refused_before_anything_is_measured(judged: Bench) -> None:
    done = judged.bench("--benchmark-compare", file_limit_at_start=20_000)
    assert done.returncode == 4
    assert re.search(r"ERROR: .*fake-gpu-1/run.json cannot be written \(File too large\): runs are saved", done.stderr)
    assert "passed" not in done.stdout
    assert not list((judged.folder / ".benchmarks").rglob("*.tmp"))


def test_a_disk_that_fills_up_meanwhile_costs_the_files_alone(judged: Bench) -> None:
    saved = judged.saved
    arguments = ("--benchmark-compare", "--junitxml=full.xml", "--benchmark-json=full.json")
    done = judged.bench(*arguments, seed=95, file_limit=20_000)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "17 same" in done.stdout
    assert "matmul-tiled-8x8-128x128x128-float32" in done.stdout  # of the table
    assert "--benchmark-json=full.json could not be saved: File too large" in done.stdout
    assert re.search(r"this run, in .*fake-gpu-1, could not be saved: File too large", done.stdout)
    assert ET.parse(judged.folder / "full.xml").getroot()[0].get("tests") == "17"
    assert judged.saved == saved
    assert not list((judged.folder / ".benchmarks").rglob("*.tmp"))


@pytest.mark.slow
def test_without_space_for_anything_there_is_still_a_verdict(judged: Bench) -> None:
    done = judged.bench(
        "--benchmark-compare", "--junitxml=none.xml", seed=94, file_limit=100, slower={"matmul-naive-8x8": 1.2}
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert "16 same, 1 unsure" in done.stdout
    assert "not by pairs: the baseline's commit " in done.stdout  # whose declarations need a file to be read
    assert re.search(r"--junitxml=.*none.xml could not be saved: File too large", done.stdout)
    assert "generated xml file" not in done.stdout


@pytest.mark.slow
def test_a_self_check_that_cannot_be_saved_is_told(judged: Bench) -> None:
    done = judged.bench("--self-check", file_limit=100)
    assert done.returncode == 1
    assert "slowdowns found" in done.stdout
    assert re.search(r"this self-check, as .*fake-gpu-1.self-check.json, could not be saved: File", done.stdout)


def test_space_is_tested_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "run.json"
    require_space(path, 5000)
    assert list(path.parent.iterdir()) == []
    path.write_text("kept")
    require_space(path, 5000)
    assert path.read_text() == "kept"
    assert list(path.parent.iterdir()) == [path]
    require_space(Path(os.devnull), 5000)
