"""Tests the history of nightly runs: steps and drifts are found, with the revisions between which they happened."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path

import numpy as np
import pytest
from msgspec import to_builtins

from tests.fork_server import run_module
from tests.project import PROJECT, ROOT
from tests.runs.identities import known
from warpwatch.cli import history
from warpwatch.compare.history import Cause, find_steps, levels, load
from warpwatch.runs.record import BadRun
from warpwatch.verdict.rule import MEASURED

NIGHTS, CASES = 40, 60
MEDIANS = np.exp(np.random.default_rng(2).uniform(np.log(4e-6), np.log(5e-3), CASES))


def record(
    folder: Path,
    factors: np.ndarray,
    seed: int = 3,
    codes: np.ndarray | None = None,
    uuid: str = "",
    places: np.ndarray | None = None,
) -> Path:
    """Save nights of CASES cases, whose times are multiplied by ``factors`` (nights by cases).

    ``codes``: numbers of the machine code; else it changes whenever the factor does. ``places``: of each case's arrays.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    works = factors if codes is None else codes
    for night, row in enumerate(factors):
        noise = np.exp(rng.normal(0, np.sqrt(MEASURED.variance(MEDIANS))))
        times = MEDIANS * row * noise * rng.normal(1, 0.002)
        document = {
            "benchmarks": [
                {
                    "param": f"case-{i}",
                    "stats": {"data": [float(t)] * 3},
                    "extra_info": {
                        "cache": "cold",
                        "places": int(places[night, i]) if places is not None else 0,
                        "identity": to_builtins(known(code=f"code {works[night, i]}")),
                    },
                }
                for i, t in enumerate(times)
            ],
            "machine_info": {"gpu": {"slug": "a-gpu", "cache": "cold", "driver": "580.1", "uuid": uuid}},
            "commit_info": {"id": f"{night:02}" * 20, "dirty": False},
            "datetime": f"2026-{10 + night // 30:02}-{night % 30 + 1:02}T03:00:00",
        }
        (folder / f"{night + 1:04}_night{uuid}.json").write_text(json.dumps(document))
    return folder


@pytest.mark.slow
def test_a_quiet_history_shows_no_step() -> None:
    rng = np.random.default_rng(4)
    found = [levels(rng.normal(0, 0.003, NIGHTS), 0.003**2, 100) for _ in range(300)]
    assert sum(map(bool, found)) <= 1


def test_a_step_is_found_with_its_revisions_and_a_drift_that_no_night_shows(tmp_path: Path) -> None:
    factors = np.ones((NIGHTS, CASES))
    large = [int(i) for i in np.flatnonzero(MEDIANS > 200e-6)[:3]]
    factors[20:, large[0]] = 1.02
    factors[:, large[1]] = 1.01 ** (np.arange(NIGHTS) / 7)  # 1 % a week, 0.14 % a night
    factors[30:, large[2]] = 0.9
    steps = find_steps(load(record(tmp_path / "a-gpu", factors))[0])
    by_case: dict[str, list[float]] = {}
    for step in steps:
        by_case.setdefault(step.case, []).append(step.ratio)
    assert set(by_case) == {f"case-{i}" for i in large}
    assert by_case[f"case-{large[0]}"] == pytest.approx([1.02], abs=0.002)
    assert str(next(s for s in steps if s.case == f"case-{large[0]}")).endswith(
        "% in 191919191919..202020202020 (2026-10-20 to 2026-10-21); changed: machine code"
    )
    drifted = by_case[f"case-{large[1]}"]
    assert len(drifted) >= 2
    assert math.prod(drifted) == pytest.approx(1.01 ** (NIGHTS / 7), abs=0.015)
    assert by_case[f"case-{large[2]}"] == pytest.approx([0.9], abs=0.002)


def test_one_slow_night_is_no_step_wherever_it_falls() -> None:
    """A level lasts three nights at least, and the mean of three would be a third of the way."""
    quiet = np.random.default_rng(5).normal(0, 0.002, 20)
    for night in range(20):
        logs = quiet.copy()
        logs[night] += math.log(1.3)
        assert levels(logs, 0.002**2, 100) == [], f"night {night}"


def test_a_process_effect_is_no_step_of_any_case(tmp_path: Path) -> None:
    factors = np.ones((NIGHTS, CASES))
    factors[15:] = 1.05
    assert find_steps(load(record(tmp_path / "a-gpu", factors, codes=np.ones_like(factors)))[0]) == []


