"""Tests of ``pytest --json FILE``: the document has what the terminal says of each case, however a run ends."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cheats.expected import case_id
from tests.cheats.project import write_project
from tests.checkout import Bench
from tests.project import ROOT
from tests.said import lines_of, lost
from tests.stranger import declare, run_pytest
from warpwatch.report.document import UNFINISHED, Document
from warpwatch.timing.candidate_samples import HOW

TEST = "import pytest\n\n@pytest.mark.cases('tested')\ndef test_one(check):\n    check()\n"
ONE = ("-k", "naive-256 and float32")
pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
Done = subprocess.CompletedProcess[str]


def read(file: Path) -> Any:
    """The document as a program reads it; the struct reads it too."""
    msgspec.json.decode(file.read_bytes(), type=Document)
    return json.loads(file.read_text())


def run_one(folder: Path, *args: str, device: str = "software") -> tuple[Done, Any]:
    """Run tests in a repository of other people."""
    (folder / "test_one.py").write_text(TEST)
    done = run_pytest(folder, f"--device={device}", "--json=out.json", *args)
    document = read(folder / "out.json")
    assert document["exit_status"] == done.returncode
    assert lost(done.stdout, document) == []
    return done, document


@pytest.mark.once
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_right_case_is_passed_and_a_wrong_one_has_its_elements(tmp_path: Path, workers: str) -> None:
    source = declare(tmp_path) / "naive.cu"
    _, document = run_one(tmp_path, workers, *ONE)
    assert (document["outcome"], document["gpu"]["slug"], document["counts"]["tests"]) == (
        "passed",
        "softcuda",
        {"passed": 3},
    )
    assert {(case["outcome"], case["kernel"]) for case in document["cases"]} == {("passed", "copy-naive")}
    source.write_text(source.read_text().replace("if (i < n)", "if (i < n - 1)"))
    done, document = run_one(tmp_path, workers, *ONE)
    assert document["outcome"] == "failed"
    assert len(list(lines_of(done.stdout, [case["id"] for case in document["cases"]]))) >= 3 * 6
    case = next(case for case in document["cases"] if case["id"] == "copy-naive-256-33-float32")
    (fault,) = case["faults"]
    (elements,) = fault["elements"]
    assert (fault["kind"], fault["place"]["file"]) == ("wrong result", "mine/naive.cu")
    assert fault["declaration"]["file"] == "mine/__init__.py"
    assert [elements[name] for name in ("worst", "got", "thread", "block")] == [[32], "nan", [32, 0], [0, 0]]
    assert case["again"] == 'pytest "test_one.py::test_one[copy-naive-256-33-float32]" --device software'
    assert case["next"] == "python -m warpwatch run copy-naive-256-33-float32 --device software"


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (("if (i < n)", "if (i <= n)"), "out of bounds"),
        pytest.param(("if (i < n)", "if (i < n) nothing;"), "compile error", marks=pytest.mark.slow),
    ],
)
def test_a_fault_has_its_line(tmp_path: Path, edit: tuple[str, str], kind: str) -> None:
    source = declare(tmp_path) / "naive.cu"
    source.write_text(source.read_text().replace(*edit))
    _, document = run_one(tmp_path, *ONE, "-x")
    (case,) = document["cases"]
    fault = case["faults"][0]
    assert (fault["kind"], fault["in_source"]) == (kind, True)
    line = fault["place"]["line"]
    assert edit[1] in "\n".join(source.read_text().splitlines()[line - 2 : line])
    assert bool(fault["place"]["thread"]) == (kind == "out of bounds")
    (rest,) = document["not_checked"]
    assert (rest["reason"], len(rest["names"])) == ("the run ended before they ran", 2)


LEFT = "NOTHING RAN: no test is left of those that"


@pytest.mark.once
@pytest.mark.parametrize(
    ("args", "device", "outcome", "message"),
    [
        (ONE, "none", "nothing checked", "NOTHING WAS TESTED: all 3 tests were skipped"),
        (("-k", "zzz"), "software", "nothing checked", f"{LEFT} -k 'zzz' and"),
        (("-k", "zzz", "--sizes=7,9"), "software", "nothing checked", f"{LEFT} -k 'zzz' and --sizes 7,9"),
        (("no.py", "-n", "1"), "none", "nothing checked", "NOTHING RAN: file or directory not found: no.py"),
        (("--against", "-x"), "software", "refused", "--against=-x: "),
        (("--collect-only",), "software", "nothing checked", "no test passed or failed"),
    ],
    ids=["skipped", "unselected", "without sizes", "absent", "refused", "collected"],
)
def test_nothing_checked_is_never_passed(
    tmp_path: Path, args: tuple[str, ...], device: str, outcome: str, message: str
) -> None:
    declare(tmp_path)
    (tmp_path / "out.json").write_text('{"outcome": "passed"}')  # of an earlier run
    args = ("--against=-x",) if args[0] == "--against" else args
    _, document = run_one(tmp_path, *args, device=device)
    assert document["outcome"] == outcome
    assert document["message"].startswith(message)
    reasons = {each["reason"]: len(each["names"]) for each in document["not_checked"]}
    if args == ONE:
        assert reasons == {"needs a device: --device=none": 3}
        assert document["notes"] == ["3 skipped: needs a device: --device=none"]


ENDS = """
import os, pytest
def test_a_passes(): pass
def test_b_ends(): {}
def test_c_waits(): pass
"""


@pytest.mark.once
@pytest.mark.parametrize(
    ("end", "outcome", "message"),
    [
        ("os.kill(os.getpid(), 9)", "unfinished", UNFINISHED),
        ("raise KeyboardInterrupt", "interrupted", ""),
        ("pytest.exit('enough', 7)", "internal error", ""),
    ],
    ids=["killed", "interrupted", "left"],
)
def test_a_run_that_ends_early_is_not_passed(tmp_path: Path, end: str, outcome: str, message: str) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(ENDS.format(end))
    done = run_pytest(tmp_path, "--device=none", "--json=out.json")
    document = read(tmp_path / "out.json")
    assert done.returncode
    assert (document["outcome"], document["message"]) == (outcome, message)
    assert document["exit_status"] in (done.returncode, None)
    if outcome == "interrupted":
        assert document["counts"]["tests"]["passed"] == 1
        assert any("test_one.py::test_c_waits" in each["names"] for each in document["not_checked"])


@pytest.mark.once
@pytest.mark.parametrize(
    ("file", "why"), [("none/out.json", "there is no folder"), ("mine", "Is a directory"), ("-", "name a file")]
)
def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path, file: str, why: str) -> None:
    declare(tmp_path)
    (tmp_path / "test_one.py").write_text(TEST)
    done = run_pytest(tmp_path, "--device=none", "--json", file)
    assert (done.returncode, done.stdout.count("skipped")) == (4, 0)
    (line,) = done.stderr.strip().splitlines()
    assert re.match("ERROR: --json[: ]", line)
    assert why in line
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_the_long_name_serves_where_another_plugin_has_the_short_one(tmp_path: Path) -> None:
    declare(tmp_path)
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser):\n    parser.addoption('--json')\n")
    (tmp_path / "test_one.py").write_text("def test_one(pytestconfig):\n    assert pytestconfig.option.json == 'x'\n")
    done = run_pytest(tmp_path, "--device=none", "--json=x", "--warpwatch-json=out.json")
    assert (done.returncode, read(tmp_path / "out.json")["outcome"]) == (0, "passed")
    assert not (tmp_path / "x").exists()


LONGER = """
import numpy as np
import warpwatch as ww

