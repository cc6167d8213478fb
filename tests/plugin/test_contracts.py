"""Tests of contracts in whole runs of a benchmark: what is kept, broken, unsure and not checked, and what is said."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import Bench
from tests.cli.test_diff import needs_tools
from tests.fake_gpu import INFO
from tests.stranger import TABLE, run_pytest
from warpwatch.runs import contracts as files

CUBLAS = "matmul-cublas-vendor-128x128x128-float32"
NAIVE = "matmul-naive-16x16-128x128x128-float32"
FEW = ("-k", "matmul and 128x128x128 and float32 and not host and (naive or tiled or cublas)")


def limited(checkout: Bench, fields: str) -> None:
    """Give the naive matrix product limits."""
    file = checkout.folder / "kernels" / "matmul" / "__init__.py"
    text = file.read_text()
    before, name, after = text.partition(' "naive",\n')
    note, comma, rest = after.partition(",\n")
    file.write_text(f"{before}{name}{note}{comma}            {fields},\n{rest}")


def seconds(case: str) -> float:
    """Return the time that the fake GPU gives a case."""
    return 20e-6 + int.from_bytes(hashlib.sha256(case.encode()).digest()[:2], "big") * 1e-9


def run(checkout: Bench, *options: str, **play: Any) -> tuple[int, str, dict[str, Any]]:
    """Run the benchmark; return its exit status, what it printed, and its cases as --json has them, by id."""
    file = checkout.folder / "run.json"
    done = checkout.bench(*FEW, f"--json={file}", *options, few=False, **play)
    document = json.loads(file.read_text())
    return done.returncode, done.stdout, {case["id"]: case for case in document["cases"]}


def test_a_limit_that_is_kept_is_counted_and_costs_no_further_process(checkout: Bench) -> None:
    limited(checkout, "at_most=dict(registers=32, local_bytes=0, seconds=1e-3)")
    status, said, cases = run(checkout)
    assert status == 0, said
    assert "contracts: 9 kept\n" in said
    kept = {clause["name"]: clause for clause in cases[NAIVE]["contract"]}
    assert {name: clause["standing"] for name, clause in kept.items()} == dict.fromkeys(kept, "kept")
    assert (kept["registers"]["figure"], kept["seconds"]["processes"]) == (32, 1)
    assert kept["seconds"]["low"] < kept["seconds"]["figure"] < kept["seconds"]["high"] < 1e-3


@pytest.mark.once
@pytest.mark.parametrize(
    ("needs", "clause", "said"),
    [
        ([40, 0], "registers", "40 registers a thread, at most 32 (8 too many)"),
        (
            [32, 16],
            "local_bytes",
            "16 bytes of local memory a thread, at most 0 (16 too many)",
        ),
    ],
)
def test_machine_code_beyond_its_limit_fails_its_case_alone(
    checkout: Bench, needs: list[int], clause: str, said: str
) -> None:
    limited(checkout, "at_most=dict(registers=32, local_bytes=0)")
    sarif = checkout.folder / "run.sarif"
    status, printed, cases = run(checkout, f"--sarif={sarif}", needs={"naive-16x16": needs})
    assert status == 1
    assert f"{NAIVE}: broken: {said}" in printed
    assert "contracts: 5 kept, 1 broken\n" in printed
    failed = {name for name, case in cases.items() if case["outcome"] == "failed"}
    assert failed == {NAIVE}
    assert {each["name"]: each["standing"] for each in cases[NAIVE]["contract"]}[clause] == "broken"
    ((fault,), document) = cases[NAIVE]["faults"], json.loads(sarif.read_text())
    assert (fault["kind"], said in fault["message"]) == ("broken contract", True)
    assert [each["ruleId"] for each in document["runs"][0]["results"]] == ["broken-contract"]
    assert cases[NAIVE]["next"].startswith(f"python -m warpwatch bisect {NAIVE} ")


@pytest.mark.once
@pytest.mark.parametrize(("factor", "standing"), [(1.02, "kept"), (1.0, "unsure"), (0.98, "broken")])
def test_a_time_breaks_its_limit_where_its_whole_interval_is_beyond(
    checkout: Bench, factor: float, standing: str
) -> None:
    limit = factor * seconds(NAIVE)
    limited(checkout, f"at_most=lambda block: dict(seconds={limit!r}) if block == (16, 16) else {{}}")
    status, printed, cases = run(checkout)
    (clause,) = cases[NAIVE]["contract"]
    assert (clause["standing"], status) == (standing, int(standing == "broken"))
    assert clause["processes"] == (1 if standing == "kept" else 5)
    assert clause["figure"] == pytest.approx(seconds(NAIVE), rel=2e-3)
    assert cases[CUBLAS]["contract"] == []
    if standing == "broken":
        assert f", at most {1e6 * limit:.2f} (2.0 % too long)" in printed
    if standing == "unsure":
        assert "its 95 % interval crosses the limit" in printed


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "standing"), [(0.98, "kept"), (1.0, "unsure"), (1.02, "broken")])
def test_a_share_of_the_reference_is_judged_by_both_times(checkout: Bench, factor: float, standing: str) -> None:
    share = factor * seconds(CUBLAS) / seconds(NAIVE)
    limited(checkout, f"at_least=lambda block, dtype: {share!r} if block == (16, 16) and dtype != 'int32' else None")
    status, printed, cases = run(checkout)
    (clause,) = cases[NAIVE]["contract"]
    assert (clause["standing"], status) == (standing, int(standing == "broken"))
    assert clause["figure"] == pytest.approx(share / factor, rel=2e-3)
    if standing == "broken":
        assert "% too low)" in printed


@pytest.mark.slow
def test_without_its_reference_a_share_is_not_checked(checkout: Bench) -> None:
    limited(checkout, "at_least=lambda dtype: 0.9 if dtype != 'int32' else None")
    file = checkout.folder / "run.json"
    done = checkout.bench(f"--json={file}", "-k", f"matmul and {NAIVE[7:]}", few=False)
    assert done.returncode == 0
    said = f"1 limit not checked: its reference {CUBLAS} was not measured in this run"
    assert said in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("doubt", [{"throttle": ["power cap"]}, {"others": {NAIVE: 9}}])
def test_a_time_that_may_not_be_the_kernels_is_unsure(checkout: Bench, doubt: dict[str, Any]) -> None:
    limited(checkout, f"at_most=lambda block: dict(seconds={0.9 * seconds(NAIVE)!r}) if block == (16, 16) else {{}}")
    status, printed, cases = run(checkout, **doubt)
    (clause,) = cases[NAIVE]["contract"]
    assert (status, clause["standing"], clause["processes"]) == (0, "unsure", 1)
    assert "clock throttled: power cap" in printed or "another process was at work" in printed


def commit_limits(checkout: Bench, capability: str, case: str, **limits: float) -> None:
    """Write the file of the fake GPU's limits, of one case."""
    path = files.path_of(INFO.slug, checkout.folder / "bench" / "baselines")
    files.write(files.Limits(capability=capability, cases={case: limits}), path)