def test_one_case_is_shown_night_by_night(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factors = np.ones((12, CASES))
    case = int(np.argmax(MEDIANS))
    factors[6:, case] = 1.1
    folder = record(tmp_path / "a-gpu", factors)
    assert history.run(PROJECT, case=f"case-{case}", folder=folder, new=None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[12:] == [f"which commit it was: python -m warpwatch bisect --from-history case-{case}"]
    assert lines[6].startswith("2026-10-07T03:00  060606060606 ")
    assert lines[6].endswith("% from here on (kernel)  (changed: machine code)")
    assert history.run(PROJECT, case="no-such-case", folder=folder, new=None) == 2
    assert "no run in" in capsys.readouterr().err


def test_runs_of_two_gpus_have_no_history_in_common(tmp_path: Path) -> None:
    for slug in ("a-gpu", "b-gpu"):
        record(tmp_path / slug, np.ones((1, CASES)))
    with pytest.raises(BadRun, match="--runs takes the folder of one GPU"):
        load(tmp_path)
    with pytest.raises(BadRun, match="with runs are here: none"):
        load(tmp_path / "c-gpu")


@pytest.mark.slow
def test_a_damaged_night_is_named_and_left_out(tmp_path: Path) -> None:
    folder = record(tmp_path / "a-gpu", np.ones((12, CASES)))
    names = sorted(path.name for path in folder.iterdir())
    (folder / names[2]).write_text('{"benchmarks": [')
    (folder / names[4]).write_text('{"benchmarks": [], "machine_info": null}')
    document = json.loads((folder / names[6]).read_text())
    document["benchmarks"][0]["stats"]["data"][0] = -1
    (folder / names[6]).write_text(json.dumps(document))
    command = ("warpwatch", "history", "--runs", str(tmp_path))
    done = run_module((*command, "case-1"), ROOT, os.environ, seconds=100)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 10
    said = done.stderr.splitlines()
    assert len(said) == 3
    assert f"{names[2]}: is not whole JSON" in said[0]
    assert f"{names[4]}: is not a run of this suite (Expected `object`, got `null` - at `$.machine_info`)" in said[1]
    assert f"{names[6]}: case-0 has samples that are no times" in said[2]
    for path in folder.iterdir():
        path.write_text("")
    done = run_module(command, ROOT, os.environ, seconds=100)
    assert done.returncode == 2
    assert re.fullmatch(r"error: .*0001_night.json: is not whole JSON .*\n", done.stderr)


def test_a_run_beside_another_revision_is_no_night(tmp_path: Path) -> None:
    folder = record(tmp_path / "a-gpu", np.ones((3, CASES)))
    second = folder / "0002_night.json"
    document = json.loads(second.read_text())
    second.write_text(json.dumps(document | {"warpwatch": {"against": "0" * 40}}))
    nights, _ = load(folder)
    assert [night.path.name for night in nights] == ["0001_night.json", "0003_night.json"]


def test_a_change_of_all_or_most_cases_shows_and_the_others_do_not_fall(tmp_path: Path) -> None:
    for share in (0.6, 1.0):
        factors, changed = np.ones((13, CASES)), np.arange(CASES) < share * CASES
        factors[10:, changed] = 1.02
        steps = find_steps(load(record(tmp_path / f"{share}" / "a-gpu", factors))[0])
        large = {f"case-{i}" for i in np.flatnonzero(changed & (MEDIANS > 100e-6))}
        rising = {step.case for step in steps}
        assert len(large & rising) >= 0.9 * len(large)
        assert {(step.ratio > 1, step.cause) for step in steps} == {(True, Cause.KERNEL)}
        assert rising <= {f"case-{i}" for i in np.flatnonzero(changed)}


def test_a_change_at_the_same_work_is_the_environments_and_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    factors, case = np.ones((20, CASES)), int(np.argmax(MEDIANS))
    factors[10:, case] = 1.05
    folder = record(tmp_path / "a-gpu", factors, codes=np.zeros_like(factors))
    (step,) = find_steps(load(folder)[0])
    assert (step.case, step.cause) == (f"case-{case}", Cause.ENVIRONMENT)
    assert history.run(PROJECT, case="", folder=folder, new=None) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "1 of the environment: of GPU, driver, memory or way of timing, and not of kernels:"
    assert lines[-1].endswith("; the same work: GPU, driver or memory, not the kernel")  # and nothing of bisect
    assert not [number for number in range(6, 21) if history.new_steps(load(folder)[0][:number])]


@pytest.mark.parametrize("changes", [False, True])
def test_another_way_of_timing_is_no_step_of_a_kernel(tmp_path: Path, changes: bool) -> None:
    factors, case = np.ones((20, CASES)), int(np.argmax(MEDIANS))
    factors[10:, case] = 1.05
    places = np.where(factors > 1, 8, 4)
    folder = record(tmp_path / "a-gpu", factors, codes=None if changes else np.zeros_like(factors), places=places)
    (step,) = find_steps(load(folder)[0])
    assert step.cause == (Cause.UNKNOWN if changes else Cause.ENVIRONMENT)
    assert step.why == f"timed in another way; {'changed: machine code' if changes else 'the same work'}"


def test_each_gpu_has_a_history_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    factors, case = np.ones((16, CASES)), int(np.argmax(MEDIANS))
    factors[8:, case] = 1.05
    codes = factors.copy()
    for number, uuid in enumerate(("GPU-a", "GPU-b", "GPU-c")):
        own = factors * np.exp(np.random.default_rng(number).normal(0, 0.05, CASES))
        folder = record(tmp_path / "a-gpu", own if number < 2 else own[:3], codes=codes, uuid=uuid)
    steps = find_steps(load(folder)[0])
    assert [(step.case, step.before.gpu_uuid, step.after.gpu_uuid) for step in steps] == [
        (f"case-{case}", uuid, uuid) for uuid in sorted({"GPU-a", "GPU-b"}, key=[s.after.gpu_uuid for s in steps].index)
    ]
    history.run(PROJECT, case="", folder=folder, new=None)
    said = capsys.readouterr().out
    assert "GPU-a: 16 runs, 1 steps" in said
    assert "GPU-c: 3 runs, left out: a lasting change takes 6 of one GPU" in said


def test_cases_with_two_modes_and_nights_with_a_memory_show_no_step(tmp_path: Path) -> None:
    rng, shape = np.random.default_rng(12), (60, CASES)
    codes = np.repeat(rng.integers(2, size=(6, CASES)), 10, axis=0)
    modes = np.where((rng.random(shape) < 0.25) & (np.arange(CASES) % 10 == 0), 1.05, 1.0)
    memory = np.zeros(shape)
    for night in range(1, 60):
        memory[night] = 0.9 * memory[night - 1] + rng.normal(0, 0.0131, CASES)
    for name, factors in {"modes": modes, "memory": np.exp(memory)}.items():
        runs, _ = load(record(tmp_path / name / "a-gpu", factors, codes=codes))
        told = [step for number in (8, 12, 16, 24, 36, 60) for step in find_steps(runs[:number])]
        assert not told, name
