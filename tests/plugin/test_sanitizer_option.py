"""Tests ``--sanitizer`` on the software device, with a stand-in for compute-sanitizer that writes planned records."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.stranger import run_pytest
from warpwatch.devices.info import DeviceInfo
from warpwatch.plugin.device import with_lines
from warpwatch.report.pull_request.gather import findings
from warpwatch.report.pull_request.result import Kind
from warpwatch.runs.record import parse_run

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
PROGRAM = f"""#!{sys.executable}
import os, sys
at = sys.argv.index("--log-file") + 1
tool, log, command = sys.argv[sys.argv.index("--tool") + 1], sys.argv[at], sys.argv[at + 1 :]
with open(log, "w") as file:
    file.write("========= COMPUTE-SANITIZER\\n")
    if tool == os.environ.get("BROKEN"):
        sys.exit(file.write("========= Error: Device not supported\\n") and 255)
with open(os.path.join(os.path.dirname(sys.argv[0]), "started"), "a") as file:
    file.write(tool + "\\n")
os.environ["STANDIN"] = f"{{tool}}\\t{{log}}"
os.execv(command[0], command)
"""
# Declarations, which the worker process imports too; under the stand-in it writes what PLAN says of a launch.
DECLARED = """
import json
import os

import numpy as np
import warpwatch as ww


def family(name):
    return ww.Family(
        name,
        sizes=("n",),
        arrays=lambda n: {"x": ww.Out(n, "float32")},
        reference=lambda n: np.full(n, 8.0),
        tests=((5,), (9,)),
        variants=(
            ww.kernel("k", source="k.cu", entry="fill", configurations=(32,), grid=1, arguments="x n"),
        ),
    )


FILL, OTHER = family("fill"), family("other")

if "STANDIN" in os.environ:
    from warpwatch.devices import sanitizer

    tool, log = os.environ["STANDIN"].split("\\t")
    plan = json.loads(os.environ.get("PLAN", "{}"))
    launch = sanitizer.launch_and_wait

    def write(record):
        with open(log, "a") as file:
            file.write(record)

    def launch_and_wait(loaded):
        launch(loaded)
        record = plan.get(f"{tool} {loaded.case.id}", "")
        if record == "die":
            os._exit(3)
        write(record)

    def launch_control(name):
        write("" if tool == os.environ.get("BLIND") else
              f"========= Planted\\n=========     at {name}+0x10 in /x/sanitized.cu:5\\n========= \\n")

    sanitizer.launch_and_wait, sanitizer.launch_control = launch_and_wait, launch_control
"""
KERNEL = """extern "C" __global__ void fill(float* x, int n)
{
    if (threadIdx.x < n)
        x[threadIdx.x] = 8;
}
"""
CONFTEST = "from warpwatch.plugin import device\n\ndevice.with_lines = lambda config, opened: opened\n"
# As pytest-rerunfailures does, which takes the last of a test's runs.
AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for attempt in range(2):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if any(report.failed for report in reports):
            print(f"\\nnot green: {item.name}")
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
TESTS = """import pytest

@pytest.mark.cases("tested")
def test_one(check):
    check()

@pytest.mark.cases("tested")
def test_again(check):
    check()
