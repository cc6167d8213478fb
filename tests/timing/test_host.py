"""Tests the host's time of a launch: what is measured, that a slower host path is found, and allocations are named."""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest

from kernels import FAMILIES
from tests.compare.test_apart import commit
from tests.stranger import run_pytest
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import NoCompiler
from warpwatch.devices.gpu import Device, QueuedCall
from warpwatch.devices.outside import Settings, allocated_bytes
from warpwatch.devices.runner import Loaded
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.timing import sampling
from warpwatch.timing.observers import host
from warpwatch.timing.observers.host import BURST, BURSTS, SHORT_BURST, TRIES, UNUSED, Host, in_turns, remark

COPY, SCAN, CONVOLVE = (
    "copy-naive-256-33-float32",
    "scan-naive-256-33-float32",
    "conv2d-constant_filter-16x16-33x33x3-float32",
)
RUNS = 3
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")


# On a device that is played


class Player:
    """A device whose clock advances by what launches take, and whose hold ran into its limit ``lost`` times."""

    def __init__(self, lost: int = 0) -> None:
        self.lost, self.now, self.bursts_with_collector = lost, 0, 0

    def time(self, start: Callable[[], None], *, watched: bool) -> float | None:
        self.bursts_with_collector += gc.isenabled()
        start()
        self.lost -= 1
        return None if self.lost >= 0 else 1e-6


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> Player:
    played = Player()
    monkeypatch.setattr(host, "gpu", lambda: played)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: played.now)
    return played


def takes(player: Player, *, nanoseconds: int) -> Callable[[], None]:
    """Return a function that takes this time."""

    def start() -> None:
        player.now += nanoseconds

    return start


def timed(player: Player, *, nanoseconds: int) -> Callable[[], float]:
    return functools.partial(host._seconds_of, takes(player, nanoseconds=nanoseconds))


def loaded_call(start: Callable[[], None], restore: Callable[[], None]) -> Loaded:
    device = cast("Device", SimpleNamespace(errors_of_call=lambda what: nullcontext()))
    case, settings = find_case(FAMILIES, COPY), SimpleNamespace(return_to_context=lambda: None)
    call = QueuedCall(device, case, start, cast("Settings", settings))
    return cast("Loaded", SimpleNamespace(start=call, restore=restore, case=case, launches=()))


def test_what_is_restored_between_launches_is_not_measured(player: Player) -> None:
    loaded = loaded_call(takes(player, nanoseconds=3000), takes(player, nanoseconds=50_000))
    assert host._Side(loaded).burst() == pytest.approx([3e-6] * (BURST - UNUSED))
    assert player.bursts_with_collector == 1  # the launch that is timed beforehand
    assert gc.isenabled()


@pytest.mark.parametrize(("lost", "samples"), [(0, BURST - UNUSED), (TRIES - 1, BURST - UNUSED), (TRIES, 0)])
def test_launches_that_wait_for_the_gpu_do_not_count(player: Player, lost: int, samples: int) -> None:
    player.lost = lost
    assert len(host._burst(timed(player, nanoseconds=1000), BURST)) == samples


@pytest.mark.parametrize(("most", "median"), [(BURST, 3e-6), (SHORT_BURST, 3e-6), (UNUSED, None)])
def test_bursts_are_as_long_as_the_queue_allows(
    player: Player, monkeypatch: pytest.MonkeyPatch, most: int, median: float | None
) -> None:
    def burst(launch: Callable[[], float], size: int, *given: object) -> list[float]:
        return [launch()] if size <= most else []

    monkeypatch.setattr(host, "_burst", burst)
    observer, loaded = Host(), loaded_call(takes(player, nanoseconds=3000), lambda: None)
    cores = os.sched_getaffinity(0)
    assert observer.turn([loaded], core := host.current_core()) == (median and pytest.approx(median))
    assert os.sched_getaffinity(0) == {core}
    observer.release()
    assert os.sched_getaffinity(0) == cores


def test_a_pair_whose_launches_wait_has_no_host_times() -> None:
    values = iter((1.0, 2.0, None))
    assert in_turns(lambda is_new: next(values)) == {}


