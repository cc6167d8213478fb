"""Tests of compiling in the background: order, interruption, and the effect of a failure on tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import FAMILIES
from softcuda.dependencies import Observation
from tests.checkout import Bench
from tests.fork_server import run_module
from tests.project import ROOT
from warpwatch.catalogue.cases import Build, find_case
from warpwatch.devices.compile import compiler
from warpwatch.devices.compile.background import Compilation
from warpwatch.devices.compile.compiler import (
    CompileError,
    CompilerThreads,
    Image,
    Target,
    cache_folder,
    compile_file,
    compile_text,
)

CASES = [f"matmul-tiled-{block}-64x64x64-float32" for block in ("8x8", "16x16", "32x32")]
BUILDS = [find_case(FAMILIES, name).build for name in CASES]
TARGET = Target("sm_90")


def image_of(build: Build) -> Image:
    return Image(Path(build.id), "source", "code")


class Desk:
    """An imitation of the compiler, which records its calls and waits until it is told to go on."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.may_go = threading.Event()

    def compile(self, build: Build, target: Target | None) -> Image:
        with compiler.permitted():
            self.came.append(build.id)
            assert self.may_go.wait(10)
        if build is BUILDS[1]:
            raise CompileError("tiled.cu:3: no")
        return image_of(build)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_builds_are_compiled_once_in_their_order_while_others_work(desk: Desk) -> None:
    compilation = Compilation(1, compile_one=desk.compile)
    for build in (*BUILDS, *BUILDS):
        compilation.add(build, TARGET)
    desk.may_go.set()
    compilation.finish_all()
    assert desk.came == [build.id for build in BUILDS]
    assert compilation.image(BUILDS[0], TARGET) == image_of(BUILDS[0])
    compilation.stop()


def test_threads_keep_the_cache_of_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []

    def compile_one(build: Build, target: Target | None) -> Image:
        folders.append(cache_folder())
        return image_of(build)

    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "first"))
    compilation = Compilation(1, compile_one=compile_one)
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "second"))
    compilation.add(BUILDS[0], TARGET)
    compilation.finish_all()
    compilation.stop()
    assert folders == [tmp_path / "first"]
    assert cache_folder() == tmp_path / "second"


def test_compilers_have_the_environment_of_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAVOUR", "first")
    with CompilerThreads(1) as threads:
        monkeypatch.setenv("FLAVOUR", "second")
        run = threads.submit(compiler._run, ["/bin/sh", "-c", "echo $FLAVOUR"], tmp_path, Observation(folder=tmp_path))
        assert run.result() == (0, "first\n")


def test_what_a_test_waits_for_does_not_wait_for_its_turn(desk: Desk) -> None:
    compilation = Compilation(1, compile_one=desk.compile)
    for build in BUILDS:
        compilation.add(build, TARGET)
    while not desk.came:
        time.sleep(0.001)
    threading.Timer(0.1, desk.may_go.set).start()
    assert compilation.image(BUILDS[2], TARGET) == image_of(BUILDS[2])
    assert desk.came[:2] == [BUILDS[0].id, BUILDS[2].id]
    compilation.stop()


def test_an_error_is_that_builds_alone(desk: Desk) -> None:
    compilation = Compilation(compile_one=desk.compile)
    for build in BUILDS:
        compilation.add(build, TARGET)
    desk.may_go.set()
    compilation.image(BUILDS[0], TARGET)
    with pytest.raises(CompileError, match=r"tiled\.cu:3: no"):
        compilation.image(BUILDS[1], TARGET)
    assert compilation.image(BUILDS[2], TARGET) == image_of(BUILDS[2])
    compilation.stop()


def test_progress_is_told_until_the_first_or_until_all_are_there(desk: Desk) -> None:
    compilation = Compilation(1, compile_one=desk.compile)
    for build in BUILDS:
        compilation.add(build, TARGET)
    told: list[tuple[int, int]] = []
    desk.may_go.set()
    compilation.wait(lambda done, total: told.append((done, total)), (BUILDS[0], TARGET))
    assert told
    compilation.wait(lambda done, total: told.append((done, total)))
    assert told[-1] == (3, 3)
    compilation.stop()


def test_nothing_is_compiled_while_it_is_not_permitted(desk: Desk) -> None:
    answers: list[Any] = [None, None, nullcontext()]
    compilation = Compilation(1, lambda: answers.pop(0), desk.compile)
    desk.may_go.set()
    compilation.add(BUILDS[0], TARGET)
    compilation.finish_all()
    assert not answers
    never = Compilation(1, lambda: None, desk.compile)
    never.add(BUILDS[2], TARGET)
    begin = time.monotonic()
    never.stop()
    assert time.monotonic() - begin < 2
    assert desk.came == [BUILDS[0].id]


def test_what_the_cache_has_needs_no_permit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWATCH_CACHE", str(tmp_path / "cache"))
    source, asked = tmp_path / "serial.cpp", list[int]()
    source.write_text('extern "C" int serial() { return 1; }\n')

    def compile_one(build: Build, _: Target | None) -> Image:
        return compile_file(source, {}, None, root=tmp_path)

    def permit() -> AbstractContextManager[None]:
        asked.append(1)
        return nullcontext()

    for _ in range(2):
        compilation = Compilation(1, permit, compile_one)
        compilation.add(BUILDS[0], TARGET)
        compilation.finish_all()
        assert compilation.image(BUILDS[0], TARGET).path.is_file()
        compilation.stop()
        assert len(asked) == 1