FAMILIES = (ww.Family(
    "twice", sizes=("n",), arrays=lambda n: {"x": ww.In(None, "float32"), "y": ww.Out(n, "float32")},
    draw=lambda rng, n: {"x": rng.uniform(-1, 1, n + rng.integers(9)).astype(np.float32)},
    reference=lambda x, n: 2.0 * x[:n], tolerance=ww.ulp(1), tests=((9,),), benchmarks=((1000,), (2000,)),
    variants=(ww.kernel("plain", configurations=((256,),), source="plain.cu", entry="plain", arguments="x y n",
        grid=lambda n: ww.blocks(n, 256)),),
),)
"""
PLAIN = """
extern "C" __global__ void plain(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i];
}
"""


@pytest.mark.slow
def test_a_case_says_which_probe_is_left_out_and_the_run_counts_them(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(LONGER)
    (tmp_path / "mine" / "plain.cu").write_text(PLAIN)
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    (tmp_path / "bench").mkdir()
    shutil.copy(ROOT / "bench" / "bench_kernels.py", tmp_path / "bench")
    done, document = run_one(tmp_path, "bench", "--benchmark-max-time=0.01")
    why = "all samples had the same inputs, and no launch was on inputs that no sample had, because `draw` chooses"
    assert f"\ntwice-plain-256-1000-float32 and 1 more: {why}" in done.stdout
    assert [note for note in document["notes"] if note.startswith(f"twice-plain-256-1000-float32 and 1 more: {why}")]
    assert [len(case["remarks"]) for case in document["cases"]] == [1, 1]
    assert all(case["remarks"][0].startswith(why) for case in document["cases"])


@pytest.mark.slow
def test_a_call_that_is_not_trusted_says_how_its_time_was_read(tmp_path: Path) -> None:
    folder, case = write_project(tmp_path), case_id("turned", "in_turn", on_gpu=False)
    given = ["bench", "--untrusted", "--device=software", "--json=out.json", "-k", case, "--benchmark-min-rounds=20"]
    for _ in range(3):  # a busy host may have no slope
        done = run_pytest(folder, *given)
        document = read(folder / "out.json")
        assert lost(done.stdout, document) == []
        if "no figure: a launch takes" not in done.stdout:
            break
    assert document["command"].startswith("pytest ")
    assert document["command"].endswith(shlex.join(given))
    assert "--noconftest" not in document["command"]  # of the second process
    (entry,) = document["cases"]
    assert entry["measured"]["how"] == HOW
    assert entry["measured"]["seed"] > entry["measured"]["launch_seconds"] > 0
    assert any("inputs and poison follow from --draw-seed=" in note for note in document["notes"])
    assert any("no /dev/shm of its own: not used" in note for note in document["notes"])


# Times, of a GPU that only answers


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("timed"))


def timed(bench: Bench, *args: str, **play: Any) -> tuple[Done, Any, dict[str, Any]]:
    done = bench.bench("--json=out.json", *args, **play)
    document = read(bench.folder / "out.json")
    assert document["exit_status"] == done.returncode
    assert lost(done.stdout, document) == []
    return done, document, {case["id"]: case for case in document["cases"]}


NAIVE = "matmul-naive-8x8-128x128x128-float32"


def test_a_slower_case_has_verdict_figures_energy_and_the_next_step(bench: Bench) -> None:
    play = {"slower": {NAIVE[:16]: 1.1}, "energy": {NAIVE[:16]: 1.1}, "changed": ["matmul-naive"]}
    done, document, cases = timed(bench, "--against", "HEAD", "--energy", **play)
    assert (document["outcome"], document["counts"]["verdicts"]) == (
        "failed",
        {"slower": 1, "same": 2, "identical": 14},
    )
    assert len(list(lines_of(done.stdout, list(cases)))) >= 6  # the failure, the table, the verdict, its cause, energy
    slower = cases[NAIVE]
    assert (slower["outcome"], slower["verdict"], slower["energy"]["verdict"]) == ("failed", "slower", "slower")
    assert 1.09 < slower["comparison"]["low"] < slower["comparison"]["ratio"] < slower["comparison"]["high"] < 1.11
    assert slower["cause"]["sentence"].startswith("the machine code cannot be compared")
    assert slower["next"] == f"python -m warpwatch explain {NAIVE} --against HEAD" == document["next"][0]
    assert slower["again"] == f'pytest "bench/bench_kernels.py::bench_kernel[{NAIVE}]" --against=HEAD'
    assert (document["against"], document["commit"]["dirty"]) == (document["commit"]["id"], False)
    assert any(note.startswith("saved ") for note in document["notes"])


@pytest.mark.slow
def test_unsure_new_wrong_and_incomparable_cases_have_their_reasons(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "judged")
    bench.fill_baseline()
    _, _, cases = timed(bench, "--against", "HEAD", slower={"matmul-naive": 1.1}, throttle=["hardware slowdown"])
    assert cases[NAIVE]["verdict"] == "unsure"
    assert cases[NAIVE]["reason"] == cases[NAIVE]["comparison"]["reason"] != ""
    _, document, cases = timed(bench, "--benchmark-compare", "-k", "128x128x128 and float32 and matmul-naive or hello")
    assert cases["hello-hello-5x5-4-none"]["verdict"] == "new"
    assert document["past"]
    _, document, cases = timed(bench, "--benchmark-compare", wrong=[NAIVE])
    assert (document["outcome"], cases[NAIVE]["faults"][0]["kind"]) == ("failed", "wrong result")
    assert document["next"] == [f"mend what is wrong; python -m warpwatch run {NAIVE}"]
    _, document, cases = timed(bench, "--benchmark-compare", "--no-confirm", driver="12.1")
    assert (document["outcome"], cases[NAIVE]["verdict"]) == ("nothing checked", "incomparable")
    assert document["message"].startswith("NOTHING WAS COMPARED (--benchmark-compare): the baseline in ")


@pytest.mark.slow
def test_what_ends_a_benchmark_is_in_the_document(bench: Bench) -> None:
    _, document, cases = timed(bench, "--against", "HEAD", slower={"matmul-naive": 1.1}, interrupt=NAIVE)
    assert document["outcome"] == "interrupted"
    assert NAIVE not in cases
    waiting = {each["reason"]: each["names"] for each in document["not_checked"]}["the run ended before they ran"]
    assert f"bench/bench_kernels.py::bench_kernel[{NAIVE}]" in waiting
    _, document, _ = timed(bench, "--against", "nonsense")
    assert (document["outcome"], document["cases"]) == ("refused", [])
    assert document["message"].startswith("--against=nonsense: git knows no such revision")
