"""Tests of anchors: creeping slowdowns and lucky baselines are seen, and only the same work on the same GPU counts."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import to_builtins

from tests.project import PROJECT
from tests.runs.identities import known
from warpwatch.catalogue.project import Project
from warpwatch.cli.baseline_promote import promote
from warpwatch.compare.anchors import beside_anchors
from warpwatch.compare.history import load
from warpwatch.runs.anchors import MOST_GPUS, read_anchors
from warpwatch.runs.baseline import ANCHORS
from warpwatch.runs.files import run_files
from warpwatch.runs.record import BadRun, read_document, read_run
from warpwatch.verdict.process_effects import mean_of
from warpwatch.verdict.rule import MEASURED, Decision, Verdict

NAMES = [f"copy-naive-{number}-float32" for number in range(48)]
SECONDS = dict(zip(NAMES, np.geomspace(4e-6, 5e-3, 48), strict=True))
LONG = [name for name in NAMES if SECONDS[name] > 100e-6][:3]
RNG = np.random.default_rng(3)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return replace(PROJECT, root=tmp_path)


def save(
    folder: Path,
    night: int,
    factors: Mapping[str, float],
    codes: Mapping[str, str] | None = None,
    uuid: str = "GPU-a",
    driver: str = "580.1",
) -> list[Path]:
    """Save the five runs of a night. ``codes``: machine code by case."""
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(5):
        entries = []
        for name, seconds in SECONDS.items():
            noise = np.exp(RNG.normal(0, np.sqrt(MEASURED.variance(seconds)) / 2))
            facts = {"cache": "cold", "identity": to_builtins(known(code=(codes or {}).get(name, "code")))}
            data = [float(seconds * factors.get(name, 1.0) * noise)] * 3
            entries.append({"param": name, "stats": {"data": data}, "extra_info": facts})
        document = {
            "machine_info": {"gpu": {"slug": "a-gpu", "cache": "cold", "uuid": uuid, "driver": driver}},
            "commit_info": {"id": f"{night:040x}", "dirty": False},
            "datetime": f"2026-01-{night + 1:02}T02:0{number}:00",
            "warpwatch": {"whole": True},
            "benchmarks": entries,
        }
        paths.append(folder / f"{len(list(folder.iterdir())) + 1:04}_night.json")
        paths[-1].write_text(json.dumps(document))
    return paths


def promoted(project: Project, paths: Sequence[Path], allowed: Collection[str] = ()) -> bool:
    return promote(project, paths, allowed=list(allowed), dry_run=False) == 0


@pytest.mark.parametrize("creeping", [LONG, NAMES], ids=["three", "all"])
def test_a_creep_that_no_night_shows_is_seen_by_the_sixth(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str], creeping: Sequence[str]
) -> None:
    for night in range(7):
        paths = save(tmp_path / "saved", night, dict.fromkeys(creeping, 1.005**night))
        capsys.readouterr()
        if not promoted(project, paths):
            break
    *lines, last = capsys.readouterr().err.splitlines()
    assert 1 < night <= 6
    assert last.endswith("; to do it all the same: --allow drift")
    assert all("from the anchor of 2026-01-01" in line or "from its anchor of 2026-01-01" in line for line in lines)
    if creeping == LONG:
        assert set(LONG) <= {line.partition(":")[0] for line in lines} | set(LONG[1:])
    else:
        assert lines[0].startswith("GPU-a: all cases +")


def test_an_anchor_is_the_oldest_run_of_the_same_work_and_no_run_of_the_baseline(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project.baselines / "a-gpu"
    for night in range(3):
        assert promoted(project, save(tmp_path / "saved", night, {}, codes={NAMES[0]: f"code {night // 2}"}))
    assert "anchors: earlier runs of 47 cases at the same work, of 47 cases on the GPUs" in capsys.readouterr().out
    (anchor,) = read_anchors(folder)
    assert anchor.cases.keys() == set(NAMES[1:])
    assert anchor.when
    assert anchor.when.date().isoformat() == "2026-01-01"
    assert len(run_files(folder)) == 5
    assert len(load(folder)[0]) == 5
    before = {path: path.read_bytes() for path in (folder / ANCHORS).iterdir()}
    assert promoted(project, save(tmp_path / "saved", 3, {}, codes={NAMES[0]: "code 1"}))
    after = {path: path.read_bytes() for path in (folder / ANCHORS).iterdir()}
    assert before.items() <= after.items()  # a file that is still right is not written again
    assert sorted(len(run.cases) for run in read_anchors(folder)) == [1, 47]


def test_one_process_in_another_mode_is_no_distance(project: Project, tmp_path: Path) -> None:
    paths = save(tmp_path / "saved", 0, {})
    document = json.loads(paths[0].read_text())
    entry = next(entry for entry in document["benchmarks"] if entry["param"] == LONG[0])
    entry["stats"]["data"] = [1.04 * time for time in entry["stats"]["data"]]
    paths[0].write_text(json.dumps(document))
    for night in range(3):  # of the second it is a run of the baseline before, of the third an anchor
        assert promoted(project, paths if night == 0 else save(tmp_path / "saved", night, {}))
    (anchor,) = read_anchors(project.baselines / "a-gpu")
    assert len(anchor.cases[LONG[0]].facts.again) == 4


def test_anchors_of_another_gpu_are_kept_and_say_nothing_and_those_of_another_driver_go(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project.baselines / "a-gpu"
    slower = dict.fromkeys(NAMES[:20], 1.1)
    assert promoted(project, save(tmp_path / "saved", 0, {}))
    assert promoted(project, save(tmp_path / "saved", 1, slower, uuid="GPU-b"))
    said = capsys.readouterr().out
    assert "  now: GPU-a: 5 runs, 2026-01-01\n  then: GPU-b: 5 runs, 2026-01-02\n" in said
    assert {run.gpu_uuid for run in read_anchors(folder)} == {"GPU-a"}
    assert not promoted(project, save(tmp_path / "saved", 2, slower))
    assert promoted(project, save(tmp_path / "saved", 3, slower, uuid="GPU-b"))
    assert {run.gpu_uuid for run in read_anchors(folder)} == {"GPU-a", "GPU-b"}
    assert promoted(project, save(tmp_path / "saved", 4, slower, driver="590.1"), allowed=["mixed"])
    assert not read_anchors(folder)


def test_a_gpu_without_anchors_takes_no_place_of_one_that_has_them(project: Project, tmp_path: Path) -> None:
    for night in range(MOST_GPUS + 2):
        assert promoted(project, save(tmp_path / "saved", night, {}, uuid=f"GPU-{night}"))
    anchors = read_anchors(project.baselines / "a-gpu")
    assert {run.gpu_uuid for run in anchors} == {f"GPU-{night}" for night in range(1, MOST_GPUS + 1)}


def test_a_case_is_not_slower_because_its_baseline_was_lucky(project: Project, tmp_path: Path) -> None:
    folder = project.baselines / "a-gpu"
    assert promoted(project, save(tmp_path / "saved", 0, {}))
    assert promoted(project, save(tmp_path / "saved", 1, dict.fromkeys(LONG, 0.994)))
    past = [read_run(path) for path in run_files(folder)]
    reference = mean_of([{name: timed.samples[0] for name, timed in run.cases.items()} for run in past])
    decided = {}
    for name, factor in zip(LONG, (1.002, 1.007, 1.03), strict=True):
        after = SECONDS[name] * factor
        decided[name] = Decision(verdict=Verdict.SLOWER, before=reference[name], after=after, floor=0.005)
    found = beside_anchors(decided, reference, past, "GPU-a")
    assert [found[name].verdict for name in LONG] == ["unsure", "unsure", "slower"]
    assert "from its anchor of 2026-01-01: the baseline's runs were faster" in found[LONG[0]].reason
    assert beside_anchors(decided, reference, past, "GPU-b") == decided
    (path,) = (folder / ANCHORS).iterdir()
    document = read_document(path)
    for entry in document["benchmarks"]:
        if entry["param"] == LONG[0]:
            entry["extra_info"]["again"] = entry["extra_info"]["again"][:1]  # two processes of that day
        if entry["param"] == LONG[1]:
            entry["extra_info"]["throttle"] = [["power cap"]]
    path.write_bytes(lzma.compress(json.dumps(document).encode()))
    assert beside_anchors(decided, reference, past, "GPU-a") == decided


def test_an_anchor_that_cannot_be_read_is_not_replaced_by_a_later_one(project: Project, tmp_path: Path) -> None:
    for night in range(2):
        assert promoted(project, save(tmp_path / "saved", night, {}))
    (path,) = (project.baselines / "a-gpu" / ANCHORS).iterdir()
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(BadRun, match=re.escape(str(path))):
        promoted(project, save(tmp_path / "saved", 2, {}))
    assert path.exists()