def test_sides_are_taken_in_turns() -> None:
    order, numbers = list[bool](), itertools.count(1)

    def take(is_new: bool) -> float:
        order.append(is_new)
        return next(numbers)

    ((old, new),) = in_turns(take).values()
    assert order[:8] == [False, True, True, False, True, False, False, True]
    assert len(old) == len(new) >= BURSTS
    assert (old[:4], new[:4]) == ((1, 4, 6, 7), (2, 3, 5, 8))


def test_which_cases_have_a_host_time() -> None:
    for name, why in (
        ("copy-serial-host-1048576-float32", "it runs on the host"),
        ("hello-hello-5x5-4-none", "its launches print"),
        ("copy-memcpy-vendor-1048576-float32", ""),
    ):
        assert Host().leaves_out(find_case(FAMILIES, name)) == why


def test_without_a_compiler_for_the_host_there_is_an_objection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "gxx", lambda: None)
    assert Host().objection() == ""
    monkeypatch.setattr(host, "gxx", Mock(side_effect=NoCompiler("no g++: install it")))
    assert Host().objection().endswith("no g++: install it")


def test_a_remark_says_what_a_call_allocates() -> None:
    assert remark(0) == ""
    assert remark(4096) == "allocates 4,096 bytes in each launch: allocate them once, in `prepare`"


# On the software device


def bare_results(case: Case, image: Path) -> bool:
    """Launch a case in the worker as its host time is measured; tell whether the results are the usual ones."""
    sampling.prepare(case, image, True)
    loaded, results = sampling.state.loaded[0], []
    for start in (loaded.start, host._Side(loaded).launch):
        loaded.poison()
        loaded.restore()
        start()
        gpu().finish()
        results.append([array.read() for array in loaded.results])
    sampling.release()
    return all(map(np.array_equal, *results))


def observed(case: Case, image: Path) -> dict[str, Any]:
    sampling.prepare(case, image, True)
    facts = sampling.observe(("host",))
    sampling.finish("cold")
    sampling.release()
    return facts


@needs_compiler
@pytest.mark.parametrize("name", [COPY, SCAN, CONVOLVE])
def test_what_is_launched_for_the_hosts_time_does_the_work(software: Worker, name: str) -> None:
    case = find_case(FAMILIES, name)
    image = compile_build(case.build, software.call(describe_device).timing_target).path
    assert software.call(bare_results, case, image)


@needs_compiler
def test_a_kernel_has_a_host_time_and_times_in_a_graph(software: Worker) -> None:
    case = find_case(FAMILIES, COPY)
    image = compile_build(case.build, software.call(describe_device).timing_target).path
    facts = software.call(observed, case, image)
    assert set(facts) == {"host_seconds", "host_iqr", "graph_of_one_seconds", "graph_seconds"}
    assert 0 < facts["host_seconds"] < 1e-3
    assert 0 < facts["graph_seconds"] < 1e-2


def allocated(sizes: Sequence[int]) -> int:
    """Return the bytes that launches are found to allocate in the worker, after a first one that allocates more."""
    cuda, memory, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_void_p(2)  # the thread's own

    def allocate(size: int) -> None:
        assert cuda.cuMemAllocAsync(ctypes.byref(memory), ctypes.c_size_t(size), stream) == 0
        assert cuda.cuMemFreeAsync(memory, stream) == 0
        assert cuda.cuStreamSynchronize(stream) == 0

    gpu()
    allocate(2**20)
    left = iter(sizes)
    return allocated_bytes(lambda: allocate(size) if (size := next(left, 0)) else None)


@needs_compiler
@pytest.mark.parametrize(("sizes", "found"), [((), 0), ((4096,) * 99, 4096), ((4096,), 0)])
def test_what_each_launch_allocates_is_counted(software: Worker, sizes: tuple[int, ...], found: int) -> None:
    assert software.call(allocated, sizes) == found


# A call whose Python gets slower, and one that allocates

