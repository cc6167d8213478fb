"""Tests how a run ends where nothing can be compared, or a part of a baseline cannot, on a fake GPU."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.checkout import FEW, Bench
from tests.project import ROOT
from tests.recorder import Recorder
from warpwatch.runs.files import run_files
from warpwatch.runs.record import read_document


@pytest.mark.slow
def test_after_a_driver_update_the_run_says_how_to_record_the_next_baseline(
    checkout: Bench, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.fill_baseline()
    refused = checkout.bench("--benchmark-compare", "--require-baseline", "--no-confirm", driver="999.1")
    assert refused.returncode == 4
    assert "is void: another driver (580 then, 999 now), so nothing would be compared\n" in refused.stderr
    advice = refused.stderr[refused.stderr.index("to record the next baseline") :]
    assert advice.strip() in checkout.bench("--benchmark-compare", driver="999.1").stdout  # beside what pairs tell
    # What it says is done, of a few cases in two processes.
    command = re.fullmatch(r".*: python -m warpwatch baseline record --allow (\w+)\n+", advice)
    assert command, advice
    with monkeypatch.context() as changed:
        recorder = Recorder(checkout, tmp_path_factory.mktemp("plays") / "plays", changed)
        recorder.play(*({"seed": seed, "driver": "999.1"} for seed in (0, 0, 1)))
        assert recorder.record(2, FEW) == 1  # it is another driver than the baseline's
        assert recorder.record(2, FEW, command[1]) == 0
    done = checkout.bench("--benchmark-compare", "--require-baseline", driver="999.1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 same" in done.stdout


@pytest.mark.slow
def test_odd_runs_among_several_are_left_out_by_name(recorded: Bench) -> None:
    mixed = recorded.folder / "mixed"
    shutil.copytree(recorded.baseline, mixed)
    for path, play in (("0008_driver.json", {"driver": "999.1"}), ("0009_gpu.json", {"slug": "another-gpu"})):
        document = read_document(run_files(recorded.baseline)[0])
        document["machine_info"]["gpu"] |= play
        (mixed / path).write_text(json.dumps(document))
    (mixed / "0010_foreign.json").write_text('{"a": "letter"}')
    done = recorded.bench(f"--benchmark-compare={mixed}", "--require-baseline")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "baseline: 3 runs in " in done.stdout
    assert "17 same" in done.stdout
    out = "left out of the comparison: "
    assert f"{out}{mixed}/0008_driver.json: another driver (999 then, 580 now)\n" in done.stdout
    assert f"{out}{mixed}/0009_gpu.json: another GPU (another-gpu then, fake-gpu-1 now)\n" in done.stdout
    assert "0010_foreign.json: " in done.stdout
    shutil.rmtree(mixed)


@pytest.mark.once
@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (("-k", "hello and not host"), 4, "none of the 4 selected cases has usable samples in the runs in"),
        (("-k", f"{FEW} and naive", "--benchmark-disable"), 1, "no case was measured to its end"),
        (("--device=none",), 4, ""),
    ],
)
def test_to_require_a_baseline_and_compare_nothing_is_an_error(
    recorded: Bench, args: tuple[str, ...], status: int, said: str
) -> None:
    if said:
        done = recorded.bench("--benchmark-compare", "--require-baseline", *args, few=False)
    else:
        done = recorded._run(
            sys.executable, "-m", "pytest", "bench", "--benchmark-compare", "--require-baseline", *args
        )
        said = "there is no GPU to have a baseline, so nothing would be compared"
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


@pytest.mark.slow
def test_a_baseline_without_usable_samples_is_no_baseline(checkout: Bench) -> None:
    assert checkout.bench().returncode == 0
    document = json.loads(Path(checkout.saved[0]).read_text())
    for entry in document["benchmarks"]:
        entry["stats"]["data"] = [0.0]
    checkout.baseline.mkdir(parents=True)
    done = checkout.bench("--benchmark-compare", "--require-baseline")  # an empty folder
    assert done.returncode == 4
    assert "ERROR: there is no baseline for fake-gpu-1" in done.stderr
    (checkout.baseline / "0001_zero.json").write_text(json.dumps(document))
    done = checkout.bench("--benchmark-compare", "--require-baseline")
    assert done.returncode == 4
    assert "no GPU case of the runs in " in done.stderr
    done = checkout.bench("--benchmark-compare", "--color=yes")
    assert done.returncode == 0
    *_, counts, last = done.stdout.splitlines()
    yellow = "\x1b[33m"
    assert counts.startswith(yellow)
    assert "17 not compared" in counts
    assert yellow in last
    assert "NOTHING WAS COMPARED (--benchmark-compare): no GPU case of the" in last


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--require-baseline",), ("--fail-on", "unsure")])
def test_a_rule_without_a_comparison_is_refused(recorded: Bench, option: tuple[str, ...]) -> None:
    done = recorded.bench(*option)
    assert done.returncode == 4
    assert f"ERROR: {option[0]} compares nothing by itself: give --benchmark-compare" in done.stderr


@pytest.mark.once
@pytest.mark.parametrize(
    "args", [(), ("--benchmark-compare",), ("--benchmark-compare", "--require-baseline"), ("--against", "HEAD")]
)
def test_a_selection_that_leaves_no_case_is_not_green(recorded: Bench, args: tuple[str, ...]) -> None:
    done = recorded.bench(*args, "-k", "zzz", few=False)
    assert done.returncode == 5
    assert done.stdout.splitlines()[-1] == "NOTHING RAN: no test is left of those that -k 'zzz' and bench select"


def test_an_empty_name_of_a_run_is_refused(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare=")
    assert done.returncode == 4
    assert "ERROR: --benchmark-compare= names no run: leave the `=` out" in done.stderr


@pytest.mark.slow
def test_runs_are_saved_in_the_root_wherever_pytest_starts(recorded: Bench, tmp_path: Path) -> None:
    before = len(recorded.saved)
    command = (sys.executable, "-m", "pytest", str(recorded.folder / "bench"), "-p", "tests.fake_gpu", "-q", "-k", FEW)
    search = {"PYTHONPATH": str(recorded.folder)}
    done = recorded.run_in(tmp_path, *command, "--benchmark-max-time=0.001", "--benchmark-compare", **search)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 same" in done.stdout
    assert (len(recorded.saved), list(tmp_path.iterdir())) == (before + 1, [])
    # What the user names is taken from the current folder, as pytest-benchmark documents.
    done = recorded.run_in(tmp_path, *command, "--benchmark-max-time=0.001", "--benchmark-storage=here", **search)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(recorded.saved) == before + 1
    assert len(list((tmp_path / "here" / "fake-gpu-1").iterdir())) == 1


@pytest.mark.slow
def test_make_says_that_nothing_is_left_of_a_selection(recorded: Bench) -> None:
    """Make works where tests run in several processes too; the virtual environment is this one."""
    shutil.copy(ROOT / "Makefile", recorded.folder)
    (recorded.folder / ".venv" / "bin").mkdir(parents=True)
    (recorded.folder / ".venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (recorded.folder / ".venv" / "bin" / "python").chmod(0o755)
    (recorded.folder / ".venv" / ".ready").touch()
    for target in ("bench", "test"):
        done = recorded._run("make", "--no-print-directory", "-o", ".venv/.ready", target, "ARGS=-k zzz --device=none")
        assert done.returncode == 2
        assert "NOTHING RAN: no test is left of those that -k 'zzz' and" in done.stdout.splitlines()[-1]
        assert "Error 5" in done.stderr
