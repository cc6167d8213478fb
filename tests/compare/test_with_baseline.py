"""Tests `pytest bench --benchmark-compare` from options to exit status, JUnit and saved files, on a fake GPU."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.checkout import FEW, Bench
from tests.project import ROOT
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.project import find_project
from warpwatch.compare.comparison import CALL
from warpwatch.compare.confirmation import built_again, newest_clean
from warpwatch.compare.reference import find_runs
from warpwatch.compare.with_baseline import BaselineComparison, timed_alike
from warpwatch.devices.compile.compiler import CompileError, Image, Target
from warpwatch.revision.commit import CommitCase
from warpwatch.runs.record import BadRun, CaseRecord, Commit, Facts, Gpu, RunRecord, read_run
from warpwatch.timing.measurement import Measured
from warpwatch.verdict.rule import SAVED_TIMES, Verdict

SEVEN_ROUNDS = ("--benchmark-max-time=1e-9", "--benchmark-min-rounds=7")

NAIVE = "matmul-naive-8x8-128x128x128-float32"


@pytest.mark.slow
def test_without_a_baseline_one_line_says_how_to_make_one(checkout: Bench) -> None:
    done = checkout.bench("--benchmark-compare")
    assert done.returncode == 0
    said = (
        "there is no baseline for fake-gpu-1, so nothing is compared: `python -m warpwatch baseline record` makes one"
    )
    assert said in done.stdout
    *_, counts, last = done.stdout.splitlines()
    assert re.match(r"17 passed, \d+ deselected, 17 not compared in", counts)
    assert last.startswith("NOTHING WAS COMPARED (--benchmark-compare): there is no baseline for fake-gpu-1; no kernel")
    done = checkout.bench("--benchmark-compare", "--require-baseline")
    assert done.returncode == 4
    assert "ERROR: there is no baseline for fake-gpu-1" in done.stderr


def test_unchanged_is_the_same(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare", seed=99)
    assert done.returncode == 0, done.stdout
    assert "baseline: 3 runs in " in done.stdout
    assert "17 same" in done.stdout


@pytest.mark.slow
def test_slower_is_a_failure_of_just_that_case_with_one_line(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare", "--junitxml=results.xml", seed=98, slower={"matmul-naive-8x8": 1.06})
    assert done.returncode == 1
    (sentence,) = re.findall(r"^slower: .*$", done.stdout, re.MULTILINE)
    assert re.fullmatch(
        r"slower: median [\d.]+ -> [\d.]+ µs, \+[56]\.\d % \(95 %: \+\d\.\d to \+\d\.\d\), floor 0\.\d %, 3 processes",
        sentence,
    )
    assert "1 slower, 16 same" in done.stdout
    assert f"matmul-naive-8x8-128x128x128-float32: {sentence}" in done.stdout
    assert "Traceback" not in done.stdout
    (suite,) = ET.parse(recorded.folder / "results.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("17", "1", "0")
    (failure,) = suite.iter("failure")
    assert failure.get("message") == sentence
    assert re.search(r"^    the machine code cannot be compared: ", done.stdout, re.MULTILINE)  # a fake GPU has none
    assert re.search(
        rf"^next: python -m warpwatch explain {NAIVE} --against [0-9a-f]{{12}}$", done.stdout, re.MULTILINE
    )
    # --lf runs just that again
    again = recorded.bench("--benchmark-compare", "--lf", seed=97)
    assert "1 passed" in again.stdout
    assert "1 same" in again.stdout


@pytest.mark.slow
def test_faster_is_told_and_passes(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare", slower={"matmul-tiled": 0.8}, seed=96)
    assert done.returncode == 0
    assert "3 faster, 14 same" in done.stdout
    assert "matmul-tiled-8x8-128x128x128-float32: faster: median" in done.stdout


@pytest.mark.once
@pytest.mark.parametrize(
    ("play", "said"),
    [
        (
            {"slower": {"matmul-naive-8x8": 1.2}, "throttle": ["software power cap"]},
            "clock throttled: software power cap",
        ),
        ({"others": {NAIVE: 99}}, r"another process was at work on the GPU: train \(process 7\)"),
    ],
)
def test_what_else_may_slow_a_case_makes_it_unsure(recorded: Bench, play: dict[str, Any], said: str) -> None:
    done = recorded.bench("--benchmark-compare", **play)
    assert done.returncode == 0
    assert "16 same, 1 unsure" in done.stdout
    assert re.search(rf"{NAIVE}: unsure: .*{said}", done.stdout)


@pytest.mark.slow
def test_what_a_reader_of_times_must_know_is_told_and_saved(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare", remarks=["persistence mode is off"])
    assert re.search(r"^persistence mode is off$", done.stdout, re.MULTILINE)
    saved = json.loads(Path(recorded.saved[-1]).read_text())
    assert saved["machine_info"]["gpu"]["remarks"] == ["persistence mode is off"]


@pytest.mark.slow
def test_what_others_disturbed_is_measured_again(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare", others={NAIVE: 1})
    assert done.returncode == 0
    assert "17 same" in done.stdout
    entry = next(e for e in json.loads(Path(recorded.saved[-1]).read_text())["benchmarks"] if e["param"] == NAIVE)
    assert entry["extra_info"]["other_processes"] == ["train (process 7)"]
    assert median(entry["extra_info"]["again"][0]) < median(entry["stats"]["data"]) / 2


@pytest.mark.slow
def test_another_driver_leaves_pairs_to_tell_what_the_source_changed(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare", driver="999.1", drift=2.0, slower={"matmul-naive-8x8": 1.05})
    assert done.returncode == 1
    assert re.search(r"/fake-gpu-1 is void: another driver \(580 then, 999 now\); both sides of a pair ", done.stdout)
    assert "to record the next baseline" in done.stdout
    assert re.search(r"decided by pairs: 1 case \(\d s, about 3 expected\), because another driver", done.stdout)
    assert "1 slower, 16 identical" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "play", "reason", "said"),
    [
        (("--no-confirm",), {"driver": "999.1"}, "another driver (580 then, 999 now)", "is void"),
        (("--warm-cache",), {}, "another cache mode (cold then, warm now)", "cannot be compared with this one"),
    ],
)
def test_another_driver_or_cache_mode_is_incomparable(
    recorded: Bench, args: tuple[str, ...], play: dict[str, Any], reason: str, said: str
) -> None:
    done = recorded.bench("--benchmark-compare", *args, slower={"matmul": 2.0}, **play)
    assert done.returncode == 0
    assert f"17 incomparable: {reason}" in done.stdout
    assert re.search(r"17 passed, \d+ deselected, 17 not compared", done.stdout)
    assert re.search(rf"\nNOTHING WAS COMPARED \(.*/fake-gpu-1 {said}: {re.escape(reason)};", done.stdout)
    assert ("to record the next baseline" in done.stdout) == (said == "is void")
    assert recorded.bench("--benchmark-compare", *args, "--fail-on", "incomparable", **play).returncode == 1


def test_a_wrong_kernel_gets_no_figure_and_no_place_in_a_baseline(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare", "--benchmark-save=wrong", wrong=["matmul-naive-8x8"])
    assert done.returncode == 1
    assert "matmul-naive-8x8-128x128x128-float32 is wrong" in done.stdout
    run = read_run(Path(recorded.saved[-1]))
    assert run.failed == ("matmul-naive-8x8-128x128x128-float32",)
    assert len(run.cases) == 16
    refused = recorded.promote(recorded.saved[-1], "--allow", "partial")
    assert refused.returncode == 1
    assert "1 cases failed: matmul-naive-8x8-128x128x128-float32" in refused.stderr
    assert len(list(recorded.baseline.iterdir())) == 3


@pytest.mark.slow
def test_new_and_missing_cases(checkout: Bench) -> None:
    """A case that the baseline lacks is new; one that only the baseline has fails a whole run."""
    checkout.declare_two_families()
    assert checkout.bench(few=False).returncode == 0
    document = json.loads(Path(checkout.saved[0]).read_text())
    gone = document["benchmarks"].pop(0)  # of hello, in float32 as nobody knows it
    document["benchmarks"].append(gone | {"param": "hello-hello-9x9-15-none"})
    checkout.baseline.mkdir(parents=True)
    (checkout.baseline / "0001_made.json").write_text(json.dumps(document))
    done = checkout.bench("--benchmark-compare", few=False)
    assert done.returncode == 1
    assert re.search(r"\d+ same, 1 new, 1 missing", done.stdout)
    assert "hello-hello-9x9-15-none: missing: the other side has it, this run has not" in done.stdout
    assert " failed" not in done.stdout.splitlines()[-1]
    # Nobody misses what was not asked for.
    assert ": missing:" not in checkout.bench("--benchmark-compare", "-k", "copy", few=False).stdout


@pytest.mark.slow
def test_runs_are_saved_by_gpu_whole_and_never_into_the_baseline(recorded: Bench) -> None:
    before = [path.read_bytes() for path in sorted(recorded.baseline.iterdir())]
    count = len(recorded.saved)
    recorded.bench("--benchmark-compare", slower={"matmul": 1.5})
    assert len(recorded.saved) == count + 1
    assert Path(recorded.saved[-1]).parent == recorded.folder / ".benchmarks" / "fake-gpu-1"
    assert [path.read_bytes() for path in sorted(recorded.baseline.iterdir())] == before
    assert not list((recorded.folder / ".benchmarks").rglob("*.tmp"))


@pytest.mark.slow
def test_a_slower_night_never_becomes_the_reference_by_itself(recorded: Bench) -> None:
    """pytest-benchmark's own comparison passes a kernel that loses 10 % a night (it compares with the last run)."""
    for night in range(2):
        done = recorded.bench("--benchmark-compare", slower={"matmul-naive": 1.1 ** (night + 1)})
        assert done.returncode == 1
        assert "3 slower" in done.stdout


