"""Tests ``warpwatch diff`` on a repository of its own, whose kernels are changed in ways that make them slower."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.command import git
from tests.fork_server import run_module
from tests.project import PROJECT
from tests.stranger import environment
from warpwatch.cli.diff import _not_compared, markdown_of, text_of
from warpwatch.cli.options import revisions
from warpwatch.compare.code_difference import NO_CODE, ONLY_DATA, BuildChange, CodeDifference
from warpwatch.devices.compile.compiler import NoCompiler, nvcc
from warpwatch.machine_code.disassembler import NoDisassembler, nvdisasm
from warpwatch.report.document import Document

BUILD = "-128-float32"
COMMIT = ("commit", "-q", "-m", "a state")
DECLARATION = """
import warpwatch as ww

FAMILIES = (ww.Family(
    "work",
    sizes=("n",),
    arrays=lambda n: {{"x": ww.In(n), "y": ww.Out(n)}},
    reference=lambda x: x,
    dtypes=("float32",),
    tests=((512,),),
    benchmarks=((1024,),),
    variants=({variants}),
),)
"""
VARIANT = "ww.kernel({name!r}, configurations=((128,),), x=0, y=None{more}), "
MORE = {"launched": ", shared_bytes=1024", "tested": ", benchmarks=()", "ready": ", source='ready.ptx'"}
OTHERS = {"launched": ", shared_bytes=50_000", "renamed": ", entry='work_by_another_name'"}  # in the working tree
HEAD = 'extern "C" __global__ void __launch_bounds__(128)\nwork_%s(const float* x, float* y, int n)\n{\n'
INDEX = "    const int i = blockIdx.x * 128 + threadIdx.x;\n"
SAME = "    y[i] = x[i];\n}\n"
BODIES = {
    "spills": """
    float held[64];
#pragma unroll
    for (int j = 0; j < 64; ++j)
        held[j] = x[i + j * n];
    for (int step = 0; step < n; ++step)
#pragma unroll
        for (int j = 0; j < 64; ++j)
            held[j] = held[j] * held[(j + 7) % 64] + 1;
#pragma unroll
    for (int j = 0; j < 64; ++j)
        y[i + j * n] = held[j];
}
""",
    "loads": """
    struct alignas(16) Pack { float v[4]; };
    const Pack four = reinterpret_cast<const Pack*>(x)[i];
    y[i] = four.v[0] * four.v[1] + four.v[2] * four.v[3];
}
""",
    "unrolled": """
    float sum = 0;
