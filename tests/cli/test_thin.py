"""Tests that thinned runs give the same verdicts, history and figures, and that nothing is lost on the way."""

from __future__ import annotations

import lzma
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.project import ROOT
from tests.stranger import run_command
from warpwatch.cli import thin as command
from warpwatch.cli.thin import thin
from warpwatch.compare.history import find_steps, load
from warpwatch.compare.saved_verdicts import against_baseline
from warpwatch.runs.files import PACKED, PLAIN, read_content, run_files
from warpwatch.runs.record import read_document, read_run, read_runs
from warpwatch.runs.thinned import KEPT, octiles

BASELINE = run_files(ROOT / "bench" / "baselines" / "nvidia-h200")


def copies(folder: Path, count: int) -> Path:
    """Copy a year's beginning into a folder of one GPU: whole runs, not compressed."""
    folder.mkdir(parents=True)
    for number in range(count):
        content = read_content(BASELINE[number % len(BASELINE)])
        (folder / f"{number + 1:04}_night{PLAIN}").write_bytes(content)
    return folder


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=200))
def test_the_median_stays_to_the_last_bit_and_so_do_the_quartiles_nearly(samples: list[float]) -> None:
    kept = octiles(samples)
    assert len(kept) == min(len(samples), KEPT)
    assert median(kept) == median(samples)
    if len(samples) > KEPT:
        for share in (0, 25, 75, 100):
            assert np.percentile(kept, share) == pytest.approx(np.percentile(samples, share), abs=1e-11)
        assert kept == sorted(kept)


@pytest.mark.slow
def test_a_thinned_run_is_a_tenth_in_size_and_says_the_same(tmp_path: Path) -> None:
    folder = copies(tmp_path / "gpu", 3)
    whole, size = read_runs(folder), (folder / "0001_night.json").stat().st_size
    thin(folder / "0001_night.json")
    path = folder / f"0001_night{PACKED}"
    small = read_run(path)
    assert path.stat().st_size < size / 10
    assert small.cases.keys() == whole[0].cases.keys()
    about = [(run.gpu, run.commit, run.when, run.whole) for run in (small, whole[0])]
    assert about[0] == about[1]
    for name, timed in small.cases.items():
        assert median(timed.samples) == median(whole[0].cases[name].samples)
    read = [entry.facts for entry in small.cases.values()]
    assert [facts.image_hash for facts in read] == [e.facts.image_hash for e in whole[0].cases.values()]


@pytest.mark.slow
def test_verdicts_and_history_are_those_of_the_whole_runs(tmp_path: Path) -> None:
    folder = copies(tmp_path / "gpu", 7)
    before, _ = load(folder)
    verdicts, steps = against_baseline(before[-1], before[:-1]), find_steps(before)
    assert command.run(folder=folder, keep=1) == 0
    after, problems = load(folder)
    assert not problems
    assert [path.name.endswith(PACKED) for path in run_files(folder)] == [True] * 6 + [False]
    now = against_baseline(after[-1], after[:-1])
    assert {name: (d.verdict, d.ratio, d.floor) for name, d in now.decisions.items()} == {
        name: (d.verdict, d.ratio, d.floor) for name, d in verdicts.decisions.items()
    }
    assert [str(step) for step in find_steps(after)] == [str(step) for step in steps]


@pytest.mark.slow
def test_thinning_again_changes_nothing_but_finishes_what_was_interrupted(tmp_path: Path) -> None:
    folder = copies(tmp_path / "gpu", 2)
    plain, packed = folder / "0001_night.json", folder / f"0001_night{PACKED}"
    whole = plain.read_bytes()
    assert thin(plain) == packed
    content = packed.read_bytes()
    assert thin(packed) == packed
    assert packed.read_bytes() == content
    plain.write_bytes(whole)  # as if it had been ended before this file was removed: the whole run alone counts
    assert [path.name for path in run_files(folder)] == ["0001_night.json", "0002_night.json"]
    thin(plain)
    assert run_files(folder) == [packed, folder / "0002_night.json"]
    packed.write_bytes(lzma.compress(whole))  # as if it had been compressed by hand
    assert thin(packed) == packed
    assert packed.read_bytes() == content


def test_a_damaged_run_stays_as_it_is_and_the_others_are_thinned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copies(tmp_path / "gpu", 3)
    (folder / "0001_night.json").write_text('{"benchmarks": [')
    assert command.run(folder=folder, keep=1) == 0
    said = capsys.readouterr()
    assert "left as it is" in said.err
    assert "1 of them are thinned" in said.out
    assert (folder / "0001_night.json").read_text() == '{"benchmarks": ['


def test_a_folder_without_runs_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="holds no saved runs"):
        command.run(folder=tmp_path, keep=1)
    done = run_command(tmp_path, "thin", str(tmp_path), "--keep", "0")
    assert done.returncode == 2
    assert "is not an integer above 0" in done.stderr


def test_other_readers_find_their_fields(tmp_path: Path) -> None:
    folder = copies(tmp_path / "gpu", 1)
    document = read_document(thin(run_files(folder)[0]))
    entry = document["benchmarks"][0]
    assert {"name", "fullname", "group", "params", "param", "stats", "extra_info"} <= entry.keys()
    assert {"min", "max", "mean", "stddev", "median", "iqr", "rounds"} <= entry["stats"].keys()