@pytest.mark.slow
def test_a_saved_run_can_be_the_reference(recorded: Bench) -> None:
    recorded.bench("--benchmark-save=before")
    (before,) = (Path(path).name for path in recorded.saved if path.endswith("_before.json"))
    done = recorded.bench(f"--benchmark-compare={before[:4]}")
    assert "baseline: 1 runs in" in done.stdout
    assert (
        "too few runs (1) to show the spread between processes: that of an H200 is assumed; five make a baseline"
        in done.stdout
    )
    assert "17 same" in done.stdout
    done = recorded.bench("--benchmark-compare=9999")
    assert done.returncode == 4
    assert "--benchmark-compare=9999: no such run in" in done.stderr


@pytest.mark.parametrize(
    "chosen", ["/no/such.json", "no/such.json", "../x", "a" * 300, "[", "**", "/dev/null", "/proc"]
)
def test_a_reference_that_is_not_there_is_said(tmp_path: Path, chosen: str) -> None:
    with pytest.raises(BadRun, match=re.escape(f"--benchmark-compare={chosen}: no such run in ")):
        find_runs(chosen, tmp_path, tmp_path / "baselines", "a-gpu", "GPU-1")


@pytest.mark.slow
def test_a_broken_baseline_stops_the_run_with_one_sentence(checkout: Bench) -> None:
    checkout.baseline.mkdir(parents=True)
    (checkout.baseline / "0001_cut.json").write_text('{"benchmarks": [')
    done = checkout.bench("--benchmark-compare")
    assert done.returncode == 4
    assert "0001_cut.json: is not whole JSON" in done.stderr


