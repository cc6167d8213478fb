"""Tests that saved runs are read whole and written whole, whatever else happens."""

from __future__ import annotations

import errno
import fcntl
import json
import lzma
import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import FAMILIES
from tests.project import PROJECT
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli.baseline_promote import promote
from warpwatch.cli.main import main
from warpwatch.report.entries import Results
from warpwatch.report.family_tables import report
from warpwatch.report.tables import changes, summary
from warpwatch.runs.baseline import Baseline, objections
from warpwatch.runs.files import write_run
from warpwatch.runs.record import BadRun, Facts, RunRecord, read_document, read_run, read_runs
from warpwatch.verdict.rule import Decision, Verdict


def document(**times: float) -> dict[str, Any]:
    """A run as pytest-benchmark writes it, of cases whose ids have underscores for hyphens."""
    return {
        "machine_info": {"gpu": {"slug": "a-gpu", "name": "A GPU", "cache": "cold", "driver": "580.1", "uuid": "1"}},
        "commit_info": {"id": "0" * 40, "dirty": False},
        "warpwatch": {"failed": [], "whole": True},
        "benchmarks": [
            {"param": name.replace("_", "-"), "name": name, "stats": {"data": [time] * 3}, "extra_info": {}}
            for name, time in times.items()
        ],
    }


def of_one(**changes: Any) -> dict[str, Any]:
    """A run of one case, with something else in its entry."""
    whole = document(x=1.0)
    return whole | {"benchmarks": [whole["benchmarks"][0] | changes]}


def save(path: Path, content: Any) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text.replace('"DEEP"', "[" * 200_000 + "]" * 200_000))
    return path


def test_a_saved_run_is_read_back(tmp_path: Path) -> None:
    path = write_run(tmp_path / "gpu", "night", document(a_b=2e-6))
    run = read_run(path)
    assert path.name == "0001_night.json"
    assert run.cases["a-b"].samples == (2e-6,) * 3
    assert (run.slug, run.gpu_uuid, run.whole, run.setting("driver")) == ("a-gpu", "1", True, "580")
    assert [r.path for r in read_runs(tmp_path / "gpu")] == [path]
    assert read_runs(tmp_path / "no such folder") == []


