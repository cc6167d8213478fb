"""Tests ``warpwatch diff --toolchain``: what another nvcc or flag changes is named, and all else is identical."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.command import git
from tests.cli.test_diff import BUILD, COMMIT, HEAD, INDEX, KERNELS, declare, diff, needs_tools
from tests.project import importing_apart
from warpwatch.catalogue.project import find_project
from warpwatch.catalogue.selection import timed_cases
from warpwatch.compare.code_difference import CodeDifference, State, times_in
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import Target, nvcc
from warpwatch.devices.compile.toolchain import INSTALLED, read_toolchain
from warpwatch.report.document import Document
from warpwatch.runs.record import read_run

DIVIDES = HEAD % "divides" + INDEX + "    y[i] = x[i] / (x[i] + 1);\n}\n"
SPILLS = KERNELS["spills"].replace("__launch_bounds__(128)", "").replace("float held", "int held")
FAST, FEW = "nvcc -prec-div=false", "nvcc -maxrregcount=32"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one run of the command printed and wrote. ``titles``: of the toolchains."""

    done: subprocess.CompletedProcess[str]
    json: CodeDifference
    markdown: str

    @property
    def states(self) -> dict[tuple[str, str], State]:
        """State of each build that is not identical, by its variant and its toolchain's flags."""
        return {(each.id.split("-")[1], each.toolchain.split()[2]): each.state for each in self.json.builds}