@pytest.mark.slow
def test_pytest_benchmarks_own_options_keep_working(checkout: Bench) -> None:
    asked = ("--benchmark-json=out.json", "--benchmark-save=too", "--benchmark-group-by=param:variant")
    done = checkout.bench(*asked, *SEVEN_ROUNDS)
    assert "benchmark 'variant=tiled': 3 tests" in done.stdout
    document = json.loads((checkout.folder / "out.json").read_text())
    assert {entry["stats"]["rounds"] for entry in document["benchmarks"]} == {7}
    assert {entry["options"]["timer"] for entry in document["benchmarks"]} == {"read"}
    assert document["machine_info"]["gpu"]["name"] == "Fake GPU 1"
    (saved,) = (checkout.folder / ".benchmarks").glob("*/*_too.json")
    assert json.loads(saved.read_text())["datetime"] == document["datetime"]  # by which they are known for one run
    facts = document["benchmarks"][0]["extra_info"]
    assert {
        "gflops",
        "gbs",
        "sm_clock_mhz",
        "throttle",
        "hold_timeouts",
        "cache",
        "image_hash",
        "identity",
    } <= facts.keys()
    disabled = checkout.bench("--benchmark-disable")
    assert "17 passed" in disabled.stdout
    assert "Rounds" not in disabled.stdout