#pragma unroll 8
    for (int j = 0; j < n; ++j)
        sum += x[j];
    y[i] = sum;
}
""",
    "shared": """
    __shared__ float tile[1024];
    tile[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = tile[127 - threadIdx.x];
}
""",
    "restricted": """
    for (int j = 0; j < n; ++j)
        y[i + j * n] = x[i] * j;
}
""",
    **dict.fromkeys(("same", "gone", "broken", "launched", "tested", "renamed"), SAME),
    "mended": SAME + "__device__ int wrong = no_such_name;\n",
    "data": "    y[i] = factor;\n}\n",
}
KERNELS = {name: HEAD % name + INDEX + body for name, body in BODIES.items()}
KERNELS["data"] = "__device__ float factor = 2;\n" + KERNELS["data"]
KERNELS["ready"] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry work_ready() { ret; }\n"
KERNELS["restricted"] = KERNELS["restricted"].replace(
    "float* x, float* y", "float* __restrict__ x, float* __restrict__ y"
)
PLANTED = {
    "spills": ("__launch_bounds__(128)", "__launch_bounds__(128, 12)"),
    "loads": ("alignas(16)", "alignas(4)"),
    "unrolled": ("unroll 8", "unroll 1"),
    "shared": ("tile[1024]", "tile[12000]"),
    "restricted": (" __restrict__", ""),
    "same": ("{\n", "{\n    // The machine code is the same.\n"),
    "broken": ("y[i]", "z[i]"),
    "data": ("factor = 2", "factor = 3"),
    "renamed": ("work_renamed(", "work_by_another_name("),
    "tested": ("= x[i]", "= x[i] / 3"),
    "ready": ("{ ret; }", "{ exit; }"),
    "mended": ("__device__ int wrong = no_such_name;\n", ""),
}


def declare(folder: Path, kernels: Mapping[str, str], more: Mapping[str, str] = MORE) -> None:
    """Write kernels and their declaration. ``more``: what a kernel is declared with besides."""
    (folder / "mine").mkdir(exist_ok=True)
    for name, text in kernels.items():
        (folder / "mine" / f"{name}{'.ptx' if name == 'ready' else '.cu'}").write_text(text)
    variants = "".join(VARIANT.format(name=name, more=more.get(name, "")) for name in kernels)
    (folder / "mine" / "__init__.py").write_text(DECLARATION.format(variants=variants))


def diff(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    own = {**environment(), **variables}
    return run_module(("warpwatch", "diff", *arguments), folder, own, seconds=100, imports_from_folder=False)


def needs_tools() -> None:
    """Skip where nvcc or nvdisasm is missing, with the message that says how to get it."""
    for find, missing in ((nvcc, NoCompiler), (nvdisasm, NoDisassembler)):
        try:
            find()
        except missing as lacking:
            pytest.skip(str(lacking))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a commit, and other kernels in its working tree."""
    needs_tools()
    folder = tmp_path_factory.mktemp("repository")
    (folder / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    declare(folder, KERNELS)
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), COMMIT, ("checkout", "-q", "-b", "work")):
        git(folder, *command)
    changed = {name: text.replace(*PLANTED.get(name, ("", ""))) for name, text in KERNELS.items() if name != "gone"}
    declare(folder, changed | {"added": HEAD % "added" + INDEX + SAME}, MORE | OTHERS)
    return folder


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one run of the command said and wrote."""

    done: subprocess.CompletedProcess[str]
    json: CodeDifference
    markdown: str

    def build(self, name: str) -> BuildChange:
        return next(build for build in self.json.builds if build.id == f"work-{name}{BUILD}")

    def kernels(self, name: str) -> tuple[Any, Any]:
        (kernel,) = self.build(name).kernels
        return kernel.old, kernel.new


@pytest.fixture(scope="module")
def found(repository: Path) -> Found:
    written = [repository / name for name in ("table.md", "all.json")]
    files = ("--markdown", str(written[0]), "--json", str(written[1]))
    done = diff(repository, "--fail-on", "spills,registers,occupancy", *files)
    document = msgspec.json.decode(written[1].read_bytes(), type=Document).code
    assert document is not None
    return Found(done=done, json=document, markdown=written[0].read_text())


@pytest.mark.slow
def test_counts_and_exit_status(found: Found) -> None:
    assert (found.done.returncode, found.json.format) == (1, 1)
    assert found.json.counts == {"sm_90": {"different": 10, "new": 1, "gone": 1, "failed": 2, "identical": 1}}
    assert "sm_90: 15 builds: 1 identical, 10 different, 1 new, 1 gone, 2 not compiled" in found.done.stdout
    assert (
        "the working tree, with changes that are not committed, against the merge base with main" in found.done.stdout
    )


@pytest.mark.slow
def test_spills(found: Found) -> None:
    old, new = found.kernels("spills")
    assert (old.needs.local_bytes, new.needs.registers <= 40) == (0, True)
    assert new.needs.local_bytes > 0
    assert new.code.inside["local load 4 B"] > 0
    assert "local load 4 B" not in old.code.inside
    assert re.search(r"^  local memory +0 B -> \d+ B, \d+ loads, \d+ stores$", found.done.stdout, re.MULTILINE)
    assert f"work-spills{BUILD} (sm_90): local memory of a thread grew from 0 to" in found.done.stderr


@pytest.mark.slow
def test_other_kinds_and_numbers_of_instructions_are_counted(found: Found) -> None:
    old, new = found.kernels("loads")
    assert (old.code.outside["global load 16 B"], new.code.outside["global load 4 B"]) == (1, 4)
    assert "global load 16 B: 1 → 0" in found.markdown
    old, new = found.kernels("unrolled")
    assert old.code.inside["global load 4 B"] > new.code.inside["global load 4 B"] == 1
    assert min(old.code.loops) > 1
    assert len(new.code.loops) == 1
    old, new = found.kernels("restricted")
    assert "global load 4 B" not in old.code.inside
    assert new.code.inside["global load 4 B"] >= 1
    old, new = found.kernels("tested")  # and not timed
    assert old.code.instructions < new.code.instructions


@pytest.mark.slow
def test_more_shared_memory(found: Found) -> None:
    old, new = found.kernels("shared")
    assert [side.needs.shared_bytes for side in (old, new)] == [4096, 48_000]
    assert [side.occupancies[0].threads for side in (old, new)] == [128, 128]
    assert new.occupancies[0].occupancy.share == 16 / 64
    assert f"work-shared{BUILD} (sm_90): occupancy at 128 threads fell from 1.00 to 0.25" in found.done.stderr


@pytest.mark.slow
def test_the_same_code_in_other_blocks_is_told(found: Found) -> None:
    old, new = found.kernels("launched")
    assert old.needs == new.needs
    assert [side.occupancies[0].occupancy.share for side in (old, new)] == [1.0, 0.25]
    assert f"work-launched{BUILD} (sm_90): the lowest occupancy fell from 1.00 to 0.25" in found.done.stderr
    assert "work_launched: the machine code is the same, and is launched in other blocks" in found.done.stdout


@pytest.mark.slow
def test_notes_say_what_figures_do_not(found: Found) -> None:
    case = f"work-renamed{BUILD}".replace("-float32", "-1024-float32")
    for name, note in (
        ("data", ONLY_DATA),
        ("renamed", f"changed: entry work_renamed -> work_by_another_name ({case})"),
        ("ready", NO_CODE),
    ):
        assert found.build(name).notes == (note,)
    assert [found.build(name).kernels for name in ("data", "ready")] == [(), ()]
    assert f"error: work-ready{BUILD} (sm_90): {NO_CODE}" in found.done.stderr


@pytest.mark.slow
def test_new_and_gone_kernels_are_told_with_what_is_known(found: Found) -> None:
    old, new = found.kernels("added")
    assert (old, new.code.instructions > 5) == (None, True)
    assert f"work-added{BUILD} (sm_90): new" in found.done.stdout
    assert f"only in the merge base with main: work-gone{BUILD} (sm_90)" in found.done.stdout


@pytest.mark.slow
def test_a_build_that_fails_on_one_side_says_which_and_where(found: Found) -> None:
    (note,) = found.build("broken").notes
    assert note.startswith("in the working tree, mine/broken.cu does not compile: ")
    assert 'identifier "z" is undefined' in note
    (note,) = found.build("mended").notes
    assert note.startswith("in the revision, mine/mended.cu does not compile: ")
    assert f"error: work-mended{BUILD} (sm_90): not compared, because a side does not compile" in found.done.stderr


@pytest.mark.slow
def test_without_a_gate_only_what_does_not_compile_now_is_an_error(repository: Path) -> None:
    assert diff(repository, "-k", "broken").returncode == 1
    assert diff(repository, "-k", "mended or spills or shared").returncode == 0


@pytest.mark.slow
def test_a_gate_alone_counts_for_itself(repository: Path) -> None:
    assert diff(repository, "-k", "shared", "--fail-on", "spills,registers").returncode == 0
    assert diff(repository, "-k", "shared", "--fail-on", "occupancy").returncode == 1
    nothing = diff(repository, "-k", "no_such", "--fail-on", "spills")
    assert (nothing.returncode, "error: no build was compared" in nothing.stderr) == (1, True)


@pytest.mark.slow
def test_without_nvdisasm_the_rest_is_said(repository: Path) -> None:
    missing = str(repository / "none")
    done = diff(repository, "-k", "spills", NVDISASM=missing)
    assert done.returncode == 0
    assert (
        f"instructions are not counted: $NVDISASM names {missing}, which is not a file: pip install nvidia"
        in done.stderr
    )
    assert re.search(r"^  local memory +0 B -> \d+ B$", done.stdout, re.MULTILINE)
    assert "instructions" not in done.stdout
    gated = diff(repository, "-k", "shared", "--fail-on", "spills", NVDISASM=missing)
    assert gated.returncode == 1
    assert "loads and stores of local memory are not known without nvdisasm" in gated.stderr


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("no-such",), "error: no-such: git knows no such revision here"),
        (("",), "error: '' names no revision: give a commit"),
        (("--arch", "sm_9"), "error: --arch sm_9: nvcc .* knows sm_75, "),
        (("--arch", ""), "error: --arch names no architecture: give some, such as sm_80,sm_90"),
        (("--fail-on", "spills,speed"), "error: --fail-on speed: it takes spills, registers, occupancy"),
        (("--json", "."), "error: . cannot be written: Is a directory"),
        (("--markdown", "none/a.md"), "error: none/a.md cannot be written: there is no folder none"),
        (("-k", "a ("), "error: -k 'a \\(' is not an expression"),
    ],
)
def test_bad_input_is_one_sentence(repository: Path, arguments: tuple[str, ...], said: str) -> None:
    done = diff(repository, *arguments)
    assert done.returncode == 2
    assert re.match(said, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_calls_are_said_not_to_be_compared() -> None:
    assert _not_compared(PROJECT, "matmul-naive-8x8-float32".__eq__, "HEAD") == ()
    (one,) = _not_compared(PROJECT, "copy-memcpy-vendor-float32".__eq__, "HEAD")
    assert one == "1 call is not compared: pytest bench --against HEAD on a GPU sees what a call launches"
    notes = _not_compared(PROJECT, lambda name: "-memcpy-" in name, "")
    assert re.match(r"\d+ calls are not compared: pytest bench --against REV on a GPU", notes[0])
    empty = CodeDifference(
        revision="HEAD", commit="c" * 40, tree="", architectures=(), counts={}, builds=(), notes=notes
    )
    assert text_of(empty).endswith(f"\n\n{notes[0]}")
    assert f"- {notes[0]}" in markdown_of(empty)


def test_revisions_are_completed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    assert {"main", "work"} <= set(revisions(""))
    assert revisions("ma") == ["main"]
    monkeypatch.setenv("PATH", "")
    assert revisions("ma") == []


def test_a_shallow_clone_says_how_to_get_the_rest(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    (repository / "other").write_text("")
    for command in (("add", "other"), COMMIT, ("branch", "-f", "ahead"), ("checkout", "-q", "work")):
        git(repository, *command)
    address = f"file://{repository}"
    git(tmp_path, "clone", "-q", "--depth=1", "--no-single-branch", "--branch=ahead", address, "clone")
    clone = tmp_path / "clone"
    git(clone, "remote", "set-head", "origin", "main")
    done = diff(clone)
    assert (done.returncode, done.stdout) == (2, "")
    assert "have no commit in common here: this clone is shallow; `git fetch --unshallow` gets the rest" in done.stderr


@pytest.mark.slow
def test_without_a_main_branch_a_revision_is_asked_for(repository: Path, tmp_path: Path) -> None:
    declare(tmp_path, {"same": KERNELS["same"]})
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    assert "is not a git checkout" in diff(tmp_path).stderr
    for command in (("init", "-q", "-b", "work"), ("add", "-A"), COMMIT):
        git(tmp_path, *command)
    assert "neither main nor master: name a revision" in diff(tmp_path).stderr
    done = diff(tmp_path, "HEAD", "--arch", "sm_80,sm_90")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("the working tree, against HEAD (")
    assert "sm_80: 1 build: 1 identical\nsm_90: 1 build: 1 identical\n" in done.stdout