def test_functions_that_return_machine_code_run_at_the_same_time() -> None:
    both, came = threading.Barrier(2), list[str]()

    def source(arch: str) -> bytes:
        both.wait(timeout=5)
        came.append(arch)
        return b"no machine code"

    compilation = Compilation(2)
    builds = [replace(build, variant=replace(build.variant, source=source)) for build in BUILDS[:2]]
    for build in builds:
        compilation.add(build, TARGET)
    compilation.finish_all()
    assert came == ["sm_90", "sm_90"]
    compilation.stop()


@pytest.mark.slow
def test_to_stop_kills_the_compilers_that_it_started_and_no_others(tmp_path: Path) -> None:
    """Stop one that compiles while another one's compiler runs on in the same process."""
    slow = tmp_path / "nvcc"
    slow.write_text(f"#!/bin/sh\n[ $1 = --version ] && exit\ntouch {tmp_path}/started.$$\nsleep 2\nexit 3\n")
    slow.chmod(0o755)

    def compile_slowly(build: Build, target: Target | None) -> Image:
        return compile_text(f"// {build.id}", "slow.cu", Target("sm_90", str(slow)))

    stopped, others = (Compilation(1, compile_one=compile_slowly) for _ in range(2))
    for compilation, build in ((stopped, BUILDS[0]), (others, BUILDS[2])):
        compilation.add(build, TARGET)
    while len(list(tmp_path.glob("started.*"))) < 2:
        time.sleep(0.01)
    stopped.stop()
    with pytest.raises(CompileError, match="ended by SIGKILL"):
        stopped.image(BUILDS[0], TARGET)
    with pytest.raises(CompileError) as own:
        others.image(BUILDS[2], TARGET)
    assert "ended by" not in str(own.value)
    others.stop()


SLEEPY = """#!{python}
import pathlib, subprocess, sys
if "--version" in sys.argv:
    print("release 13.0")
else:
    pathlib.Path({started!r}, str(len(list(pathlib.Path({started!r}).iterdir())))).touch()
    subprocess.run(["sleep", "4711"])
"""
HOW = {
    "compile_all": "compile_all([(build, target) for build in builds(FAMILIES)], lambda *_: None)",
    "compile_other_kernels": (
        "compile_other_kernels([own_side(case) for case in timed_cases(FAMILIES) if not case.variant.on_host],"
        " target, lambda *_: None)"
    ),
    "compile_file": "compile_file(ENGINE / 'warpwatch/devices/hold.cu', {}, target)",
}


@pytest.mark.once
@pytest.mark.exclusive
@pytest.mark.parametrize("how", HOW)
def test_an_interrupted_compilation_ends_at_once_and_leaves_no_compiler(tmp_path: Path, how: str) -> None:
    """Interrupt it with some 190 builds queued; the signal goes to the process alone."""
    (tmp_path / "started").mkdir()
    (tmp_path / "tmp").mkdir()
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(SLEEPY.format(python=sys.executable, started=str(tmp_path / "started")))
    nvcc.chmod(0o755)
    code = (
        "import sys\nfrom kernels import FAMILIES\nfrom warpwatch.devices.compile.background import compile_all\n"
        "from warpwatch.devices.compile.compiler import *\n"
        "from warpwatch.catalogue.selection import *\nfrom warpwatch.compare.self_check import own_side\n"
        "from warpwatch.revision.commit import compile_other_kernels\n"
        f"target = Target('sm_90', {str(nvcc)!r})\n{HOW[how]}"
    )
    environment = os.environ | {"WARPWATCH_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "started").iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, errors = process.communicate(timeout=20)
    assert time.monotonic() - begin < 2.0
    assert b"KeyboardInterrupt" in errors
    assert len(list((tmp_path / "started").iterdir())) <= 3 * (os.cpu_count() or 1)
    left = subprocess.run(["pgrep", "-f", str(nvcc)], capture_output=True, text=True, check=False).stdout
    assert left == "", "compilers run on"
    assert not list((tmp_path / "tmp").glob("warpwatch-*")), "temporary folders are left"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout, with a cache of its own."""
    return Bench(tmp_path / "checkout").folder


def run_pytest(folder: Path, *arguments: str) -> str:
    environment = os.environ | {"WARPWATCH_CACHE": str(folder / "cache")}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        environment.pop(name, None)
    command = ("pytest", "correctness", "-p", "no:hypothesispytest", "--device=software", *arguments)
    return run_module(command, folder, environment, seconds=600).stdout


@pytest.mark.slow
def test_tests_that_only_compile_come_last(checkout: Path) -> None:
    listed = run_pytest(checkout, "--collect-only", "-q", "-k", "copy")
    tests = [line for line in listed.splitlines() if "::" in line]
    only = ["test_compile.py" in line for line in tests]
    assert any(only)
    assert not all(only)
    assert only == sorted(only)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_kernel_that_does_not_compile_fails_its_own_tests_alone(checkout: Path, workers: str) -> None:
    source = checkout / "kernels" / "copy" / "naive.cu"
    lines = source.read_text().splitlines()
    source.write_text("\n".join([*lines, "#if BLOCK_X == 256", "__device__ no such thing;", "#endif", ""]))
    said = run_pytest(checkout, "-n", workers, "-rpfE", "-k", "copy-naive and test_exact and float32")
    ends = [line.split(" - ")[0] for line in said.splitlines() if line.startswith(("PASSED ", "FAILED ", "ERROR "))]
    assert {"copy-naive-256-" in line for line in ends} == {True, False}, said
    for line in ends:
        assert line.startswith("PASSED ") == ("copy-naive-256-" not in line), line
    assert f"kernels/copy/naive.cu:{len(lines) + 2}:" in said