@pytest.mark.slow
def test_holds_that_timed_out_are_told(checkout: Bench) -> None:
    done = checkout.bench("-k", "matmul-tiled-8x8-128x128x128-float32", *SEVEN_ROUNDS, timeouts=1)
    assert "7 samples were thrown away and taken again, because the hold ran into its limit" in done.stdout


@pytest.mark.slow
def test_promoting_shows_what_changes_and_refuses_what_should_not_be(recorded: Bench) -> None:
    recorded.bench("--benchmark-save=slow", slower={"matmul-naive-8x8": 1.25})
    run = recorded.saved[-1]
    shown = recorded.promote(run, "--allow", "partial", "--dry-run")
    assert shown.returncode == 0
    assert re.search(r"\+2[45]\.\d\d %  .* µs  matmul-naive-8x8-128x128x128-float32", shown.stdout)
    assert len(list(recorded.baseline.iterdir())) == 3
    refused = recorded.promote(run)
    assert refused.returncode == 1
    assert "does not hold every case\n  refused; to do it all the same: --allow partial" in refused.stderr
    with (recorded.folder / "conftest.py").open("a") as file:
        file.write("# a change\n")
    recorded.bench("--benchmark-save=dirty")
    refused = recorded.promote(recorded.saved[-1], "--allow", "partial")
    recorded._run("git", "checkout", "-q", "conftest.py")
    assert "was measured on uncommitted changes" in refused.stderr
    recorded.bench("--benchmark-save=warm", "--warm-cache")
    assert "another cache mode than the baseline (cold)" in recorded.promote(recorded.saved[-1]).stderr


@pytest.mark.slow
def test_a_process_effect_raises_an_alarm_of_its_own_and_accuses_no_kernel(checkout: Bench) -> None:
    chosen = ("-k", "matmul and (128x128x128 or 256x256x256) and not host and not vendor")
    for seed in range(3):
        assert checkout.bench(*chosen, few=False, seed=seed).returncode == 0
    assert checkout.promote(*checkout.saved, "--allow", "partial").returncode == 0
    done = checkout.bench("--benchmark-compare", *chosen, few=False, drift=1.05, slower={"matmul-naive": 1.1})
    assert done.returncode == 1
    assert re.search(r"everything takes [45]\.\d % longer.*: driver, clock or cooling, not a kernel", done.stdout)
    assert re.search(r"12 slower, \d+ same\n", done.stdout)
    assert "decided by" not in done.stdout  # three runs of this GPU and day, and 56 controls: saved times decide
    decided = {str(each.decided_by) for each in read_run(Path(checkout.saved[-1])).decisions.values()}
    assert decided == {SAVED_TIMES}


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("drift", [1.1, 0.9])
def test_the_same_machine_code_is_never_called_slower_or_faster(recorded: Bench, drift: float) -> None:
    done = recorded.bench("--benchmark-compare", drift=drift)
    assert done.returncode == 0
    assert "17 unsure" in done.stdout
    assert (
        "its machine code, launches, arguments and inputs are the baseline's: GPU, driver or memory, not the kernel"
        in done.stdout
    )
    assert done.stdout.count("3 processes; its machine code") == 17
    # Nor is other machine code, where no case shows that the run as a whole takes longer; pairs tell.
    again = recorded.bench("--benchmark-compare", "--no-confirm", drift=drift, changed=["matmul"])
    assert "17 unsure" in again.stdout
    assert "no cases of the baseline's work, and it takes 30 to see what this run does to all" in again.stdout
    again = recorded.bench("--benchmark-compare", drift=drift, changed=["matmul"])
    assert "17 same" in again.stdout