def test_limits_of_a_case_that_nobody_declares_are_said_not_to_be_checked(checkout: Bench) -> None:
    gone = NAIVE.replace("naive", "nave")
    commit_limits(checkout, "9.0", gone, registers=32, threshold=0.1, seconds=1e-3)
    status, printed, _ = run(checkout)
    assert status == 0, printed
    assert "contracts: 2 not checked\n" in printed
    assert f"2 limits not checked: no declaration has their case, such as {gone}\n" in printed


@pytest.mark.slow
def test_limits_of_another_capability_end_the_run(checkout: Bench) -> None:
    commit_limits(checkout, "8.0", NAIVE, registers=1)
    done = checkout.bench(*FEW, few=False)
    said = "has capability 8.0, and Fake GPU 1 9.0: nothing would be checked"
    assert (done.returncode, said in done.stdout + done.stderr) == (4, True), done.stdout + done.stderr


@pytest.mark.slow
def test_against_another_revision_resources_of_all_cases_and_times_of_changed_ones_are_judged(checkout: Bench) -> None:
    limited(checkout, "at_most=dict(registers=32, seconds=1e-3)")
    status, printed, cases = run(checkout, "--against", "HEAD", changed=["naive-16x16"])
    assert status == 0, printed
    clauses = {(name, each["name"]): each for name, case in cases.items() for each in case["contract"]}
    standings = {key: each["standing"] for key, each in clauses.items()}
    assert standings[NAIVE, "seconds"] == standings[NAIVE, "registers"] == "kept"
    other = NAIVE.replace("16x16", "8x8")
    assert (standings[other, "registers"], standings[other, "seconds"]) == ("kept", "not checked")
    assert clauses[NAIVE, "seconds"]["processes"] >= 3