"""
READ = """========= Uninitialized __global__ memory read of size 4 bytes
=========     at fill+0xc0 in /elsewhere/perf/k.cu:4
=========     by thread (2,0,0) in block (0,0,0)
=========
"""
RACE = """========= Error: Race reported between Write access at fill+0x90 in /elsewhere/perf/k.cu:3
=========     and Read access at fill+0xd0 in /elsewhere/perf/k.cu:4 [128 hazards]
=========
"""
TOOLS = "--sanitizer=racecheck,initcheck"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (
        ("perf/__init__.py", DECLARED),
        ("perf/k.cu", KERNEL),
        ("conftest.py", CONFTEST),
        ("test_one.py", TESTS),
        ("pyproject.toml", '[tool.warpwatch]\nkernels = "perf"\n'),
        ("bin/compute-sanitizer", PROGRAM),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bin" / "compute-sanitizer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def plan(monkeypatch: pytest.MonkeyPatch, **records: str) -> None:
    monkeypatch.setenv("PLAN", json.dumps({f"{tool} fill-k-32-9-float32": text for tool, text in records.items()}))


def run(folder: Path, *options: str) -> str:
    done = run_pytest(folder, "--device=software", "--json=out.json", TOOLS, *options)
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def document(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "out.json").read_text())
    return read


@pytest.mark.slow
def test_findings_fail_their_test_alone_and_are_in_json_sarif_and_comment(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(monkeypatch, initcheck=READ, racecheck=RACE)
    said = run(repository, "--sarif=out.sarif", "--warpwatch-record=record.json")
    assert "1 failed, 7 passed" in said, said
    assert "FAILED test_one.py::test_one[fill-k-32-9-float32]" in said
    assert "compute-sanitizer initcheck: uninitialised memory in fill\n  perf/k.cu:4: thread (2, 0, 0)" in said
    assert f'pytest "test_one.py::test_one[fill-k-32-9-float32]" --device software {TOOLS.replace("=", " ")}' in said
    assert "compute-sanitizer (racecheck, initcheck): 4 launches of 4 tests" in said
    faults = [fault for case in document(repository)["cases"] for fault in case.get("faults", ())]
    found = {(each["kind"], each["place"]["file"], each["place"]["line"]) for each in faults}
    assert found == {("race", "perf/k.cu", 3), ("uninitialised memory", "perf/k.cu", 4)}
    assert any("4 launches of 4 tests" in note for note in document(repository)["notes"])
    results = json.loads((repository / "out.sarif").read_text())["runs"][0]["results"]
    lines = [each["locations"][0]["physicalLocation"]["region"]["startLine"] for each in results]
    assert sorted(lines) == [3, 4]
    record = parse_run(repository / "record.json", (repository / "record.json").read_bytes())
    told = [(each.kind, each.file, each.line) for each in findings([record], repository)]
    assert sorted(told) == [(Kind.FAULT, "perf/k.cu", 3), (Kind.FAULT, "perf/k.cu", 4)]
    # One process a tool for the planted fault, one for the tests, and one after a finding.
    started = (repository / "bin" / "started").read_text().split()
    assert {tool: started.count(tool) for tool in started} == {"racecheck": 3, "initcheck": 3}


@pytest.mark.slow
def test_a_test_that_fails_by_itself_is_told_what_the_tools_find(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(monkeypatch, initcheck=READ)
    (repository / "perf" / "k.cu").write_text(KERNEL.replace("8", "7"))
    said = run(repository, "-k", "test_one and fill and 9")
    assert "is wrong in 9 of 9 elements" in said, said
    assert "compute-sanitizer initcheck: uninitialised memory in fill" in said
    (case,) = document(repository)["cases"]
    assert {fault["kind"] for fault in case["faults"]} == {"wrong result", "uninitialised memory"}


@pytest.mark.slow
def test_a_finding_that_is_accepted_fails_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan(monkeypatch, racecheck=RACE)
    (repository / "perf" / "k.cu").write_text(KERNEL.replace("8;", "8;  // warpwatch: accept race: all write 8"))
    said = run(repository)
    assert "exit 0" in said, said
    assert "accepted: race at perf/k.cu:4: all write 8 (1 test)" in said


@pytest.mark.slow
def test_a_process_that_dies_fails_its_test_and_loses_no_finding(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(monkeypatch, initcheck=READ, racecheck="die")
    said = run(repository)
    assert "1 failed, 7 passed" in said, said
    assert "compute-sanitizer racecheck: not watched to the end: the process in which kernels run died: exit" in said
    assert "compute-sanitizer initcheck: uninitialised memory in fill" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "why"),
    [("BROKEN", "Error: Device not supported"), ("BLIND", "it does not find the fault that is planted for it")],
)
def test_a_tool_that_does_not_work_is_one_sentence_and_an_error(
    repository: Path, monkeypatch: pytest.MonkeyPatch, variable: str, why: str
) -> None:
    monkeypatch.setenv(variable, "initcheck")
    said = run(repository)
    assert "exit 4" in said, said
    assert "ERROR: --sanitizer: compute-sanitizer --tool initcheck does not work here: " in said
    assert why in said
    assert document(repository)["outcome"] == "refused"


def test_a_program_that_cannot_be_run_is_one_plain_sentence(repository: Path) -> None:
    (repository / "bin" / "compute-sanitizer").write_text("#!/no/such/interpreter\n")
    said = run(repository)
    assert "exit 4" in said, said
    assert "ERROR: --sanitizer: compute-sanitizer --tool racecheck does not work here: it cannot be run: " in said


def test_what_a_tool_that_does_not_work_says_is_plain(repository: Path) -> None:
    text = (
        '#!/bin/sh\nwhile [ "$1" != --log-file ]; do shift; done\nprintf "========= no\\033[31m GPU" > "$2"; exit 1\n'
    )
    (repository / "bin" / "compute-sanitizer").write_text(text)
    said = run(repository)
    assert "exit 4" in said, said
    assert "no GPU" in said


@pytest.mark.slow
def test_processes_of_xdist_have_tools_of_their_own(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan(monkeypatch, racecheck=RACE)
    said = run(repository, "-n2", "-k", "not again")
    assert "1 failed, 3 passed" in said, said
    assert "compute-sanitizer (racecheck, initcheck): 4 launches of 4 tests" in said


@pytest.mark.slow
def test_a_test_that_is_run_again_is_watched_again(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan(monkeypatch, racecheck=RACE)
    (repository / "conftest.py").write_text(CONFTEST + AGAIN)
    said = run(repository, "-k", "test_one and fill and 9")
    assert "exit 1" in said, said
    assert said.count("not green: test_one[fill-k-32-9-float32]") == 2


@pytest.mark.slow
def test_a_run_in_which_nothing_is_watched_is_not_green(repository: Path) -> None:
    (repository / "test_one.py").write_text("def test_one(project):\n    assert project\n")
    said = run(repository)
    assert "exit 1" in said, said
    assert "compute-sanitizer (racecheck, initcheck): 0 launches of 0 tests" in said


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--device=software",), "needs a GPU: softcuda looks for faults by itself"),
        (("--device=none",), "needs a GPU: --device=none"),
        (("--device=software", "--untrusted"), "leave --untrusted out"),
    ],
)
def test_what_has_no_gpu_is_refused(repository: Path, options: tuple[str, ...], why: str) -> None:
    (repository / "conftest.py").unlink()
    done = run_pytest(repository, TOOLS, *options)
    assert done.returncode == 4
    assert why in done.stdout + done.stderr


def test_a_misspelt_tool_is_answered(repository: Path) -> None:
    done = run_pytest(repository, "--sanitizer=memchek")
    assert "'memchek' is not one of memcheck, racecheck, initcheck, synccheck; did you mean" in done.stderr


def test_the_gpu_counts_as_slow_and_kernels_have_lines(device: DeviceInfo, pytestconfig: pytest.Config) -> None:
    watched = with_lines(pytestconfig, replace(device, has_gpu_clock=True, largest_launch_cost=math.inf))
    assert isinstance(watched, DeviceInfo)
    assert watched.largest_launch_cost < 2 * 1024**3  # which the products of random sizes are shrunk by
    assert "-lineinfo" in watched.target.flags