@pytest.mark.slow
def test_a_kernel_that_fails_when_measured_again_fails_its_case(recorded: Bench) -> None:
    done = recorded.bench("--benchmark-compare", drift=1.1, breaks_again=["matmul-naive-8x8"])
    assert done.returncode == 1
    assert "measured again in a fresh process: matmul-naive-8x8-128x128x128-float32: the kernel failed" in done.stdout


@pytest.mark.slow
def test_an_interrupted_run_gives_no_verdicts_and_leaves_whole_files(recorded: Bench) -> None:
    done = recorded.bench(
        "--benchmark-compare", "--benchmark-save=cut", interrupt="matmul-tiled-8x8-128x128x128-float32"
    )
    assert done.returncode == 2
    assert "interrupted: no case has a verdict" in done.stdout
    for path in recorded.saved:
        assert not path.endswith("_cut.json") or not read_run(Path(path)).whole
    assert not list((recorded.folder / ".benchmarks").rglob("*.tmp"))


@pytest.mark.slow
def test_a_case_that_only_another_gpus_runs_have_is_incomparable(checkout: Bench) -> None:
    without = f"{FEW} and not naive-8x8"
    for seed in range(3):
        assert checkout.bench("-k", without, few=False, seed=seed).returncode == 0
    assert checkout.bench(uuid="GPU-2").returncode == 0
    assert checkout.promote(*checkout.saved, "--allow", "partial").returncode == 0
    done = checkout.bench("--benchmark-compare")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 incomparable: only runs on another GPU have it" in done.stdout


@pytest.mark.slow
def test_on_another_gpu_unchanged_cases_show_how_wide_floors_must_be(checkout: Bench) -> None:
    many = ("-k", "matmul and (128x128x128 or 256x256x256) and not host and not vendor")
    for seed in range(3):
        play: dict[str, Any] = {"seed": seed, "uuid": f"GPU-{seed}", "drift": 1 + 0.02 * seed}
        assert checkout.bench(*many, few=False, **play).returncode == 0
    assert checkout.promote(*checkout.saved, "--allow", "partial").returncode == 0
    slower: dict[str, Any] = {"slower": {"matmul-naive": 1.02}, "uuid": "GPU-9", "seed": 9, "drift": 1.04}
    done = checkout.bench("--benchmark-compare", "--no-confirm", *many, few=False, **slower)
    assert "everything takes" not in done.stdout
    assert re.search(r"12 slower, \d+ same\n", done.stdout)
    alone = ("--benchmark-compare", "--no-confirm")
    done = checkout.bench(*alone, *many, few=False, **slower, odd={"matmul-tiled": 1.03})
    assert re.search(
        r"noise floors widened [3-9]\.\d×: an unchanged kernel differs by that much on this GPU", done.stdout
    )
    assert done.returncode == 0


NIGHTS = [datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2, 3)]
CASE = "copy-naive-256-1048576-float32"


def night(day: int, commit: str, *, dirty: bool | None = False) -> RunRecord:
    return RunRecord(path=Path(f"{day}.json"), commit=Commit(id=commit, dirty=dirty), when=NIGHTS[day])


