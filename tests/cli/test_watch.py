"""Tests of `warpwatch watch`, on the software device, in repositories of other people."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import warpwatch as ww
from tests import stranger
from tests.checkout import Bench
from tests.cli.command import git
from tests.project import PROJECT, ROOT
from warpwatch.catalogue.project import Project
from warpwatch.cli import watch
from warpwatch.cli.programs import Program
from warpwatch.cli.watch_files import Answer, files_by_variant, marked_files, reached
from warpwatch.runs.faults import reported
from warpwatch.runs.files import run_files

COMMIT = ("commit", "-q", "-m", "a state")
TESTS = """
import pytest


@pytest.mark.cases("tested")
def test_right(check):
    check()
"""
NAIVE = "mine/naive.cu"
ONE_BUILD = "256 and float32"
TIMED = "16777216"  # a size that no test has
UNDER_WAY = 60.0  # seconds that a line may take on a busy machine


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the family copy and a test of its cases, all of it committed."""
    stranger.declare(tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_kernels.py").write_text(TESTS)
    (tmp_path / "notes.py").write_text('TEXT = "pytest.mark.cases"\nprint(TEXT.cases)\n')
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    for command in (("init", "-q"), ("add", "-A"), COMMIT):
        git(tmp_path, *command)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text in a file as editors do: another file takes its name."""
    text = path.read_text()
    assert old in text
    made = path.with_name(".saving")
    made.write_text(text.replace(old, new))
    made.replace(path)


def once(folder: Path, *arguments: str, status: int) -> list[str]:
    done = stranger.run_command(folder, "watch", "--once", *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_only_the_kernel_whose_file_differs_from_head_is_checked(repository: Path) -> None:
    assert once(repository, status=0) == ["nothing that kernels are made of differs from HEAD"]
    edit(repository / NAIVE, "if (i < n)", "if (i < n)  // inside")
    since, compiled, right, untimed, took = once(repository, "-k", ONE_BUILD, status=0)
    assert since == "since HEAD  mine/naive.cu"
    assert compiled == "  compiled  1 build of copy-naive for softcuda"
    assert right == "  right     3 tests"
    assert untimed == "  times     not taken: those of softcuda say nothing about a GPU"
    command = re.escape("pytest tests -k '(256 and float32) and (copy-)'")
    assert re.fullmatch(rf"  \d+\.\d s; in full: {command}", took)
    # What is chosen by a size that is timed alone is tested all the same.
    _, _, right, _, took = once(repository, "-k", f"256 and {TIMED} and float32", status=0)
    assert re.fullmatch(r"  right     \d+ tests", right)
    assert took.endswith(" s; in full: pytest tests -k copy-")


@pytest.mark.slow
def test_what_is_wrong_before_a_kernel_runs_is_a_sentence(repository: Path) -> None:
    (line,) = once(repository, "-k", "no-such-kernel", status=1)
    assert line == "  error     -k 'no-such-kernel' matches no kernel: `warpwatch list` shows the ids"
    edit(repository / NAIVE, "b[i] = a[i];", "b[i] = a[i]")
    _, broken, took = once(repository, "-k", ONE_BUILD, status=1)
    assert broken.startswith(f"  broken    1 build of copy-naive: {NAIVE}:11: compile error: expected")
    assert " s; in full: pytest tests" in took
    (repository / NAIVE).rename(repository / "mine" / "simple.cu")
    lines = once(repository, status=1)
    assert lines[1] == "  mistake   family copy, variant naive: source is missing: there is no file mine/naive.cu", (
        lines
    )
    edit(repository / "mine" / "__init__.py", "import warpwatch as ww", "import warpwatch as ww, no_such_module")
    (line,) = once(repository, status=1)
    assert line.startswith("  error     [tool.warpwatch] kernels = 'mine': mine/__init__.py:")
    assert line.endswith("No module named 'no_such_module'")


@pytest.mark.slow
def test_without_git_nothing_is_said_to_be_right(tmp_path: Path) -> None:
    stranger.declare(tmp_path)
    (line,) = once(tmp_path, status=1)
    assert line.startswith(f"no HEAD to compare with: {tmp_path} is not a git checkout (")
    assert line.endswith("; nothing is checked")


@pytest.mark.slow
def test_kernels_that_no_test_covers_are_not_called_right(repository: Path) -> None:
    (repository / "tests" / "test_kernels.py").write_text(TESTS.replace("mark.cases", "mark.usefixtures"))
    edit(repository / NAIVE, "if (i < n)", "if (i < n)  // inside")
    lines = once(repository, "-k", ONE_BUILD, status=1)
    assert "  untested  no file of tests has pytest.mark.cases or pytest.mark.builds" in lines


@pytest.mark.slow
def test_on_a_gpu_a_kernel_that_is_right_is_timed_against_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first step, which finds the device, is given its answer; the others run pytest with a fake GPU."""
    bench = Bench(tmp_path / "checkout")
    # This GPU has times and no results.
    tests = TESTS.replace("check()", "assert case").replace("check", "case")
    (bench.folder / "correctness" / "test_case.py").write_text(tests)
    chosen = "(256 and float32) and (copy-naive-)"
    tests_files = ("correctness/test_case.py",)
    answer = Answer(
        affected=("copy-naive",), tested=chosen, timed=chosen, tests=tests_files, device="Fake", judges_times=True
    )
    monkeypatch.setattr(watch, "_answer", lambda path, child: answer)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p tests.fake_gpu -p no:hypothesispytest --benchmark-min-rounds=20")
    monkeypatch.setenv("FAKE_GPU", json.dumps({"slower": {"copy-naive-256": 1.2}}))
    monkeypatch.setenv("PYTHONPATH", str(bench.folder))
    watching = watch.Watch(root=bench.folder, module="kernels", keywords="256 and float32", device="gpu")
    assert watching.check_once([]) == 1
    said = capsys.readouterr().out.splitlines()
    _, right, times, took = said
    assert right == "  right     3 tests", said
    assert re.match(r"  times     4 slower; copy-naive-256-1048576-float32: slower: median .* processes", times)
    words = "-k '(256 and float32) and (copy-naive-)' --warpwatch-device=gpu"
    assert took.endswith(f" s; in full: pytest correctness {words} && pytest bench --warpwatch-against=HEAD {words}")
    assert not (bench.folder / ".benchmarks").exists()


class Watching:
    """A `warpwatch watch` that runs, and what it has printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._output = folder / ".output"
        known = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "warpwatch", "watch", *arguments],
                cwd=folder,
                env=stranger.environment() | {"PYTHONPATH": os.pathsep.join(known)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def until(self, text: str, count: int = 1) -> str:
        """Wait until a text is there so many times; returns all that was printed so far."""
        limit = time.monotonic() + UNDER_WAY
        while (said := self._output.read_text()).count(text) < count:
            assert time.monotonic() < limit, said
            assert self.process.poll() is None, said
            time.sleep(0.02)
        return said

    def children(self) -> list[int]:
        """Wait until it has begun a step, and return the processes that it has started."""
        path, limit = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children"), time.monotonic() + UNDER_WAY
        while not (found := [int(number) for number in path.read_text().split()]):
            assert time.monotonic() < limit
            time.sleep(0.01)
        return found

    def interrupt(self) -> str:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10)
        return self._output.read_text()


@pytest.mark.slow
def test_each_save_is_checked_and_one_during_a_run_begins_it_again(repository: Path) -> None:
    naive, other, declaration = (repository / "mine" / name for name in ("naive.cu", "vectorised.cu", "__init__.py"))
    edit(declaration, "import warpwatch as ww", "import warpwatch as ww, no_such_module")
    watching = Watching(repository, "-k", "(256 or 2048) and float32")  # a build of each kernel
    try:
        watching.until("watching the folders of mine; Ctrl-C ends it\n")
        edit(declaration, ", no_such_module", "")
        # The kernels', the declaration's and memcpy.py, which the declaration imports.
        said = watching.until("watching 4 files of 1 family; Ctrl-C ends it\n")
        assert "  compiled  2 builds of copy-naive, copy-vectorised for softcuda\n  right     6 tests\n" in said
        edit(naive, "if (i < n)", "if (i < n - 1)")
        said = watching.until("in full", 2)
        assert "  compiled  1 build of copy-naive for softcuda\n  wrong     copy-naive-256-" in said
        assert re.search(r"is wrong in 1 of [\d,]+ elements; worst B\[\d+\] = ", said)
        edit(naive, "if (i < n - 1)", "if (i <= n)")
        watching.until("  mine/naive.cu\n", 2)
        edit(other, "int n)", "int n )")  # while the other is checked, which this ends
        said = watching.until("in full", 3)
        first, second = said.split("  mine/naive.cu\n")[2].split("  mine/vectorised.cu\n")
        assert "in full" not in first
        assert (
            "  compiled  2 builds of copy-naive, copy-vectorised for softcuda\n  wrong     mine/naive.cu:11: " in second
        )
        edit(naive, "if (i <= n)", "if (i < n)")
        assert "  right     3 tests\n" in watching.until("in full", 4).split("  mine/naive.cu\n")[3]
        edit(naive, "if (i < n)", "if (i < n )")
        watching.until("  mine/naive.cu\n", 4)
        children = watching.children()
        assert len(children) == 1
        said = watching.interrupt()
    finally:
        watching.process.kill()
    assert watching.process.returncode == 130, said
    assert "Traceback" not in said
    assert not [number for number in children if Path(f"/proc/{number}").exists()]


def test_a_step_that_is_interrupted_while_it_starts_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = subprocess.Popen

    def interrupted(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        process = start(*args, **kwargs)
        started.append(process.pid)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Program(["timeit", "-n1", "-r1", "import time; time.sleep(60)"], tmp_path)
    assert not Path(f"/proc/{started[0]}").exists()


@pytest.mark.once
@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("watchfiles", "watch", ["watch"]),
        ("matplotlib", "pictures", ["picture", "bench/baselines/nvidia-h200/0001_x.json"]),
        ("matplotlib", "pictures", ["study", "copy", "--from", "bench/baselines/nvidia-h200/0001_x.json"]),
    ],
)
def test_a_command_that_lacks_a_package_names_its_own_extra(package: str, extra: str, arguments: list[str]) -> None:
    run = run_files(ROOT / "bench" / "baselines" / "nvidia-h200")[0]
    arguments = [str(run) if "/" in each else each for each in arguments]
    code = f"import runpy, sys; sys.modules[{package!r}] = None; sys.argv = ['warpwatch', *{arguments}]\n"
    done = stranger.run_python(ROOT, "-c", code + "runpy.run_module('warpwatch', run_name='__main__')")
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith(f"; pip install {package} (extra '{extra}')\n")
    assert done.stderr.count("\n") == 1


def test_a_kernel_that_is_a_text_belongs_to_the_file_that_has_it_and_its_headers(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text('code = """\n#include "size.h"\n__global__ void f(float* x) {}\n"""\n')
    (tmp_path / "size.h").touch()
    family = ww.Family(
        "filled",
        sizes=("n",),
        arrays=lambda n: {"x": ww.Out(n, "float32")},
        tests=((1,),),
        folder=tmp_path,
        variants=(ww.kernel("read", source=ww.from_python(tmp_path / "theirs.py", "code"), configurations=(32,)),),
    )
    files = files_by_variant(Project(root=tmp_path, module="declared", families=(family,)))
    assert files == {("filled", "read"): {tmp_path / "theirs.py", tmp_path / "size.h"}}


@pytest.mark.slow
def test_headers_and_modules_belong_to_the_kernels_that_use_them() -> None:
    files = files_by_variant(PROJECT)

    def using(name: str) -> set[tuple[str, str]]:
        return {variant for variant, paths in files.items() if ROOT / "kernels" / name in paths}

    assert using("matmul/tiled.cu") == {("matmul", "tiled")}
    assert using("matmul/microtile.h") == {
        ("matmul", name) for name in ("asynchronous", "double_buffered", "vectorised")
    }
    users = {"matmul", "matmul_3xtf32", "matmul_half", "attention", "attention_causal"}
    assert {family for family, _ in using("matmul/__init__.py")} == users
    assert using("__init__.py") == files.keys()
    assert not {path for paths in files.values() for path in paths if not path.is_relative_to(ROOT / "kernels")}


def test_a_family_that_uses_its_package_does_not_use_the_other_families_of_it() -> None:
    graph = {"mine": {"mine.a", "mine.b"}, "mine.a": {"mine"}, "mine.b": {"mine.common"}, "mine.common": set[str]()}
    assert reached({"mine.a"}, graph, "mine") == {"mine.a", "mine"}
    assert reached({"mine.b"}, graph, "mine") == {"mine.b", "mine.common"}


def test_files_of_tests_are_found_by_their_marks_in_code_and_not_in_texts(repository: Path) -> None:
    for folder in ("bench", ".hidden", "other"):
        (repository / folder).mkdir()
        (repository / folder / "test_more.py").write_text(TESTS)
    (repository / "other" / "pyproject.toml").write_text(stranger.TABLE)
    assert marked_files(repository) == [repository / "tests" / "test_kernels.py"]


def test_a_failure_is_one_line_with_its_place() -> None:
    message = """softcuda: race in matmul_tiled
  kernels/matmul/tiled.cu:28: thread (1, 0) of block (0, 0) reads 4 bytes of shared a_tile at byte 0
  kernels/matmul/tiled.cu:21: thread (0, 0) of block (0, 0) wrote them, with no barrier between
  again     pytest "correctness/test_kernels.py::test_exact"
"""
    assert watch._fault(reported(message)[0]) == (
        "kernels/matmul/tiled.cu:28: race in matmul_tiled: thread (1, 0) of block (0, 0) reads 4 bytes of shared a_tile"
        " at byte 0; kernels/matmul/tiled.cu:21: thread (0, 0) of block (0, 0) wrote them, with no barrier between"
    )


@pytest.mark.slow
def test_a_header_that_only_the_compiler_finds_belongs_to_its_kernel(repository: Path) -> None:
    edit(repository / NAIVE, 'extern "C"', '#define PART "part.cuh"\n#include PART\nextern "C"')
    (repository / "mine" / "part.cuh").write_text("// nothing yet\n")
    (repository / "mine" / "none.cuh").write_text("// of no kernel\n")
    for command in (("add", "-A"), COMMIT):
        git(repository, *command)
    for count in (1, 2):  # before it was ever compiled, and after it
        (repository / "mine" / "part.cuh").write_text(f"// part {count}\n")
        lines = once(repository, "-k", ONE_BUILD, status=0)
        assert lines[1] == "  compiled  1 build of copy-naive for softcuda"
    git(repository, "checkout", "-q", ".")
    (repository / "mine" / "none.cuh").write_text("// of no kernel, still\n")
    assert "compiled" not in "\n".join(once(repository, "-k", ONE_BUILD, status=0))
