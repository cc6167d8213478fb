"""Tests `pytest bench --against REV` from git to verdict, on a fake GPU and with kernels on the software device."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kernels import FAMILIES
from tests.checkout import FEW, Bench
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.project import Project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.cli.watch import times
from warpwatch.compare.saved_verdicts import side_by_side as verdicts_of_pairs
from warpwatch.devices.compile.toolchain import INSTALLED
from warpwatch.report.tables import line, sentence
from warpwatch.revision.commit import checkout, find_commit, read_other_kernels
from warpwatch.revision.declared import BadRevision, own_identity
from warpwatch.runs.baseline import objections
from warpwatch.runs.identity import difference, incomparable
from warpwatch.runs.record import BuildCost, read_run
from warpwatch.verdict.rule import Verdict

NAIVE = "matmul-naive-8x8-128x128x128-float32"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A checkout. Tests that share it change nothing of it."""
    return Bench(tmp_path_factory.mktemp("old"))


def project(bench: Bench) -> Project:
    return Project(root=bench.folder, module="kernels", families=())


@pytest.mark.slow
def test_the_same_revision_is_identical_and_nothing_is_measured(old: Bench) -> None:
    done = old.bench("--against", "HEAD", interrupt=NAIVE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"against HEAD \([0-9a-f]{12}\), both sides in the same processes", done.stdout)
    assert "17 identical" in done.stdout
    assert "controls" not in done.stdout


@pytest.mark.slow
def test_what_another_toolchain_slows_is_slower_and_all_else_identical(old: Bench) -> None:
    play, more = {"matmul-naive-8x8": 1.04}, ("--json=found.json", "--benchmark-save=rebuilt")
    done = old.bench("--against", "HEAD", "--toolchain", "nvcc -O1", *more, toolchain=play)
    assert done.returncode == 1, done.stdout + done.stderr
    title = INSTALLED.title
    assert f"toolchains: {title} -> {title} -O1\n" in done.stdout
    assert "1 slower, 16 identical" in done.stdout
    build = NAIVE.replace("128x128x128-", "")
    assert f"next: python -m warpwatch diff HEAD --toolchain 'nvcc -O1' -k {build}\n" in done.stdout
    document = json.loads((old.folder / "found.json").read_text())
    assert document["settings"]["toolchain"] == "nvcc -O1"
    assert len(document["costs"]) == 17
    assert document["costs"][build] == {"old_bytes": 0, "new_bytes": 0, "old_seconds": None, "new_seconds": None}
    run = read_run(Path(next(path for path in old.saved if path.endswith("_rebuilt.json"))))
    hashes = {("code of another toolchain", "code")}
    assert {(each.facts.image_hash, each.facts.other_image_hash) for each in run.cases.values()} == hashes


