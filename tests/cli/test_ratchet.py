"""Tests of `warpwatch ratchet`: limits come from several runs, keep what these measured, and are only tightened."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from msgspec import to_builtins

from tests.project import PROJECT, ROOT
from tests.runs.identities import known
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli import ratchet
from warpwatch.cli.options import BadArgument
from warpwatch.compare.doubts import disturbance
from warpwatch.compare.ratchet import RATCHETED, limits_of
from warpwatch.runs.anchors import of_other_gpus, read_anchors
from warpwatch.runs.baseline import ANCHORS
from warpwatch.runs.contracts import Limits, path_of, read
from warpwatch.runs.identity import difference
from warpwatch.runs.record import BadRun, by_gpu, read_run, read_runs
from warpwatch.timing.timer import kernel_seconds
from warpwatch.verdict.contracts import BETWEEN_GPUS, Rate, Standing, judge

CUBLAS, NAIVE = (f"matmul-{name}-128x128x128-float32" for name in ("cublas-vendor", "naive-16x16"))
TIMES = (1.0, 1.002, 0.998)


def project_in(folder: Path) -> Project:
    """Return this repository's project with its baselines in a folder."""
    return replace(PROJECT, baselines_folder=str(folder))


def save(folder: Path, times: tuple[float, ...] = TIMES, *, uuid: str = "GPU-1", gpu: Any = None, **facts: Any) -> None:
    """Save a run for each factor on the times, which are 20 µs, and 10 of the reference."""
    (folder / "a-gpu").mkdir(exist_ok=True)
    for factor in times:
        entries = [
            {
                "param": name,
                "stats": {"data": [seconds * factor] * 3},
                "extra_info": {"cache": "cold", "share": share, **needs, **facts},
            }
            for name, seconds, share, needs in (
                (NAIVE, 20e-6, 0.5, {"registers": 40, "local_bytes": 8}),
                (CUBLAS, 10e-6, 1.0, {}),
            )
        ]
        about = {"slug": "a-gpu", "uuid": uuid, "capability": "9.0"} | (gpu or {})
        document = {"benchmarks": entries, "machine_info": {"gpu": about}, "commit_info": {"id": "0" * 40}}
        number = len(list((folder / "a-gpu").iterdir())) + 1
        (folder / "a-gpu" / f"{number:04}_run.json").write_text(json.dumps(document))


def ratcheted(folder: Path, *runs: Path, limits: Any = RATCHETED, dry_run: bool = False) -> Limits:
    assert ratchet.run(project_in(folder), runs=runs, keywords="", limits=limits, dry_run=dry_run) == 0
    return read(path_of("a-gpu", folder))


def test_limits_leave_room_for_the_noise_that_a_baseline_shows(tmp_path: Path) -> None:
    save(tmp_path)
    limits = ratcheted(tmp_path)
    own = limits.of(NAIVE)
    assert (limits.capability, limits.uuids) == ("9.0", ("GPU-1",))
    assert (own["registers"], own["local_bytes"]) == (40, 8)
    assert 20e-6 * 1.015 < own["seconds"] < 20e-6 * 1.05
    assert 0.5 / 1.05 < own["reference"] < 0.5 / 1.015
    assert limits.of(CUBLAS).keys() == {"seconds"}  # it is its own reference, and a library's code is not ours


def test_the_slowest_gpu_decides(tmp_path: Path) -> None:
    save(tmp_path)
    one = ratcheted(tmp_path, limits=["seconds"]).of(NAIVE)["seconds"]
    path_of("a-gpu", tmp_path).unlink()
    save(tmp_path, tuple(1.1 * factor for factor in TIMES), uuid="GPU-2")
    both = ratcheted(tmp_path, limits=["seconds"])
    assert both.of(NAIVE)["seconds"] == pytest.approx(1.1 * one, rel=1e-3)
    assert both.uuids == ("GPU-1", "GPU-2")


