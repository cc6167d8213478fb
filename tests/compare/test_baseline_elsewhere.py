"""Tests of --baseline: baselines in a folder outside the repository, in an archive, and where nothing can be read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import fsspec
import pytest

from tests.checkout import Bench
from tests.project import ROOT
from warpwatch.runs import elsewhere
from warpwatch.runs.elsewhere import fetch_baselines
from warpwatch.runs.files import run_files
from warpwatch.runs.record import BadRun

SLUG = "fake-gpu-1"


@pytest.fixture
def moved(checkout: Bench, tmp_path: Path) -> tuple[Bench, Path]:
    """A repository without baselines, and a folder that holds them."""
    checkout.fill_baseline()
    folder = tmp_path / "elsewhere"
    shutil.move(checkout.baseline.parent, folder)
    shutil.rmtree(checkout.folder / ".benchmarks")
    return checkout, folder


def zipped(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*.json*"):
            archive.write(file, file.relative_to(folder))
    return path


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("kind", ["folder", "the runs themselves", "address", "archive"])
def test_a_baseline_elsewhere_is_compared_with(moved: tuple[Bench, Path], kind: str) -> None:
    bench, folder = moved
    where = {
        "folder": str(folder),
        "the runs themselves": str(folder / SLUG),
        "address": folder.as_uri(),
        "archive": f"zip://::{zipped(folder).as_uri()}",
    }[kind]
    done = bench.bench("--benchmark-compare", "--require-baseline", f"--baseline={where}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 same" in done.stdout
    assert f"baselines are taken from {where}" in done.stdout


@pytest.mark.slow
def test_a_gpu_without_a_baseline_there_is_an_error_where_one_is_required(moved: tuple[Bench, Path]) -> None:
    bench, folder = moved
    (folder / SLUG).rename(folder / "another-gpu")
    done = bench.bench("--benchmark-compare", "--require-baseline", f"--baseline={folder}")
    assert done.returncode == 4
    assert f"there is no baseline for {SLUG}" in done.stderr


@pytest.mark.once
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("no/such/folder", "--baseline: no/such/folder: there is no such folder"),
        ("file:///no/such/folder", "file:///no/such/folder: there is nothing at this address"),
        ("nosuch://bucket", "nosuch://bucket: cannot be read (ValueError: Protocol not known: nosuch)"),
        ("zip://::file:///no/such.zip", "cannot be read (FileNotFoundError"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_before_anything_is_measured(
    moved: tuple[Bench, Path], where: str, said: str
) -> None:
    done = moved[0].bench("--benchmark-compare", f"--baseline={where}")
    assert done.returncode == 4
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_without_a_comparison_it_is_refused(moved: tuple[Bench, Path]) -> None:
    done = moved[0].bench(f"--baseline={moved[1]}")
    assert done.returncode == 4
    assert "--baseline compares nothing by itself: give --benchmark-compare too" in done.stderr


def test_each_fetch_has_copies_of_its_own(moved: tuple[Bench, Path], tmp_path: Path) -> None:
    _, folder = moved
    for where in (folder.as_uri(), str(folder / SLUG)):
        first = fetch_baselines(where, SLUG, tmp_path / "cache")
        (fetched, *_) = run_files(folder / SLUG)
        fetched.rename(tmp_path / "aside")
        second = fetch_baselines(where, SLUG, tmp_path / "cache")
        (tmp_path / "aside").rename(fetched)
        assert (len(run_files(first / SLUG)), len(run_files(second / SLUG))) == (3, 2)


def test_copies_go_with_their_process_or_after_a_week(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "0001_x.json").write_text("{}")
    cache = tmp_path / "cache"
    for name, days in (("killed", 8), ("recent", 6)):
        (cache / name / SLUG).mkdir(parents=True)
        os.utime(cache / name, (time.time() - 86400 * days,) * 2)
    code = (
        "import sys; from pathlib import Path; from warpwatch.runs.elsewhere import fetch_baselines\n"
        "print(*fetch_baselines(sys.argv[1], sys.argv[2], Path(sys.argv[3])).glob('*/*'))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "runs"), SLUG, str(cache)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f"/{SLUG}/0001_x.json\n")
    assert [path.name for path in cache.iterdir()] == ["recent"]


@pytest.mark.slow
def test_a_fetch_that_fails_leaves_the_copies_of_another(
    moved: tuple[Bench, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, folder = moved
    first = fetch_baselines(folder.as_uri(), SLUG, tmp_path / "cache")

    def broken(self: object, path: str) -> bytes:
        raise OSError("the line is cut")

    monkeypatch.setattr(fsspec.get_filesystem_class("file"), "cat_file", broken)
    with pytest.raises(BadRun, match=r"cannot be read \(OSError: the line is cut\)"):
        fetch_baselines(folder.as_uri(), SLUG, tmp_path / "cache")
    assert len(run_files(first / SLUG)) == 3


def test_what_is_no_baseline_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number:04}_x.json").write_text("{}" * 100)
    monkeypatch.setattr(elsewhere, "MOST_FILES", 2)
    with pytest.raises(BadRun, match="holds 3 runs, and a baseline has at most 2"):
        fetch_baselines(folder.as_uri(), SLUG, tmp_path / "cache")
    monkeypatch.setattr(elsewhere, "MOST_FILES", 3)
    monkeypatch.setattr(elsewhere, "LARGEST", 100)
    with pytest.raises(BadRun, match=r"000\d_x\.json holds more than 100 bytes"):
        fetch_baselines(folder.as_uri(), SLUG, tmp_path / "cache")


def test_without_fsspec_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(BadRun, match=r"pip install fsspec \(extra 'remote'\)"):
        fetch_baselines("s3://bucket", SLUG, tmp_path)