@pytest.mark.slow
def test_a_toolchain_that_changes_no_machine_code_measures_nothing(old: Bench) -> None:
    done = old.bench("--against", "HEAD", "--toolchain", "nvcc -O1", interrupt=NAIVE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 identical" in done.stdout


@pytest.mark.slow
def test_machine_code_and_compile_time_can_fail_the_run(old: Bench) -> None:
    gates = ("--fail-on", "size", "--fail-on", "compile-time")
    costs = {"none": [1280, 1.0], "other code": [1408, 3.5]}
    done = old.bench("--against", "HEAD", *gates, "--benchmark-save=costs", changed=["matmul-naive-8x8"], costs=costs)
    assert done.returncode == 1, done.stdout + done.stderr
    build = NAIVE.replace("128x128x128-", "")
    assert f"{build}: machine code grew from 1,280 to 1,408 bytes\n" in done.stdout
    time = "1.00 -> 3.50 s of processor time (+250.0 %)\n"
    assert f"{build}: compile time grew by over 100%: {time}" in done.stdout
    assert f"\ncompile time of 1 build: {time}" in done.stdout
    run = read_run(Path(next(path for path in old.saved if path.endswith("_costs.json"))))
    assert run.costs == {build: BuildCost(old_bytes=1280, new_bytes=1408, old_seconds=1.0, new_seconds=3.5)}
    assert [(each.facts.code_bytes, each.facts.compile_seconds) for each in run.cases.values()] == [(1408, 3.5)]


@pytest.mark.slow
def test_a_process_that_others_disturbed_does_not_count(old: Bench) -> None:
    done = old.bench("--against", "HEAD", changed=["matmul-naive-8x8"], others={NAIVE: 1})
    assert done.returncode == 0
    assert "1 same, 16 identical" in done.stdout


@pytest.mark.slow
def test_controls_are_a_quarter_of_what_differs(old: Bench) -> None:
    done = old.bench("--against", "HEAD", changed=["matmul-naive", "matmul-strided"])
    assert done.returncode == 0, done.stdout + done.stderr
    changed = int(re.search(r"(\d+) same, \d+ identical", done.stdout)[1])  # type: ignore[index]
    assert changed > 4
    count = math.ceil(changed / 4)
    said = f"controls: {count} of identical machine code, measured all the same: {count} same\n"
    assert said in done.stdout


@pytest.mark.slow
def test_slower_fails_its_case_and_both_sides_are_saved(old: Bench) -> None:
    args = ("--against", "HEAD", "--junitxml=results.xml", "--benchmark-save=pairs")
    done = old.bench(*args, slower={"matmul-naive-8x8": 1.04}, changed=["matmul-tiled"])
    assert done.returncode == 1
    assert "1 slower, 3 same, 13 identical" in done.stdout
    pattern = rf"^{NAIVE}: slower: median [\d.]+ -> [\d.]+ µs, \+[34]\.\d % \(95 %.*\), floor 0\.\d %, 3 processes$"
    assert re.search(pattern, done.stdout, re.MULTILINE)
    (failure,) = ET.parse(old.folder / "results.xml").getroot().iter("failure")
    assert str(failure.get("message")).startswith("slower: median")
    cases = ET.parse(old.folder / "results.xml").getroot().iter("testcase")
    (case,) = (case for case in cases if case.find("failure") is not None)
    explained = {each.get("name"): each.get("value") for each in case.iter("property")}["explanation"]
    assert explained == "the machine code cannot be compared: [Errno 2] No such file or directory: 'none'"
    assert [each.text for each in case.iter("system-out")] == [explained]
    assert re.search(rf"floor 0\.\d %, 3 processes\n    {re.escape(explained)}\n", done.stdout)
    (path,) = (Path(path) for path in old.saved if path.endswith("_pairs.json"))
    shown, good = times(read_run(path), done.stdout.splitlines())  # as `warpwatch watch` shows it
    assert not good
    pattern = rf"times     1 slower, 3 same, 13 identical; {NAIVE}: slower: median .*, 3 processes"
    assert re.fullmatch(pattern, shown)
    document = json.loads(path.read_text())
    (entry,) = (entry for entry in document["benchmarks"] if entry["param"] == NAIVE)
    assert [len(side) for side in entry["extra_info"]["pairs"].values()] == [3, 3]
    assert entry["stats"]["data"] == entry["extra_info"]["pairs"]["new"][0]
    run = read_run(path)
    assert f"{NAIVE}: {sentence(run.decisions[NAIVE])}\n" in done.stdout
    assert (run.decisions[NAIVE].explanation, run.decisions[NAIVE].processes) == (explained, 3)
    assert Counter(each.verdict for each in run.decisions.values()) == {"slower": 1, "same": 3, "identical": 13}
    assert list(run.controls.values()) == ["same"]
    ((test, fault),) = ((test, fault) for test in run.tests for fault in test.faults)
    assert (test.case, run.is_slower(test), fault.kind) == (NAIVE, True, "slower")
    assert fault.place.message == line(run.decisions[NAIVE])
    assert run.against == find_commit("HEAD", old.folder)
    assert "against" in objections([run], [])


OTHERS = r"another process was at work on the GPU: train \(process 7\)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("play", "said"),
    [
        ({"throttle": ["hardware slowdown"]}, "clock throttled: hardware slowdown"),
        (
            {"throttle": ["software power cap"], "clocks": [1500, 1364]},
            r"in cycles [+-]0\.\d %; clock throttled: software power cap",
        ),
        ({"others": {NAIVE: 99}}, OTHERS),
        ({"others": {NAIVE: 99}, "clocks": [1500, 1500]}, OTHERS),
    ],
    ids=["throttled", "slower in time alone", "others at work", "others at work, clock read"],
)
def test_what_else_may_slow_a_pair_makes_it_unsure(old: Bench, play: dict[str, Any], said: str) -> None:
    done = old.bench("--against", "HEAD", slower={"matmul-naive-8x8": 1.1}, **play)
    assert done.returncode == 0
    assert "1 unsure, 16 identical" in done.stdout
    assert re.search(f"unsure: .*{said}", done.stdout)