@pytest.mark.parametrize(
    ("uuid", "code", "number", "counts"),
    [
        ("GPU-2", "code", 3, True),
        ("GPU-2", "other code", 3, False),
        ("GPU-1", "code", 3, False),  # of the same GPU: days differ, and that is not noise between processes
        ("GPU-2", "code", 2, False),  # two runs and three anchors
    ],
)
def test_a_slower_gpu_among_the_anchors_decides_where_it_did_the_same_work(
    tmp_path: Path, uuid: str, code: str, number: int, counts: bool
) -> None:
    save(tmp_path, identity=to_builtins(known()))
    one = ratcheted(tmp_path, limits=["seconds"])
    path_of("a-gpu", tmp_path).unlink()
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    save(earlier, tuple(1.1 * factor for factor in TIMES), uuid=uuid, identity=to_builtins(known(code=code)))
    (earlier / "a-gpu").rename(tmp_path / "a-gpu" / ANCHORS)
    if number < len(TIMES):
        (tmp_path / "a-gpu" / "0001_run.json").unlink()
        with pytest.raises(BadRun, match="a-gpu: 2 runs: limits take 3"):
            ratcheted(tmp_path)
        return
    both, own = ratcheted(tmp_path, limits=["seconds"]), ratcheted(tmp_path, tmp_path / "a-gpu", limits=["seconds"])
    assert both.of(NAIVE)["seconds"] == pytest.approx((1.1 if counts else 1.0) * one.of(NAIVE)["seconds"], rel=1e-3)
    assert both.uuids == (("GPU-1", "GPU-2") if counts else ("GPU-1",))
    assert own.of(NAIVE) == one.of(NAIVE)  # no anchors belong to runs that are named


def test_an_anchor_that_cannot_be_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, identity=to_builtins(known()))
    (tmp_path / "a-gpu" / ANCHORS).mkdir()
    for number in (1, 2):
        (tmp_path / "a-gpu" / ANCHORS / f"{number:04}_run.json").write_text("{}" if number == 1 else "{")
    ratcheted(tmp_path, limits=["seconds"])
    assert "left out: " in capsys.readouterr().err


def test_limits_are_only_tightened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path)
    first = ratcheted(tmp_path)
    for path in (tmp_path / "a-gpu").iterdir():
        path.unlink()
    save(tmp_path, tuple(2 * factor for factor in TIMES), registers=60)
    assert ratcheted(tmp_path) == first
    for path in (tmp_path / "a-gpu").iterdir():
        path.unlink()
    save(tmp_path, tuple(0.9 * factor for factor in TIMES), registers=32)
    capsys.readouterr()
    assert ratcheted(tmp_path, dry_run=True) == first
    assert f"{NAIVE}: registers 40 -> 32" in capsys.readouterr().out
    last = ratcheted(tmp_path)
    assert last.of(NAIVE)["seconds"] == pytest.approx(0.9 * first.of(NAIVE)["seconds"], rel=1e-3)
    assert (last.of(NAIVE)["registers"], last.of(NAIVE)["reference"]) == (32, first.of(NAIVE)["reference"])


def test_what_a_human_adds_stays_and_noise_moves_nothing(tmp_path: Path) -> None:
    save(tmp_path)
    ratcheted(tmp_path)
    file = path_of("a-gpu", tmp_path)
    document = json.loads(file.read_text())
    document["cases"][NAIVE] |= {"threshold": 0.03, "roof": 0.1}
    document["cases"]["gone-since-8x8-1-float32"] = {"registers": 10}
    file.write_text(json.dumps(document))
    save(tmp_path, (0.9975,))
    assert ratcheted(tmp_path).cases == document["cases"]


def test_disturbed_runs_limit_no_time(tmp_path: Path) -> None:
    save(tmp_path, throttle=[["power cap"], []])
    assert ratcheted(tmp_path).of(NAIVE) == {"registers": 40, "local_bytes": 8}


@pytest.mark.parametrize(
    ("times", "gpu", "message"),
    [
        (TIMES[:1], {}, "a-gpu: 1 run: limits take 3 runs, of which fewer do not show how far processes differ; `pyt"),
        (TIMES[:2], {}, "a-gpu: 2 runs: limits take 3"),
        (TIMES, {"note": "its times are the host's"}, "was measured without a GPU"),
        (TIMES, {"capability": ""}, "does not say which compute capability its GPU has: record it anew"),
    ],
)
def test_runs_that_limit_nothing_are_refused(
    tmp_path: Path, times: tuple[float, ...], gpu: dict[str, str], message: str
) -> None:
    save(tmp_path, times, gpu=gpu)
    with pytest.raises(BadRun, match=message):
        ratcheted(tmp_path)
    assert not path_of("a-gpu", tmp_path).exists()