def compared(folder: Path, *arguments: str) -> Found:
    files = [folder / name for name in ("table.md", "all.json")]
    done = diff(folder, *arguments, "--markdown", str(files[0]), "--json", str(files[1]))
    document = msgspec.json.decode(files[1].read_bytes(), type=Document).code
    assert document, done.stderr
    return Found(done=done, json=document, markdown=files[0].read_text())


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tools()
    folder = tmp_path_factory.mktemp("toolchains")  # in no repository: both sides are what lies there
    (folder / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    declare(folder, {"spills": SPILLS, "divides": DIVIDES, "same": KERNELS["same"]})
    return folder


@pytest.fixture(scope="module")
def found(repository: Path) -> Found:
    gates = ("--fail-on", "spills,registers,occupancy,size")
    return compared(repository, "--toolchain", FAST, "--toolchain", FEW, *gates)


def test_each_flag_changes_its_own_kernel_and_the_others_are_identical(found: Found) -> None:
    different = State.DIFFERENT
    assert found.states == {("divides", "-prec-div=false"): different, ("spills", "-maxrregcount=32"): different}
    base = INSTALLED.title
    assert found.json.toolchains == (base, f"{base} -prec-div=false", f"{base} -maxrregcount=32")
    assert found.json.counts == {
        f"sm_90, {title}": {"identical": 2, "different": 1} for title in found.json.toolchains[1:]
    }
    assert found.done.stdout.startswith(
        f"the working tree by {base} -prec-div=false, by {base} -maxrregcount=32, against {base}\n"
    )


def test_a_spill_is_named_by_its_own_gate(found: Found) -> None:
    assert found.done.returncode == 1
    titled = f"work-spills{BUILD} (sm_90, {INSTALLED.title} -maxrregcount=32)"
    assert f"error: {titled}: local memory of a thread grew from 0 to" in found.done.stderr
    assert f"error: {titled}: machine code grew from" in found.done.stderr
    assert not [each for each in found.json.failures if "divides" in each]  # it became shorter
    assert "registers grew" not in found.done.stderr
    assert f"sm_90, {INSTALLED.title} -maxrregcount=32: worse: spills of 1 kernel\n" in found.done.stdout


def test_the_table_has_a_column_for_each_toolchain(found: Found) -> None:
    lines = [*found.done.stdout.splitlines(), ""]
    (at,) = (number for number, line in enumerate(lines) if line.startswith(f"work-spills{BUILD} (sm_90)  "))
    rows = [re.split(r" {2,}", line.strip()) for line in lines[at : lines.index("", at)]]
    assert rows[0][1:] == [*found.json.toolchains]
    local = next(cells for cells in rows if cells[0] == "local memory")
    assert local[1:3] == ["0 B", "="]
    assert re.fullmatch(r"\d+ B, \d+ loads, \d+ stores", local[3])
    (row,) = (line for line in found.markdown.splitlines() if line.startswith(f"| `work-divides{BUILD} (sm_90)` |"))
    old, fast, few = row.removesuffix(" |").split(" | ")[1:]
    assert re.search(r"instructions: \d+", old)
    assert old != fast
    assert set(few.split("<br>")) == {f"{each.partition(':')[0]}: =" for each in old.split("<br>")}


def test_another_side_is_a_revision_where_one_is_named(repository: Path) -> None:
    for command in (("init", "-q", "-b", "main"), ("add", "mine", "pyproject.toml"), COMMIT):
        git(repository, *command)
    done = diff(repository, "HEAD", "--toolchain", FAST, "-k", "same")
    assert done.returncode == 0, done.stderr
    assert ", against HEAD (" in done.stdout
    assert f") by {INSTALLED.title}\n" in done.stdout
    assert "1 build: 1 identical" in done.stdout


def test_a_toolchain_that_cannot_be_used_is_bad_input(repository: Path) -> None:
    done = diff(repository, "--toolchain", "nvcc=/no/such")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: 'nvcc=/no/such' cannot be used: there is no nvcc in /no/such: ")


def timed_run(folder: Path, toolchain: str, ratio: float, slug: str = "a-gpu") -> Path:
    """Write a run in which the kernel ``divides`` of a toolchain takes so many times as long as that of INSTALLED."""
    with importing_apart("mine"):
        build = next(each.build for each in timed_cases(find_project(folder).families) if "divides" in each.id)
    target = Target("sm_90")
    old, new = (
        compile_build(build, each.target(target)).image_hash for each in (INSTALLED, read_toolchain(toolchain, print))
    )
    figures = {"before": 1e-5, "after": ratio * 1e-5, "ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01}
    decision = {"verdict": "slower" if ratio > 1 else "faster"} | figures
    case, facts = f"work-divides{BUILD.replace('-f', '-1024-f')}", {"image_hash": new, "other_image_hash": old}
    document = {
        "benchmarks": [{"param": case, "stats": {"data": [ratio * 1e-5]}, "extra_info": facts}],
        "machine_info": {"gpu": {"slug": slug}},
        "warpwatch": {"version": 1, "decisions": {case: decision}},
    }
    path = folder / f"{slug}-{ratio}.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.slow
def test_times_of_saved_runs_stand_beside_the_code_that_they_measured(repository: Path) -> None:
    few = "nvcc -prec-div=false -maxrregcount=64"
    runs = [str(timed_run(repository, *each)) for each in ((FAST, 0.75), (few, 1.25))]
    arguments = ("-k", "divides", "--toolchain", FAST, "--toolchain", few, "--toolchain", "nvcc -fmad=false")
    done = compared(repository, *arguments, "--times", runs[0], "--times", runs[1])
    assert done.done.returncode == 0, done.done.stderr
    title = INSTALLED.title
    assert f"\nsm_90, {title} -prec-div=false: times: 1 faster\n" in done.done.stdout
    (line,) = (line for line in done.done.stdout.splitlines() if line.startswith("  time, 1024"))
    cells = ["time, 1024", "10.00 µs", "7.50 µs, −25.0 % faster", "12.50 µs, +25.0 % slower", "="]
    assert re.split(r" {2,}", line.strip()) == cells
    assert "<br>time, 1024: 12.50 µs, +25.0 % slower |" in done.markdown
    assert [each.ratio for build in done.json.builds for each in build.times.values()] == [0.75, 1.25]
    without = compared(repository, *arguments, "--times", runs[0])
    (line,) = (line for line in without.done.stdout.splitlines() if line.startswith("  time, 1024"))
    assert re.split(r" {2,}", line.strip())[3] == "not measured"


def test_runs_that_measured_other_code_or_several_models_are_refused(repository: Path) -> None:
    run, other = (str(timed_run(repository, FAST, 0.5, slug)) for slug in ("a-gpu", "another-gpu"))
    done = diff(repository, "-k", "divides", "--toolchain", f"{FAST} -ftz=true", "--times", run)
    assert done.returncode == 1
    title = INSTALLED.title
    assert f"error: --times: none of the runs measured the working tree by {title} -prec-div=false -ftz" in done.stderr
    done = diff(repository, "--toolchain", FAST, "--times", run, "--times", other)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --times: the runs are of a-gpu, another-gpu: give those of one GPU\n"


def test_runs_are_not_missed_where_no_code_differs(repository: Path) -> None:
    run = str(timed_run(repository, FAST, 0.5))
    done = diff(repository, "-k", "same", "--toolchain", FAST, "--times", run)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("figure", ["before", "after", "ratio", "low", "high"])
def test_a_time_of_which_a_figure_is_not_known_is_not_measured(repository: Path, figure: str) -> None:
    run = read_run(timed_run(repository, FAST, 0.5))
    assert len(times_in([run])) == 1
    ((case, decision),) = run.decisions.items()
    unknown: Any = {figure: math.nan}
    assert times_in([replace(run, decisions={case: replace(decision, **unknown)})]) == {}


def stand_in(folder: Path, *more: str, banner: str = "13.0.1") -> str:
    """Write an nvcc that is called an older one; ``more``: the flags that it adds. Returns its path."""
    program = folder / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    own, added = shlex.quote(nvcc().program), shlex.join(more)
    version = f"{own} --version | sed 's/V13[.0-9]*/V{banner}/'"
    program.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then {version}; else exec {own} "$@" {added}; fi\n')
    program.chmod(0o755)
    return f"nvcc={folder}"


@pytest.mark.slow
def test_an_nvcc_that_writes_other_metadata_alone_changes_nothing(repository: Path, tmp_path: Path) -> None:
    done = compared(repository, "--toolchain", stand_in(tmp_path, "-lineinfo"), "-k", "same or divides")
    assert "2 builds: 2 identical" in done.done.stdout
    assert done.json.toolchains[1] == "nvcc 13.0.1"


@pytest.mark.slow
def test_an_older_nvcc_that_makes_other_code_is_named(repository: Path, tmp_path: Path) -> None:
    older = compared(repository, "--toolchain", stand_in(tmp_path, "-Xptxas", "-O0"), "-k", "same", "--fail-on", "size")
    ((build),) = older.json.builds
    assert (build.state, build.toolchain) == (State.DIFFERENT, "nvcc 13.0.1")
    assert f"error: work-same{BUILD} (sm_90, nvcc 13.0.1): machine code grew from" in older.done.stderr


@pytest.mark.slow
def test_a_side_that_does_not_compile_is_told_by_its_toolchain(repository: Path, tmp_path: Path) -> None:
    broken = compared(repository, "--toolchain", stand_in(tmp_path, "-Dfloat=no_such_type"), "-k", "same")
    assert broken.done.returncode == 1
    ((build),) = broken.json.builds
    assert build.state == State.FAILED
    assert build.notes[0].startswith("by nvcc 13.0.1, mine/same.cu does not compile: ")


@pytest.mark.slow
def test_a_compiler_that_takes_three_times_as_long_is_named(repository: Path, tmp_path: Path) -> None:
    toolchain = stand_in(tmp_path / "slow")
    program = tmp_path / "slow" / "bin" / "nvcc"
    text = program.read_text()
    spin = "else sh -c 'ulimit -t 2; while :; do :; done';"  # two seconds of processor time
    program.write_text(text.replace("else ", f"{spin} ", 1))
    arguments = ("--toolchain", toolchain, "-k", "same", "--fail-on", "compile-time")
    cold = {"WARPWATCH_CACHE": str(tmp_path / "cache")}
    first, again = (diff(repository, *arguments, **cold) for _ in range(2))
    assert f"error: work-same{BUILD} (sm_90, nvcc 13.0.1): compile time grew by over 100%: " in first.stderr
    assert "error: the compile time of none of 1 build is known on both sides: " in again.stderr
    assert (first.returncode, again.returncode) == (1, 1)