@pytest.mark.slow
def test_an_unsure_pair_can_fail_the_run(old: Bench) -> None:
    play: dict[str, Any] = {"slower": {"matmul-naive-8x8": 1.1}, "throttle": ["hardware slowdown"]}
    assert old.bench("--against", "HEAD", "--fail-on", "unsure", **play).returncode == 1


@pytest.mark.slow
def test_where_the_clock_was_read_beside_the_samples_a_cap_makes_no_pair_unsure(old: Bench) -> None:
    cap = ["software power cap"]
    args = ("--against", "HEAD", "--benchmark-save=capped")
    done = old.bench(*args, slower={"matmul-naive-8x8": 1.1}, throttle=cap, clocks=[1500, 1500])
    assert done.returncode == 1
    change = re.search(rf"{NAIVE}: slower: .*; in cycles (.*) %; clock throttled: software power cap", done.stdout)
    assert change
    assert 8 < float(change[1]) < 12
    (path,) = (Path(path) for path in old.saved if path.endswith("_capped.json"))
    run = read_run(path)
    sides = run.cases[NAIVE].facts.pairs
    assert sides
    assert sides.new_mhz == ((1500.0,) * 10,) * 3
    again = verdicts_of_pairs(run).decisions[NAIVE]
    assert (again.verdict, "in cycles +" in again.reason) == (Verdict.SLOWER, True)
    done = old.bench("--against", "HEAD", changed=["matmul-naive-8x8"], throttle=cap, clocks=[1500, 1500])
    assert done.returncode == 0
    assert " same" in done.stdout


@pytest.mark.slow
def test_what_was_wrong_before_has_no_time_to_compare_with(old: Bench) -> None:
    done = old.bench("--against", "HEAD", changed=["matmul-naive"], other_wrong=["matmul-naive-8x8"])
    assert done.returncode == 0
    assert f"1 incomparable: in HEAD: {NAIVE} is wrong\n" in done.stdout


@pytest.mark.slow
def test_where_every_case_is_incomparable_the_run_fails_and_says_so_last(old: Bench) -> None:
    chosen = ("-k", f"{FEW} and naive-8x8")
    done = old.bench("--against", "HEAD", *chosen, few=False, changed=["matmul"], other_wrong=["matmul"])
    assert done.returncode == 1
    *_, counts, last = done.stdout.splitlines()
    assert re.match(r"2 passed, \d+ deselected, 2 not compared in", counts)
    assert re.match(r"NOTHING WAS COMPARED \(--against\): 1 incomparable: in HEAD: .* is wrong; 1 incomparable:", last)
    done = old.bench("--against", "HEAD", changed=["matmul-naive"], other_wrong=["matmul-naive-8x8"])
    assert (done.returncode, "1 not compared" in done.stdout) == (0, True)


