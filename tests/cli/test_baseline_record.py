"""Tests of `warpwatch baseline record` as a whole, its processes with a fake GPU."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import Bench
from tests.project import ROOT
from tests.recorder import Recorder
from warpwatch.catalogue.project import find_project
from warpwatch.cli import baseline_record
from warpwatch.cli.baseline_record import Recording
from warpwatch.devices.opening import NoDevice
from warpwatch.runs.record import RunRecord, read_runs

FEW = "matmul and naive and 128x128x128 and float32 and not host"


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(Bench(tmp_path / "checkout"), tmp_path / "plays", monkeypatch)


@pytest.mark.slow
def test_three_runs_become_the_baseline_and_a_part_replaces_no_greater_one(
    recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.play({"seed": 1}, {"seed": 2, "throttle": ["hot"]}, {"seed": 3}, {"seed": 4})
    assert recorder.record(3, FEW) == 0, capsys.readouterr().err
    shown = capsys.readouterr()
    written = read_runs(recorder.bench.baseline)
    assert [run.cases.keys() for run in written] == [written[0].cases.keys()] * 3
    assert len({tuple(timed.samples for timed in run.cases.values()) for run in written}) == 3
    cases = len(written[0].cases)
    assert f"{cases} cases in 3 processes, {cases} of them unsure; spread between processes: median 0." in shown.out
    assert "; unsure: clock throttled: hot, in 1 of 3 runs" in shown.out
    assert re.search(r"run 3 of 3: \d+ s so far, about \d+ s left\n", shown.err)
    assert re.fullmatch("next: commit .*bench/baselines/fake-gpu-1, .*", shown.out.splitlines()[-1])
    # A part of these cases alone would lose the others, and is refused after the first run.
    before = sorted(path.name for path in recorder.bench.baseline.iterdir())
    recorder.bench.commit()
    assert recorder.record(2, f"{FEW} and 8x8") == 1
    said = capsys.readouterr().err
    assert "does not hold every case; to do it all the same: --allow partial; nothing was promoted" in said
    assert sorted(path.name for path in recorder.bench.baseline.iterdir()) == before


def test_the_time_left_is_that_of_runs_that_do_not_compile() -> None:
    project = find_project(ROOT)
    begun = time.monotonic() - 65
    held: dict[str, Any] = {"project": project, "label": "", "count": 5, "keywords": "", "allowed": (), "begun": begun}
    run = RunRecord(path=Path("a run"))
    assert Recording(**held).progress() == "run 1 of 5: 65 s so far"
    first = Recording(**held, runs=[run], seconds=[60.0])
    assert first.progress() == "run 2 of 5: 65 s so far, at most 235 s left"  # four more as long, of which 5 s passed
    third = Recording(**held, runs=[run, run], seconds=[40.0, 20.0])
    assert third.progress() == "run 3 of 5: 65 s so far, about 55 s left"


@pytest.mark.slow
def test_a_run_that_fails_stops_it_and_a_changed_checkout_does_so_before_any_run(
    recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.play({}, {"wrong": ["matmul-naive-8x8"]})
    assert recorder.record(3, FEW) == 1
    said = capsys.readouterr().err
    kept, failed = recorder.bench.saved  # the failed run saves its other cases
    assert (
        f"run 2 of 3 ended with exit status 1; nothing was promoted, and what was saved so far is kept: {kept}" in said
    )
    assert failed in said
    assert "1 failed" in said.splitlines()[-1]
    assert not recorder.bench.baseline.exists()
    (recorder.bench.folder / "conftest.py").write_text("")
    assert recorder.record(3, FEW) == 1
    assert "error: the checkout has changes that are not committed: commit" in capsys.readouterr().err
    assert len(recorder.bench.saved) == 2


@pytest.mark.slow
def test_ctrl_c_ends_it_at_once_and_leaves_no_child(recorder: Recorder, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    slow = (
        f"import os, time; from pathlib import Path; Path({str(mark)!r}).write_text(str(os.getpid())); time.sleep(99)"
    )
    (tmp_path / "plays" / "plays_of_runs.py").write_text(slow)
    code = (
        "import sys; from warpwatch.cli import baseline_record; baseline_record.why_no_gpu = lambda: '';"
        "from warpwatch.cli.main import main; sys.argv[1:] = ['baseline', 'record']; sys.exit(main())"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=recorder.bench.folder, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 60
        while not (mark.exists() and mark.read_text()) and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
    assert process.returncode == 130, said
    assert said.endswith("interrupted in run 1 of 5: nothing was promoted, and no run was saved\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


@pytest.mark.slow
def test_without_a_gpu_nothing_is_run(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline_record, "why_no_gpu", lambda: "no NVIDIA driver")
    monkeypatch.setattr(subprocess, "Popen", None)  # whatever is run fails
    with pytest.raises(NoDevice, match="a baseline is recorded on a GPU: no NVIDIA driver"):
        recorder.record(3, FEW)