DECLARED = """
import ctypes
import time

import warpwatch as ww


def copy(x, y, stream):
    cuda = ctypes.CDLL("libcuda.so.1")
    to, source, size, queue = (
        ctypes.c_uint64(y.address), ctypes.c_uint64(x.address), ctypes.c_size_t(x.nbytes), ctypes.c_void_p(stream)
    )

    def launch():
        cuda.cuMemcpyDtoDAsync_v2(to, source, size, queue)

    return launch


PASS = ww.Family(
    "pass",
    sizes=("n",),
    dtypes=("float32",),
    arrays=lambda n: {"x": ww.In(n), "y": ww.Out(n)},
    reference=lambda x: x,
    exact=True,
    work=lambda n: ww.Work(0, 8 * n),
    tests=((7,),),
    benchmarks=((4096,),),
    variants=(ww.call("copy", "the driver's copy", prepare=copy, needs_gpu=False),),
)
"""
CASE = "pass-copy-vendor-4096-float32"
SPIN = """        begin = time.perf_counter()
        while time.perf_counter() - begin < 2e-6:
            pass
"""
ALLOCATE = """        memory = ctypes.c_uint64()
        cuda.cuMemAllocAsync(ctypes.byref(memory), ctypes.c_size_t(12_288), queue)
        cuda.cuMemFreeAsync(memory, queue)
"""
BENCH = ("bench", "--device=software", "--benchmark-max-time=0.01", "--json=run.json", "-k", "pass-copy")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a call, committed."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(DECLARED)
    (tmp_path / "pyproject.toml").write_text('[tool.warpwatch]\nkernels = "mine"\n')
    (tmp_path / ".gitignore").write_text(".benchmarks\n__pycache__\nrun.json\n")
    commit(tmp_path)
    return tmp_path


def edit(folder: Path, added: str) -> None:
    """Add lines to what each launch does."""
    path = folder / "mine" / "__init__.py"
    path.write_text(path.read_text().replace("    def launch():\n", f"    def launch():\n{added}"))


def case_of(folder: Path) -> dict[str, Any]:
    return next(case for case in json.loads((folder / "run.json").read_text())["cases"] if case["id"] == CASE)


@pytest.mark.slow
@needs_compiler
def test_a_slower_host_path_is_found_by_its_own_gate_alone(repository: Path) -> None:
    """Where a busy host's times decide nothing, it runs again."""
    edit(repository, SPIN)
    for _ in range(RUNS):
        done = run_pytest(repository, *BENCH, "--against", "HEAD", "--host", "--fail-on", "host")
        if "host time of 1 kernels: 1 unsure" not in done.stdout:
            break
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"^{CASE}: more host time: \d+\.\d\d -> \d+\.\d\d µs a launch, \+", done.stdout, re.M), (
        done.stdout
    )
    assert "host time of 1 kernels: 1 more" in done.stdout
    case = case_of(repository)
    assert (case["outcome"], case["host"]["verdict"]) == ("passed", "slower")
    assert case["verdict"] in ("same", "unsure")
    assert 1.9e-6 < case["host"]["after"] - case["host"]["before"] < 6e-6


@needs_compiler
@pytest.mark.slow
def test_an_unchanged_host_path_is_not_accused(repository: Path) -> None:
    edit(repository, "        # nothing\n")
    done = run_pytest(repository, *BENCH, "--against", "HEAD", "--host", "--fail-on", "host")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("host time of 1 kernels: 1 (same|unsure)", done.stdout)


@needs_compiler
@pytest.mark.slow
def test_a_call_that_allocates_in_each_launch_is_named(repository: Path) -> None:
    said = f"{CASE}: allocates 12,288 bytes in each launch"
    done = run_pytest(repository, *BENCH, "--host")
    assert (done.returncode, "in each launch" in done.stdout) == (0, False), done.stdout + done.stderr
    edit(repository, ALLOCATE)
    for more in (("--host",), ("--host", "--against", "HEAD")):
        done = run_pytest(repository, *BENCH, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        assert said in done.stdout
        assert case_of(repository)["measured"]["allocated_bytes"] == 12_288