def test_new_missing_and_other_launches(checkout: Bench) -> None:
    """A variant that only one side has, and one whose block covers more."""
    checkout.declare_two_families()
    checkout.commit()
    family = checkout.folder / "kernels" / "hello" / "__init__.py"
    family.write_text(family.read_text().replace("((5, 5), (8, 4))", "((6, 6), (8, 4))", 1))
    done = checkout.bench("--against", "HEAD", few=False)
    assert done.returncode == 1
    assert re.search(r"hello-hello-6x6-\d+-none: new", done.stdout)
    assert re.search(r"hello-hello-5x5-\d+-none: missing: the other side has it, this run has not", done.stdout)
    assert checkout.bench("--against", "HEAD", "-k", "hello", few=False).returncode == 0


@pytest.mark.slow
def test_an_interrupted_run_keeps_whole_files_and_says_so(old: Bench) -> None:
    done = old.bench("--against", "HEAD", "--benchmark-save=cut", changed=["matmul"], interrupt=NAIVE)
    assert done.returncode == 2
    assert "interrupted: no case has a verdict" in done.stdout
    cut = [Path(path) for path in old.saved if path.endswith("_cut.json")]
    assert all(not read_run(path).whole for path in cut)
    assert not list((old.folder / ".benchmarks").rglob("*.tmp"))


# Bad input


@pytest.mark.once
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--against", "nope"), "ERROR: --against=nope: git knows no such revision here"),
        (("--against=--all",), "git knows no such revision here"),
        (("--against", ""), "ERROR: --against='' names no revision: give a commit, a branch or a tag"),
        (("--against", "  "), "ERROR: --against='  ' names no revision: give a commit, a branch or a tag"),
        (("--against", "HEAD", "--require-baseline"), "ERROR: --require-baseline compares nothing by itself"),
        (
            ("--against", "HEAD", "-k", "matmul and host and float32 and 128x128x128"),
            "ERROR: --against: none of the 1 selected cases is in HEAD, so nothing would be compared",
        ),
        (
            ("--against", "HEAD", "--benchmark-compare"),
            "ERROR: --benchmark-compare and --against are different things to do: choose one",
        ),
        (("--against", "HEAD", "--device=none"), ""),
    ],
)
def test_what_cannot_be_is_one_sentence(old: Bench, args: tuple[str, ...], message: str) -> None:
    before = old.saved
    done = old.bench(*args) if message else old._run(sys.executable, "-m", "pytest", "bench", *args)
    assert done.returncode == 4
    assert message in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert old.saved == before


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            "git rm -rq kernels && mkdir -p kernels && touch kernels/other",
            "its declarations cannot be read by this code",
        ),
        ("git rm -rq kernels", "it has no kernels"),
        ("echo 'FAMILIES = 1 +' >> kernels/__init__.py", "cannot be read by this code (SyntaxError: invalid syntax)"),
        ("echo '' > kernels/__init__.py", "cannot be read by this code (LookupError: kernels declares no Family)"),
        ("echo 'FAMILIES = ()' >> kernels/__init__.py", "(LookupError: kernels declares no Family)"),
        ("echo 'raise ValueError(7)' >> kernels/__init__.py", "cannot be read by this code (ValueError: 7)"),
    ],
)
def test_a_revision_whose_kernels_cannot_be_read(checkout: Bench, damage: str, message: str) -> None:
    (checkout.folder / "sound").mkdir()
    checkout._run("cp", "-r", "kernels", "sound/kernels")
    checkout._run("sh", "-c", damage)
    checkout.commit()
    checkout._run("sh", "-c", "rm -rf kernels && mv sound/kernels kernels")
    done = checkout.bench("--against", "HEAD")
    assert done.returncode == 4, done.stdout
    assert "ERROR: --against=HEAD: it" in done.stderr
    assert message in done.stderr