def test_an_unknown_limit_or_no_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match=r"--limits regs: it takes registers, local_bytes, seconds, reference"):
        ratcheted(tmp_path, limits=["regs"])
    with pytest.raises(BadArgument, match=r"--limits names none: it takes registers, local_bytes"):
        ratcheted(tmp_path, limits=[])
    with pytest.raises(
        BadArgument, match="contains no baseline; record one with `python -m warpwatch baseline record`"
    ):
        ratcheted(tmp_path)


def test_keywords_that_match_no_case_write_nothing(tmp_path: Path) -> None:
    save(tmp_path)
    with pytest.raises(BadArgument, match="-k 'nave' matches no timed kernel: `warpwatch list` shows the ids"):
        ratchet.run(project_in(tmp_path), runs=(), keywords="nave", limits=RATCHETED, dry_run=False)
    assert not path_of("a-gpu", tmp_path).exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2, and this version of Warpwatch reads 1"),
        ({"cases": {NAIVE: {"regs": 3}}}, f"{NAIVE} has 'regs', which is not a limit; did you mean registers?"),
        ({"cases": {NAIVE: {"seconds": 20}}}, f"{NAIVE} has seconds = 20: give a time of a launch in seconds"),
        ({"case": {}}, "has 'case', which a file of limits does not; did you mean cases?"),
        ({"capability": ""}, "has capability '': give that of its GPU, such as 9.0"),
        ({"cases": {NAIVE: 3}}, r"is not a file of limits, as `warpwatch ratchet` writes it \(Expected `object`"),
    ],
)
def test_a_file_of_limits_that_makes_no_sense_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    save(tmp_path)
    ratcheted(tmp_path)
    file = path_of("a-gpu", tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(BadRun, match=message):
        read(file)


RECORDED = [
    ROOT / "bench" / "recordings" / "tuning" / name
    for name in (
        *(f"baselines/nvidia-h200/00{number}_h200.json.xz" for number in (34, 35, 36)),
        "nvidia-h200/0012_h200.json.xz",
        "nvidia-h200/0013_against.json.xz",
    )
]


@pytest.mark.slow
def test_recorded_runs_of_one_gpu_break_no_limit_of_three_of_them_and_slower_ones_do() -> None:
    """The five runs are of unchanged kernels on one H200 on one day; limits are taken from the first three."""
    runs = [read_run(path) for path in RECORDED]
    cases = [case for case in timed_cases(PROJECT.families) if not case.variant.on_host]
    limits = {case.id: limits_of(case, runs[:3], ["seconds"]) for case in cases}
    counts = {}
    for factor in (1.0, 1.1):
        rates = []
        for name, own in limits.items():
            timed = [run.cases[name] for run in runs if name in run.cases]
            times = [factor * kernel_seconds(median(each.samples), each.facts.overhead) for each in timed]
            if own and len(times) == len(runs):
                rates.append(Rate(case=name, name="seconds", limit=own["seconds"], times=times))
        counts[factor] = Counter(clause.standing for clause in judge(rates))
    assert counts == {
        1.0: {Standing.KEPT: 798, Standing.UNSURE: 8},
        1.1: {Standing.BROKEN: 795, Standing.UNSURE: 10, Standing.KEPT: 1},
    }


@pytest.mark.slow
@pytest.mark.parametrize(("model", "gpus"), [("nvidia-h200", 20), ("nvidia-h100-80gb-hbm3", 6)])
def test_unchanged_kernels_on_gpus_that_the_baseline_lacks_break_no_limit(model: str, gpus: int) -> None:
    runs = read_runs(PROJECT.baselines / model)
    others = of_other_gpus(read_anchors(PROJECT.baselines / model), runs)
    cases = [case for case in timed_cases(PROJECT.families) if not case.variant.on_host]
    limits = {case.id: limits_of(case, runs, ["seconds"], others).get("seconds") for case in cases}
    beyond, uuids = [], set()
    for path in (ROOT / "bench" / "recordings" / "scoring").glob(f"{model}-*/*"):
        for run in by_gpu(read_run(path)):
            uuids.add(run.gpu_uuid)
            beyond += [
                kernel_seconds(median(timed.samples), timed.facts.overhead) / limit
                for name, timed in run.cases.items()
                if (limit := limits.get(name))
                and not disturbance(timed.facts)
                and not difference(runs[0].cases[name].facts.identity, timed.facts.identity)
            ]
    assert len(beyond) > 5_000
    assert len(uuids - {run.gpu_uuid for run in (*runs, *others)}) >= gpus
    assert max(beyond) < 1 + BETWEEN_GPUS