@pytest.mark.slow
def test_a_broken_limit_names_the_saved_run_that_kept_it(checkout: Bench) -> None:
    limited(checkout, f"at_most=lambda block: dict(seconds={1.05 * seconds(NAIVE)!r}) if block == (16, 16) else {{}}")
    checkout.commit()
    checkout.bench(*FEW, few=False)
    good = json.loads(Path(checkout.saved[-1]).read_text())["commit_info"]["id"][:12]
    (checkout.folder / "kernels" / "README").touch()
    checkout.commit()
    status, printed, cases = run(checkout, odd={"naive-16x16": 1.1})
    (clause,) = cases[NAIVE]["contract"]
    assert (status, clause["standing"]) == (1, "broken")
    assert re.fullmatch(rf"kept by {good} of 20\d\d-\d\d-\d\d", clause["since"])
    assert cases[NAIVE]["next"] == f"python -m warpwatch bisect {NAIVE} {good}..HEAD"
    assert f"next: python -m warpwatch bisect {NAIVE} {good}..HEAD" in printed


@pytest.mark.slow
def test_a_threshold_of_its_own_calls_a_smaller_slowdown_the_same(checkout: Bench) -> None:
    limited(checkout, "threshold=lambda block: 0.1 if block == (16, 16) else None")
    status, _, cases = run(checkout, "--against", "HEAD", slower={"naive-16x16": 1.05, "naive-8x8": 1.05})
    verdicts = {name: case["verdict"] for name, case in cases.items()}
    assert (status, verdicts[NAIVE], verdicts[NAIVE.replace("16x16", "8x8")]) == (1, "same", "slower")
    assert cases[NAIVE]["comparison"]["floor"] == pytest.approx(0.1)
    status, _, cases = run(checkout, "--against", "HEAD", slower={"naive-16x16": 1.15})
    assert (status, cases[NAIVE]["verdict"]) == (1, "slower")


# Without a GPU

KERNEL = """
extern "C" __global__ void fill(float* x, int n)
{
    float own[64];
    for (int i = 0; i < n; ++i)
        own[i * n % 64] = i;
    if (threadIdx.x < n)
        x[threadIdx.x] = 8 + 0 * own[threadIdx.x * n % 64];
}
"""
DECLARED = """
import numpy as np
import warpwatch as ww

FILL = ww.Family(
    "fill",
    sizes=("n",),
    arrays=lambda n: {"x": ww.Out(n, "float32")},
    reference=lambda n: np.full(n, 8.0),
    tests=((5,), (9,)),
    variants=(
        ww.kernel("k", source="k.cu", entry="fill", configurations=(32,), grid=1, arguments="x n",
                  at_most=lambda n: dict(registers=40, local_bytes=0 if n == 5 else 256)),
    ),
)
"""
TESTS = """
import pytest

@pytest.mark.cases("tested")
def test_one(check):
    check()

@pytest.mark.cases("tested")
def test_again(check):
    check()
"""


def spilling(folder: Path) -> None:
    """Write a repository whose kernel needs local memory, which a limit forbids on one shape."""
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text(DECLARED)
    (folder / "mine" / "k.cu").write_text(KERNEL)
    (folder / "test_mine.py").write_text(TESTS)
    (folder / "pyproject.toml").write_text(TABLE)


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_machine_code_is_checked_by_the_first_test_of_a_case_without_a_gpu(tmp_path: Path) -> None:
    needs_tools()
    spilling(tmp_path)
    done = run_pytest(tmp_path, "--device=software", "--json=run.json", "-v")
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    cases = {case["id"]: case for case in json.loads((tmp_path / "run.json").read_text())["cases"]}
    failed, fine = cases["fill-k-32-5-float32"], cases["fill-k-32-9-float32"]
    (fault,) = failed["faults"]
    said = "contract: 256 bytes of local memory a thread, at most 0 (256 too many); as code for sm_90"
    assert (fault["kind"], said in fault["message"]) == ("broken contract", True)
    assert fault["place"]["file"] == "mine/k.cu"
    assert (fine["outcome"], fine["faults"]) == ("passed", [])


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_limits_that_cannot_be_checked_are_remarks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spilling(tmp_path)
    monkeypatch.setenv("NVCC", str(tmp_path / "nvcc"))
    (tmp_path / "nvcc").write_text("#!/bin/sh\necho 'release 13.0, NVIDIA'\ntest $1 = --version\n")
    (tmp_path / "nvcc").chmod(0o755)
    done = run_pytest(tmp_path, "--device=software")
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    remark = "remark: fill-k-32-5-float32: contract: at most 0 bytes of local memory a thread: not checked: "
    assert remark in done.stdout