def test_a_shallow_clone_says_so(old: Bench, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{old.folder}", str(tmp_path / "c")], check=True)
    with pytest.raises(BadRevision, match="shallow; `git fetch --unshallow` gets the rest"):
        find_commit("HEAD~1", tmp_path / "c")
    with pytest.raises(BadRevision, match="is not a git checkout"):
        find_commit("HEAD", tmp_path)


# Real kernels


@pytest.mark.slow
def test_every_case_is_declared_as_this_code_knows_it(old: Bench) -> None:
    """A declaration that is read back launches what this revision would."""
    commit = find_commit("HEAD", old.folder)
    others = read_other_kernels(checkout(commit, "HEAD", project(old)), "kernels", "HEAD", "sm_90")
    cases = {case.id: case for case in timed_cases(FAMILIES) if not case.variant.on_host}
    assert others.keys() == cases.keys()
    for name, other in others.items():
        case = cases[name]
        assert not difference(other.identity, own_identity(case)).changed
        assert other.call == (case.variant.name if case.variant.call else "")
        assert (other.symbols, len(other.steps)) == (case.variant.symbols, len(case.steps))
        at = {array.name: (i + 1) << 20 for i, array in enumerate(case.arrays)}
        for theirs, own in zip(other.steps, case.steps, strict=True) if not case.variant.call else ():
            assert other.kernels.all_macros == case.build.all_macros
            assert (theirs.entry, theirs.launch) == (own.entry, own.launch)
            filled = [(value.dtype, value.item()) for value in theirs.fill(at)]
            assert filled == [(value.dtype, value.item()) for value in case.arguments(own, at)]


@pytest.mark.slow
def test_a_kernel_of_another_shape_is_told(old: Bench) -> None:
    own = own_identity(find_case(FAMILIES, NAIVE))
    tree = checkout(find_commit("HEAD", old.folder), "HEAD", project(old))
    others = read_other_kernels(tree, "kernels", "HEAD", "sm_90")
    other = others[NAIVE.replace("128x128x128", "256x256x256")]
    assert incomparable(other.identity, own).startswith("its inputs were others (array A: shape 256x256 -> 128x128; ")


REAL = (
    "-k",
    "matmul-naive-8x8-128x128x128-float32 or matmul-tiled-8x8-128x128x128-float32",
    "--benchmark-max-time=0.1",
)


@pytest.mark.slow
def test_real_kernels_of_two_revisions_run_side_by_side(checkout: Bench) -> None:
    """The old naive kernel is wrong, the old tiled one does not compile; the new ones are right."""
    naive, tiled = (checkout.folder / "kernels" / "matmul" / f"{name}.cu" for name in ("naive", "tiled"))
    texts = [path.read_text() for path in (naive, tiled)]
    tiled.write_text("__global__ void no kernel() {}\n")
    checkout.commit()
    naive.write_text(texts[0].replace("+=", "-="))
    tiled.write_text(texts[1].replace("scalar_t", "scalar_t "))
    checkout.commit()
    naive.write_text(texts[0])
    command = (sys.executable, "-m", "pytest", "bench", "-q", "--device=software", *REAL)
    done = checkout._run(*command, "--against", "HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"1 incomparable: in HEAD: {NAIVE} is wrong" in done.stdout
    done = checkout._run(*command, "--against", "HEAD~1")
    assert "1 incomparable: in HEAD~1, kernels/matmul/tiled.cu does not compile" in done.stdout
    assert "1 identical" in done.stdout


@pytest.mark.slow
def test_a_real_slowdown_is_seen_and_not_called_on_a_device_without_a_clock(checkout: Bench) -> None:
    naive = checkout.folder / "kernels" / "matmul" / "naive.cu"
    text = naive.read_text()
    thrice = "for (volatile int again = 0; again < 3; again = again + 1) {\n    sum = 0;\n    for (int i"
    naive.write_text(text.replace("for (int i", thrice).replace("    c[", "    }\n    c["))
    command = (sys.executable, "-m", "pytest", "bench", "-q", "--device=software", *REAL)
    done = checkout._run(*command, "--against", "HEAD")
    assert done.returncode == 0, done.stdout + done.stderr
    line = re.search(
        rf"{NAIVE}: unsure: median .* \+(\d+)\.\d % \(95 %.*; (a device made of|varies too much between processes)",
        done.stdout,
    )
    assert line, done.stdout
    assert int(line[1]) > 50