def test_the_newest_run_of_a_clean_commit_is_built() -> None:
    runs = [night(0, "a" * 40), night(1, "b" * 40), night(2, "c" * 40, dirty=True), RunRecord(path=Path("no commit"))]
    assert newest_clean(runs) is runs[1]
    assert newest_clean(runs[2:]) is None


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([night(0, "a" * 40, dirty=True)], "no run of the baseline names a clean commit that it was made of"),
        (
            [night(0, "a" * 40)],
            "aaaaaaaaaaaa, which the baseline was made of, is not in HEAD's history here",
        ),
    ],
)
def test_a_commit_that_is_not_this_branchs_own_is_not_run(runs: list[RunRecord], said: str) -> None:
    measured = Measured(kernel=cast(Any, None), case=case_named(CASE), kind="cold")
    comparison = BaselineComparison(runs=runs, measured={CASE: measured})
    assert comparison.old_codes([CASE], find_project(ROOT), Target("sm_90")) == {CASE: said}


def case_named(name: str) -> Case:
    return find_case(find_project(ROOT).families, name)


def test_of_each_case_it_is_said_why_its_code_of_then_is_not_there() -> None:
    other: Any = None
    past = night(0, "a" * 40)
    assert built_again(case_named("copy-memcpy-vendor-1048576-float32"), None, past, "13.0") == CALL
    assert built_again(case_named(CASE), None, past, "13.0") == "aaaaaaaaaaaa, the baseline's newest, does not have it"
    had = RunRecord(
        path=Path("0.json"),
        gpu=Gpu(toolkit="13.0"),
        commit=past.commit,
        cases={CASE: CaseRecord(samples=(1.0,), facts=Facts(image_hash="then"))},
    )
    broken = CommitCase(other=other, image=CompileError("copy.cu: no code\nin many lines"))
    assert built_again(case_named(CASE), broken, had, "13.0") == "in aaaaaaaaaaaa, copy.cu: no code"
    now = CommitCase(other=other, image=Image(Path("none"), "source", "now"))
    said = "aaaaaaaaaaaa, compiled here, is not the code that the baseline was measured with"
    assert built_again(case_named(CASE), now, had, "13.0") == said
    assert built_again(case_named(CASE), now, had, "13.1") is now  # another nvcc makes other machine code


def run_timed(**ways: str) -> RunRecord:
    """Return a run that read the time of each of its cases in some way."""
    cases = {name: CaseRecord(samples=(1.0,), facts=Facts(how=how)) for name, how in ways.items()}
    return RunRecord(path=Path("0.json"), cases=cases)


def test_a_time_by_events_and_one_by_slope_are_not_compared() -> None:
    slope, runs = "slope of wall time", [run_timed(a="", b="", c=""), run_timed(a="", b="slope of wall time", d="")]
    measured: Any = {
        name: SimpleNamespace(facts=facts)
        for name, facts in {
            "a": {},
            "b": {"how": slope},
            "c": {"how": slope},
            "e": {"how": slope},
        }.items()
    }
    left, decisions = timed_alike(measured, runs)
    assert [sorted(run.cases) for run in left] == [["a"], ["a", "b", "d"]]
    assert {name: decision.verdict for name, decision in decisions.items()} == {"c": Verdict.INCOMPARABLE}
    assert decisions["c"].reason == "another way of timing (by events then, slope of wall time now)"


def test_times_of_arrays_in_another_number_of_places_are_not_compared() -> None:
    run = RunRecord(
        path=Path("0.json"),
        cases={name: CaseRecord(samples=(1.0,), facts=Facts(places=places)) for name, places in (("a", 1), ("b", 4))},
    )
    measured: Any = {"a": SimpleNamespace(facts={"places": 2}), "b": SimpleNamespace(facts={"places": 4})}
    left, decisions = timed_alike(measured, [run])
    assert [sorted(each.cases) for each in left] == [["b"]]
    assert {name: decision.reason for name, decision in decisions.items()} == {
        "a": "another way of timing (arrays in 1 place then, 2 now; record the baseline anew)"
    }