def test_a_run_may_be_compressed_and_may_not_be_cut_off(tmp_path: Path) -> None:
    packed = lzma.compress(json.dumps(document(a_b=2e-6)).encode())
    path = tmp_path / "0001_night.json.xz"
    path.write_bytes(packed)
    assert read_run(path).cases["a-b"].samples == (2e-6,) * 3
    path.write_bytes(packed[:-20])
    with pytest.raises(BadRun, match=r"0001_night.json.xz: cannot be read"):
        read_run(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"benchmarks": [{"par', "is not whole JSON"),
        ("", "is not whole JSON"),
        ("[1, 2]", "is not a run of pytest-benchmark"),
        ({"context": {}, "benchmarks": 3}, "is not a run of pytest-benchmark"),
        ({"benchmarks": [{"name": "x", "stats": {"mean": 1}, "param": "x"}]}, "x has no samples"),
        ({"benchmarks": ["x"]}, "a benchmark has no samples"),
        (document(x=float("nan")), "x has samples that are no times"),
        (document(x=0.0), "x has samples that are no times"),
        (document(x=-1.0), "x has samples that are no times"),
        (document(x=float("inf")), "x has samples that are no times"),
        ({"benchmarks": document(x=1.0)["benchmarks"] * 2}, "lists x twice"),
        (document(x=1e300), "x has samples that are no times"),
        (document(x=10.0) | {"machine_info": None}, "is not a run of this suite (Expected `object`, got `null`"),
        (document(x=1.0) | {"machine_info": {"gpu": 3}}, "`object`, got `int` - at `$.machine_info.gpu`)"),
        (document(x=1.0) | {"machine_info": {"gpu": {"slug": "../.."}}}, "at `$.machine_info.gpu.slug`)"),
        (document(x=1.0) | {"warpwatch": []}, "`object`, got `array` - at `$.warpwatch`)"),
        (document(x=1.0) | {"commit_info": {"dirty": "no"}}, "got `str` - at `$.commit_info.dirty`)"),
        (document(x=1.0) | {"datetime": "yesterday"}, "at `$.datetime`)"),
        (document(x=1.0) | {"datetime": "0001-01-01T00:00:00+14:00"}, "is not a run of this suite"),
        (document(x=1.0) | {"surprise": "DEEP"}, "is nested too deeply to be a run"),
        (document(x=1.0) | {"benchmarks": "x"}, "it has no list of benchmarks"),
        (of_one(extra_info=None), "x has no samples (Expected `object`, got `null` - at `$.extra_info`)"),
        (of_one(extra_info={"sm_clock_mhz": ["fast"]}), "x has an extra_info that cannot be used (Expected `int`"),
        (of_one(extra_info={"sm_clock_mhz": [10**400]}), "x has an extra_info that cannot be used"),
        (of_one(extra_info={"throttle": [1]}), "x has an extra_info that cannot be used"),
        (of_one(extra_info={"pairs": {"old": [[1.0, 1.0]], "new": []}}), "both sides need the same processes"),
        (of_one(stats={"data": "1.0"}), "x has no samples (Expected `array`, got `str` - at `$.stats.data`)"),
        (of_one(stats={"data": [True]}), "x has samples that are no times"),
        (of_one(stats={"data": [10**400]}), "x has samples that are no times"),
        (of_one(stats={"data": []}), "x has samples that are no times"),
        (of_one(param=None, name=None), "benchmarks[0] has no name"),
        (of_one(param="a\nb"), "benchmarks[0] has no name"),
    ],
)
def test_what_is_no_run_is_refused_by_name(tmp_path: Path, content: Any, said: str) -> None:
    path = save(tmp_path / "0001_x.json", content)
    with pytest.raises(BadRun) as caught:
        read_run(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_a_bad_case_costs_that_case_alone(tmp_path: Path) -> None:
    bad = [of_one(param=name, **change)["benchmarks"][0] for name, change in BAD_CASES.items()]
    good = document(a=1.0, b=2.0)
    path = save(tmp_path / "0001_x.json", good | {"benchmarks": [*bad, *good["benchmarks"], 7, bad[0]]})
    with pytest.raises(BadRun, match=r"0001_x\.json: "):
        read_run(path)
    run = read_run(path, tolerant=True)
    assert list(run.cases) == ["a", "b"]
    assert list(run.problems) == [*BAD_CASES, f"benchmarks[{len(bad) + 2}]"]
    assert all(sentence.startswith(f"{path}: ") for sentence in run.problems.values())


BAD_CASES: dict[str, dict[str, Any]] = {
    "nan": {"stats": {"data": [float("nan")]}},
    "null": {"stats": None},
    "clock": {"extra_info": {"sm_clock_mhz": "1980"}},
    "digits": {"extra_info": {"registers": 10**400}},
}


def test_what_later_versions_add_is_no_error(tmp_path: Path) -> None:
    later = of_one(extra_info={"cache": "cold", "energy": {"joules": [1, 2]}}, kind="new") | {"schema": [3]}
    assert read_run(save(tmp_path / "0001_x.json", later)).cases["x"].facts == Facts(cache="cold")


def test_a_file_may_not_unpack_to_more_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpwatch.runs.record.LARGEST", 2**20)
    path = tmp_path / "0001_x.json.xz"
    path.write_bytes(lzma.compress(bytes(2**24)))
    with pytest.raises(BadRun, match="holds more than 1,048,576 bytes, and no run does"):
        read_run(path)


def test_promoting_takes_packed_runs_and_no_number_that_json_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = replace(PROJECT, root=tmp_path)
    baselines = project.baselines / "a-gpu"
    packed = tmp_path / "0007_night.json.xz"
    packed.write_bytes(lzma.compress(json.dumps(document(a=1e-6)).encode()))
    assert promote(project, [packed], allowed=(), dry_run=False) == 0
    (written,) = baselines.iterdir()
    assert written.name == "0001_night.json.xz"
    assert read_document(written) == document(a=1e-6)
    odd = save(tmp_path / "0008_night.json", document(a=2e-6) | {"version": float("nan")})
    with pytest.raises(BadRun, match=r"0008_night\.json: holds a number that JSON does not have"):
        promote(project, [odd], allowed=(), dry_run=False)
    shutil.rmtree(project.baselines)
    project.baselines.write_text("")  # a file where a folder should be
    monkeypatch.setattr("sys.argv", ["", "baseline", "promote", str(packed)])
    monkeypatch.setattr("warpwatch.cli.main.find_project", lambda start: project)
    assert main() == 2
    assert f"error: {baselines}: cannot be written (Not a directory)" in capsys.readouterr().err


@pytest.fixture
def promoted(tmp_path: Path) -> tuple[Project, list[Path]]:
    """A repository with a baseline of two runs; and the two files that it was made from."""
    project = replace(PROJECT, root=tmp_path / "tree")
    documents = [document(a=1e-6), document(a=2e-6) | {"datetime": "2026-01-01T00:00:00.000001+00:00"}]
    paths = [save(tmp_path / f"{i:04}_night.json", each) for i, each in enumerate(documents)]
    assert promote(project, paths, allowed=(), dry_run=False) == 0
    return project, paths


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_run_counts_once_whatever_its_copies_are_called(
    promoted: tuple[Project, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, paths = promoted
    before = contents(project.baselines / "a-gpu")
    new = save(tmp_path / "0007_new.json", document(a=3e-6) | {"datetime": "2026-01-02T00:00:00.000001+00:00"})
    copy = tmp_path / "0008_copy.json.xz"
    copy.write_bytes(lzma.compress(json.dumps(read_document(new), indent=1).encode()))
    thinner = save(tmp_path / "0009_thin.json", read_document(new) | {"benchmarks": document(a=3.1e-6)["benchmarks"]})
    for same in (copy, thinner):
        with pytest.raises(BadRun, match=f"{new} and {same} are the same run, and a baseline counts each process once"):
            promote(project, [new, same], allowed=("same",), dry_run=False)
    with pytest.raises(BadRun, match=f"{new} is named 3 times, and a baseline counts each process once"):
        promote(project, [new] * 3, allowed=("same",), dry_run=False)
    capsys.readouterr()
    for path in paths:
        assert promote(project, [path, new], allowed=(), dry_run=False) == 1
        said = capsys.readouterr().err
        assert re.search(rf"^{path}: is in the baseline already, as .*/a-gpu/000\d_night.json.xz\n", said)
        assert "to do it all the same: --allow same" in said
    assert contents(project.baselines / "a-gpu") == before
    assert promote(project, [*paths, new], allowed=("same",), dry_run=False) == 0
    assert len(contents(project.baselines / "a-gpu")) == 3


def test_a_full_disk_leaves_the_baseline_as_it_was(
    promoted: tuple[Project, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, folder = promoted[0], promoted[0].baselines / "a-gpu"
    before, left = contents(folder), iter([None])

    def full(descriptor: int) -> None:
        if next(left, descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("warpwatch.runs.files.os.fsync", full)
    new = [save(tmp_path / f"{i:04}_new.json", document(a=i * 1e-6)) for i in (7, 8)]
    with pytest.raises(BadRun, match=r"a-gpu: cannot be written \(No space left on device\), so the baseline stays"):
        promote(project, new, allowed=(), dry_run=False)
    assert contents(folder) == before


def test_a_second_promotion_meanwhile_is_refused(promoted: tuple[Project, list[Path]], tmp_path: Path) -> None:
    project, folder = promoted[0], promoted[0].baselines / "a-gpu"
    new, before = read_run(save(tmp_path / "0007_new.json", document(a=7e-6))), contents(folder)
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(BadRun, match="a-gpu: another process replaces this baseline now: promote again later"):
        promote(project, [new.path], allowed=(), dry_run=False)
    os.close(lock)
    with pytest.raises(BadRun, match="a-gpu: another process has changed this baseline meanwhile: promote again"):
        Baseline(folder, read_runs(folder)[:1]).replace([new])
    assert contents(folder) == before
    assert promote(project, [new.path], allowed=(), dry_run=False) == 0


def test_a_signal_waits_until_the_baseline_is_whole(
    promoted: tuple[Project, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, folder, rename = promoted[0], promoted[0].baselines / "a-gpu", Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        os.kill(os.getpid(), signal.SIGINT)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        promote(project, [save(tmp_path / "0007_new.json", document(a=7e-6))], allowed=(), dry_run=False)
    assert list(contents(folder)) == ["0003_new.json.xz"]


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match="cannot be read"):
        read_run(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(BadRun, match="cannot be read"):
        read_run(tmp_path / "bytes.json")


def test_a_number_that_json_cannot_hold_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_run(tmp_path, "x", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def runs(tmp_path: Path, *documents: dict[str, Any]) -> list[RunRecord]:
    return [read_run(save(tmp_path / f"{i}.json", content)) for i, content in enumerate(documents)]


def test_good_runs_find_no_objection(tmp_path: Path) -> None:
    assert objections(runs(tmp_path, document(a=1e-6), document(a=2e-6)), []) == {}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"warpwatch": {"failed": ["a"], "whole": True}}, "failed"),
        ({"warpwatch": {"failed": [], "whole": False}}, "partial"),
        ({"commit_info": {"id": "0" * 40, "dirty": True}}, "dirty"),
        ({"commit_info": {"id": "unversioned", "dirty": False}}, "dirty"),
        ({"machine_info": {"gpu": {"slug": "a-gpu", "cache": "warm", "driver": "580.1"}}}, "mixed"),
        ({"machine_info": {"gpu": {"slug": "b-gpu", "cache": "cold", "driver": "580.1"}}}, "mixed"),
        ({"machine_info": {}}, "gpu"),
    ],
)
def test_objections_have_a_word_to_allow_them(tmp_path: Path, change: dict[str, Any], word: str) -> None:
    assert word in objections(runs(tmp_path, document(a=1e-6), document(a=1e-6) | change), [])


def test_runs_of_other_cases_are_no_baseline_together(tmp_path: Path) -> None:
    assert "partial" in objections(runs(tmp_path, document(a=1e-6), document(b=1e-6)), [])


def test_runs_under_another_setting_than_the_baseline_are_an_objection(tmp_path: Path) -> None:
    gpu = {"slug": "a-gpu", "cache": "cold"}
    old, new = ({"machine_info": {"gpu": {**gpu, "driver": driver}}} for driver in ("580.1", "590.2"))
    both = runs(tmp_path, document(a=1e-6) | old, document(a=1e-6) | new)
    assert "mixed" in objections(both[1:], both[:1])


def test_changes_count_cases_and_show_the_largest_first(tmp_path: Path) -> None:
    old, new = runs(tmp_path, document(a=1e-6, b=1e-6, c=1e-6), document(b=1.1e-6, c=0.8e-6, d=1e-6))
    text = changes([old], [new])
    assert text.startswith("cases: 3, 1 of them new, 1 gone")
    assert text.index("-20.00 %  1.00 -> 0.80 µs  c") < text.index("+10.00 %  1.00 -> 1.10 µs  b")


def test_a_summary_has_the_worst_first_and_no_more_than_is_asked_for() -> None:
    decisions = {
        f"case-{i}": Decision(
            verdict=Verdict.UNSURE,
            before=1e-3,
            after=1e-3 * (1 + i / 100),
            ratio=1 + i / 100,
            low=1,
            high=2,
            floor=0.01,
            processes=5,
        )
        for i in range(1, 5)
    }
    lines = summary(decisions, ["gone"], most=2)
    assert lines[0] == "4 unsure, 1 missing"
    assert [text.partition(":")[0] for text in lines[1:4]] == ["gone", "case-4", "case-3"]
    assert lines[4:] == ["... and 2 more unsure; a run with -v prints all"]
    assert len(summary(decisions, [])) == 5


def test_tables_answer_the_course_reports_questions(tmp_path: Path) -> None:
    """Block size down, shape across, access and partition as variants, each against serial."""
    times = {case.id.replace("-", "_"): 1e-4 for case in timed_cases(FAMILIES)}
    times["matmul_serial_host_128x128x128_float32"] = 5e-3
    kept = document(**{n: time for n, time in times.items() if "struct_" not in n})
    text = report(Results(families=FAMILIES, runs=runs(tmp_path, kept)), Path("none"))
    assert "### matmul, float32: Time by variant, block and shape" in text
    assert "| tiled | 16x16 | 100.00 (41.9) |" in text
    assert "| variant | block | 128x128x128 | 256x256x256 |" in text
    gains = text[text.index("### matmul, float32: Gain over serial C++") :]
    assert "| tiled | 16x16 | 50.0× | 1.00× |" in gains
    growth = text[text.index("### matmul, float32: Growth") :]
    assert "| tiled | 16x16 | 1.00× (work 8.00×) | 1.00×" in growth


# What is younger than a baseline, and what was there then: no such GPU could be had since.
YOUNGER = {
    "nvidia-h100-80gb-hbm3": (
        "attention",
        "matmul_3xtf32",
        "matmul_half",
        "histogram-pipelined",
        "scan-persistent",
        "conv2d-columns-512x250",
        "conv2d-columns-256x8",
        "conv2d-paired",
        "separable-columns-512x16",
    ),
}
GONE = {
    "nvidia-h100-80gb-hbm3": ("conv2d-columns-512x128", "conv2d-columns-512x20", "separable-columns-512x20"),
}


@pytest.mark.once
@pytest.mark.parametrize(
    "folder", [path for path in PROJECT.baselines.glob("*") if path.is_dir()], ids=lambda path: path.name
)
def test_a_committed_baseline_is_one_that_promote_would_take(folder: Path) -> None:
    saved = read_runs(folder)
    assert len(saved) >= 3
    assert {run.slug for run in saved} == {folder.name}
    timed = {case.id for case in timed_cases(FAMILIES)}
    # A run may lack serial cases: those are of the host, and no verdict rests on their times.
    lacking = {name for run in saved for name in saved[0].cases.keys() - run.cases.keys()}
    assert lacking <= {case.id for case in timed_cases(FAMILIES) if case.variant.on_host}
    assert objections(saved, []).keys() == ({"partial"} if lacking else set())
    assert all(name.startswith(YOUNGER.get(folder.name, ())) for name in timed - saved[0].cases.keys())
    assert all(name.startswith(GONE.get(folder.name, ())) for name in saved[0].cases.keys() - timed)
