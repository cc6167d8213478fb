"""Tests of the numbers of saved runs: of any length, in their order, and each taken once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT
from warpwatch.compare.reference import find_runs
from warpwatch.runs.files import numbered_runs, run_files, write_numbered, write_run

RUN = '{"benchmarks": []}'


def names(folder: Path) -> list[str]:
    return [path.name for path in run_files(folder)]


def test_numbers_go_on_after_four_digits(tmp_path: Path) -> None:
    (tmp_path / "9999_x.json").write_text(RUN)
    (tmp_path / "0000_x.json").write_text(RUN)
    (tmp_path / "abcd_x.json").write_text(RUN)
    (tmp_path / "٣٣٣٣_x.json").write_text(RUN)  # digits, but no number of ours
    assert write_run(tmp_path, "a", {}).name == "10000_a.json"
    assert write_run(tmp_path, "ä", {}).name == "10001_ä.json"
    (tmp_path / "99999_x.json.xz").write_bytes(b"")
    assert write_run(tmp_path, "b", {}).name == "100000_b.json"
    numbered = ["0000_x.json", "9999_x.json", "10000_a.json", "10001_ä.json", "99999_x.json.xz", "100000_b.json"]
    assert names(tmp_path) == [*numbered, "abcd_x.json", "٣٣٣٣_x.json"]
    assert [path.name for path in numbered_runs(tmp_path)] == numbered


def test_a_number_names_one_run_and_not_those_that_begin_with_it(tmp_path: Path) -> None:
    for name in ("1000_a", "10000_b", "10001_c"):
        (tmp_path / "gpu").mkdir(exist_ok=True)
        (tmp_path / "gpu" / f"{name}.json").write_text(RUN)
    for chosen, found in {"1000": ["1000_a"], "10000": ["10000_b"], "100": ["1000_a", "10000_b", "10001_c"]}.items():
        runs, _ = find_runs(chosen, tmp_path, tmp_path / "none", "gpu", "")
        assert [run.path.stem for run in runs] == found


def test_processes_take_no_number_twice_and_lose_no_run(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from warpwatch.runs.files import write_run\n"
        "for _ in range(40): write_run(pathlib.Path(sys.argv[1]), sys.argv[2], {'a': 1})"
    )
    crowd = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "runs"), name], cwd=ROOT, env=os.environ)
        for name in "aab"
    ]
    assert [process.wait() for process in crowd] == [0] * 3
    numbers = sorted(int(name.partition("_")[0]) for name in os.listdir(tmp_path / "runs"))
    assert numbers == list(range(1, 121))


def test_a_number_that_is_taken_between_two_looks_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0001_other.json").write_text(RUN)
    looks = iter([set[int](), {1}, {1}])
    monkeypatch.setattr("warpwatch.runs.files._numbers", lambda folder: next(looks))
    assert write_run(tmp_path, "a", {}).name == "0002_a.json"
    assert sorted(os.listdir(tmp_path)) == ["0001_other.json", "0002_a.json"]


def test_what_a_killed_process_left_costs_its_number_alone(tmp_path: Path) -> None:
    (tmp_path / ".0001.tmp").write_text("half")
    assert write_run(tmp_path, "a", {}).name == "0002_a.json"
    assert names(tmp_path) == ["0002_a.json"]


def test_a_folder_that_cannot_be_written_is_an_error_and_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*args: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("warpwatch.runs.files.os.open", read_only)
    with pytest.raises(OSError, match="Read-only file system"):
        write_run(tmp_path, "a", {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("broken", ["0001_old.json", "0002_old.json"])
def test_files_take_the_place_of_others_all_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    old = [tmp_path / "0001_old.json", tmp_path / "0002_old.json"]
    for path in old:
        path.write_text(path.name)
    rename = Path.rename

    def refused(self: Path, target: Path) -> Path:
        if self.name == broken:  # as another user's file in a sticky folder
            raise PermissionError(1, "Operation not permitted")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(PermissionError):
        write_numbered(tmp_path, [("a.json", b"a"), ("b.json", b"b")], old)
    monkeypatch.setattr(Path, "rename", rename)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {path.name: path.name for path in old}
    written = write_numbered(tmp_path, [("a.json", b"a"), ("b.json", b"b")], old)
    assert sorted(tmp_path.iterdir()) == written == [tmp_path / "0003_a.json", tmp_path / "0004_b.json"]
