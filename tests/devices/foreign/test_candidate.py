"""Calls that are not trusted: they run in a process of their own, and are proved and timed by the worker process."""

from __future__ import annotations

import importlib
import json
import secrets
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.devices.foreign import candidates as module
from tests.project import ROOT
from tests.written import compile_written
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.project import Project, load_project
from warpwatch.devices import driver_calls
from warpwatch.devices.foreign import candidate, confinement
from warpwatch.devices.foreign.secret_random import SecretRandom
from warpwatch.devices.kernel import evaluate_case
from warpwatch.devices.machine import DeviceError, NoFigure
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, describe_device, gpu
from warpwatch.timing import candidate_samples, sampling
from warpwatch.timing.candidate_samples import HOW, CandidateSamples, doubt, slope

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
SIZES = {function.__name__: size for size, function in module.WAYS.items()}
SAMPLES = 3


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose calls are those of candidates.py."""
    folder = tmp_path_factory.mktemp("candidates")
    shutil.copy(module.__file__, folder / "candidates.py")
    project = load_project(folder, "candidates")
    yield project
    shutil.rmtree(notes_of(project), ignore_errors=True)


def notes_of(project: Project) -> Path:
    """Return the folder of what the calls of a project saw."""
    return Path(importlib.import_module(project.module).NOTES)


def started(project: Project, function: Callable[[], None]) -> Worker:
    """Start a worker process that has called a function of these tests, which it would not find elsewhere."""
    worker = Worker(project, Settings(kind="software", untrusted=True, launch_timeout=1.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.root)
        patch.setenv("PYTHONPATH", str(ROOT))
        worker.call(function)
    return worker


@pytest.fixture(scope="module")
def worker(project: Project) -> Iterator[Worker]:
    worker = started(project, take_all)
    yield worker
    worker.stop()


def take_all() -> None:
    """Take all numbers of launches, however long they take, in the worker: busy machines disturb less."""
    candidate_samples.LONG = 1.0


def case_of(project: Project, way: str, family: str = "calls") -> Case:
    return find_case(project.families, f"{family}-own-vendor-{SIZES[way]}-float32")


def evaluated(worker: Worker, project: Project, way: str) -> str:
    """Return what is said of a call whose results are compared with the reference."""
    try:
        said = worker.call(evaluate_case, case_of(project, way), Path(), "again", launches=2).faults
    except DeviceError as error:
        said = [str(error)]
    return "\n".join(said)


def timed(worker: Worker, project: Project, way: str, family: str = "calls") -> float:
    """Return the median of a few samples."""
    facts = worker.call(sampling.prepare, case_of(project, way, family), Path(), True)
    assert facts["how"] == HOW
    samples = [worker.call(sampling.sample, "cold")[0] for _ in range(SAMPLES)]
    worker.call(sampling.finish, "cold")
    assert worker.call(sampling.result_bits) == ""  # its inputs are never the same
    return statistics.median(samples)


def notes(project: Project, name: str) -> list[Any]:
    path = notes_of(project) / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def limit(seconds: float) -> None:
    """Let a go take less, in the worker."""
    candidate.GO_SECONDS = seconds


def forge_handles() -> None:
    """Give the other process handles of no memory, in the worker."""
    driver_calls.handle_of = lambda address: bytes(driver_calls.HANDLE_BYTES)


def allocated() -> int:
    """Return how many arrays the other process has."""
    calls = gpu().calls
    assert isinstance(calls, candidate.Candidates)
    return len(calls._allocated)


# Results


KERNEL = """
extern "C" __global__ void copied(float* to, const float* from, size_t count)
{
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < count)
        to[i] = from[i];
}
"""


def test_its_kernels_run_in_its_process_where_the_ends_of_arrays_are_known(worker: Worker, project: Project) -> None:
    (project.root / "copied.cu").write_text(KERNEL)
    image = compile_written(project.root / "copied.cu", {}, worker.call(describe_device).target)
    shutil.copy(image.path, project.root / "image")
    assert evaluated(worker, project, "launches_a_kernel") == ""
    said = evaluated(worker, project, "launches_too_much")
    assert "calls-own-vendor-1045-float32: " in said
    assert "softcuda: out of bounds in copied" in said
    assert evaluated(worker, project, "honest") == ""


def test_an_honest_call_is_right(worker: Worker, project: Project) -> None:
    assert evaluated(worker, project, "honest") == ""


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("zeros", "is wrong in 1,026 of 1,026 elements"),
        ("nothing", "unwritten 1,027 of them still hold the poison"),
        ("prepared", "launch    wrong in launch 1 of"),
        ("late", "unwritten 1,030 of them still hold the poison"),
        ("spoils", "changed its operand A: 4 bytes differ"),
        ("overruns", "cuMemsetD32Async failed with status 1"),
        ("raises", "calls-own-vendor-1042-float32: preparing own: RuntimeError: no such library"),
    ],
)
def test_a_call_that_does_not_do_its_work_is_wrong(worker: Worker, project: Project, way: str, said: str) -> None:
    assert said in evaluated(worker, project, way)


def test_nothing_that_judges_is_in_its_process(worker: Worker, project: Project) -> None:
    assert "is wrong" in evaluated(worker, project, "searches")
    assert {json.dumps(note) for note in notes(project, "searches")} == {json.dumps([0, 0, [], []])}


# Times


@pytest.mark.slow
def test_clocks_that_stand_still_in_its_process_are_named(worker: Worker, project: Project) -> None:
    with pytest.raises(WrongResult, match=r"time.perf_counter is not the one that was imported"):
        timed(worker, project, "patched", "clocks")
    assert worker.call(allocated) == 0


def test_no_result_can_be_kept_by_value(worker: Worker, project: Project) -> None:
    assert timed(worker, project, "by_value") > 0.8 * module.SLEEP
    hits = notes(project, "by_value")
    assert len(hits) > 100
    assert not any(hits)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("zeros", "is wrong in"),
        ("prepared", "is wrong in"),
        ("late", "is wrong in|its results changed"),
        ("stale", "the result is that of the inputs of an earlier launch"),
        ("spoils", "changed its operand A"),
        ("later", "its results changed after it had said that it was done|is wrong in"),  # whichever is seen first
    ],
)
def test_a_call_that_does_not_do_its_work_gets_no_figure(worker: Worker, project: Project, way: str, said: str) -> None:
    with pytest.raises(WrongResult, match=said):
        timed(worker, project, way)
    assert worker.call(allocated) == 0


def test_results_that_come_after_it_has_said_that_it_is_done_are_none(project: Project) -> None:
    worker = started(project, prove_late)
    try:
        with pytest.raises(WrongResult, match="its results changed after it had said that it was done"):
            timed(worker, project, "late")
    finally:
        worker.stop()


def prove_late() -> None:
    """Compare results when they are there, in the worker."""
    prove = CandidateSamples._prove

    def after_a_while(self: CandidateSamples, each: Any, is_known: bool) -> None:
        time.sleep(0.1)
        prove(self, each, is_known)

    CandidateSamples._prove = after_a_while  # type: ignore[method-assign]


# What the process does besides


@pytest.mark.once
@pytest.mark.parametrize("way", ["answers_next", "early"])
def test_saying_done_too_early_is_found(worker: Worker, project: Project, way: str) -> None:
    with pytest.raises((WrongResult, DeviceError), match=r"is wrong in|its results changed|is not an answer"):
        timed(worker, project, way)


@pytest.mark.once
@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("dies", "its process died (the last words)"),
        ("hangs", "no answer within 1.2 s; process killed"),
        ("prints", "no answer within 1.2 s; process killed"),
    ],
)
def test_its_end_is_one_sentence_and_nothing_is_lost(worker: Worker, project: Project, way: str, said: str) -> None:
    worker.call(limit, 0.2)
    child = worker.child
    assert evaluated(worker, project, way) == f"calls-own-vendor-{SIZES[way]}-float32: {said}"
    assert evaluated(worker, project, "honest") == ""
    assert worker.child is child


def test_a_child_of_it_ends_with_it(worker: Worker, project: Project) -> None:
    assert not evaluated(worker, project, "honest")  # whose process it is: what runs from its first call on is usual
    assert "runs on after the call" in evaluated(worker, project, "forks")
    worker.call(stop)
    before = len(notes(project, "forks"))
    assert before
    time.sleep(0.1)
    assert len(notes(project, "forks")) == before


def stop() -> None:
    calls = gpu().calls
    assert calls
    calls.stop()


@pytest.mark.slow
def test_memory_that_cannot_be_shared_is_an_error_that_says_what_helps(project: Project) -> None:
    worker = started(project, forge_handles)
    try:
        said = evaluated(worker, project, "honest")
    finally:
        worker.stop()
    assert said.startswith("calls-own-vendor-1024-float32: memory of another process cannot be opened")
    assert said.endswith("on the same GPU, which needs CUDA's IPC: of a container, --ipc=host; WSL has none")


class NoMemory:
    finds_faults = True


def test_a_gpu_that_no_second_process_may_open_is_an_error_that_says_what_helps(project: Project) -> None:
    device: Any = NoMemory()
    candidates = candidate.Candidates(device, Settings(kind="gpu", untrusted=True), project.root, "candidates")
    with pytest.raises(DeviceError, match="on the same GPU, which nvidia-smi -c DEFAULT allows"):
        candidates.prepare(case_of(project, "honest"), [])
    candidates.stop()


@pytest.mark.slow
@pytest.mark.parametrize("has_cgroup", [True, False])
def test_inputs_are_not_seen_before_the_time_begins(project: Project, has_cgroup: bool) -> None:
    worker = started(project, scrub_slowly if has_cgroup else scrub_slowly_without_cgroups)
    before = len(notes(project, "peeks"))
    try:
        with suppress(NoFigure):
            timed(worker, project, "peeks")
    finally:
        worker.stop()
    times = sorted(Counter(notes(project, "peeks")[before:]).values())
    assert times[3 * len(times) // 4] <= 4  # of 10: where it goes on, before it reads the question


def scrub_slowly() -> None:
    """Take a while between new inputs and a go, in the worker."""
    candidate_samples.timer().scrub = lambda: time.sleep(0.01)


def scrub_slowly_without_cgroups() -> None:
    scrub_slowly()
    confinement.make_cgroup = lambda: "not tried"


# Arithmetic


def test_one_go_that_was_disturbed_moves_no_slope() -> None:
    assert slope({1: [3.0], 2: [4.0], 4: [6.0], 8: [10.0]}) == pytest.approx(1.0)
    assert slope({8: [10.0], 2: [4.0], 4: [60.0], 1: [3.0]}) == pytest.approx(1.0, rel=0.1)
    assert slope({1: [3.0, 3.1, 90.0], 8: [10.1, 10.0, 0.0]}) == pytest.approx(6.9 / 7)


STEADY = [1e-4 * each for each in (1.37, 1.38, 1.36, 1.37, 1.4)]


@pytest.mark.parametrize(
    ("slopes", "more", "said"),
    [
        (STEADY, {}, ""),
        (
            STEADY,
            {"shortest": 2e-4},
            "a launch takes 137.0 µs, shorter than the host's launch of an empty kernel (200.0",
        ),
        (STEADY, {"alone": 7.7e-4}, ""),  # of cuBLAS: 1000x1000 took 0.24 ms more than the first two on an H200
        (STEADY, {"alone": 7.9e-4}, "a launch alone takes 790.0 µs and each one more 137.0, as if they overlapped"),
        (STEADY, {"queued": 0.95e-4}, ""),
        (STEADY, {"queued": 0.97e-4}, "a launch takes 137.0 µs, of which the call takes 97.0 on the host"),
        ([2e-5, 6e-5, 9.3e-5, 9.4e-5, 1.9e-5], {}, "a launch takes 20.0 to 93.0 µs by wall time"),
    ],
)
def test_slopes_that_tell_no_time_are_no_figure(slopes: list[float], more: dict[str, float], said: str) -> None:
    given = {"shortest": 8e-6, "alone": 3e-4, "first": 2.03e-4, "queued": 2e-5} | more
    assert doubt(slopes, **given, on_gpu=True)[: len(said) or None] == said
    if said and not {"shortest", "alone"} & more.keys():  # the host's own times scatter, and its calls run there
        assert doubt(slopes, **given, on_gpu=False) == ""


def test_a_slope_that_the_hardware_does_not_allow_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: object, kind: str, seconds: float) -> None:
        if seconds < 1e-4:
            raise WrongResult("faster than the hardware")

    call = SimpleNamespace(case=SimpleNamespace(id="mine"), at_most=2e-4)
    monkeypatch.setattr(candidate_samples, "_current", [call])
    monkeypatch.setattr(candidate_samples, "finish", lambda: None)
    monkeypatch.setattr(sampling, "check_hardware", check)
    with pytest.raises(NoFigure, match="mine: no figure by wall time: faster than the hardware"):
        sampling.finish("cold", 0.9e-4)
    sampling.finish("cold", 1.1e-4)
    call.at_most = 0.9e-4  # with all that a go costs
    with pytest.raises(WrongResult, match="faster than the hardware"):
        sampling.finish("cold", 1.1e-4)


def test_waiting_in_goes_of_few_launches_and_of_none_gains_nothing(worker: Worker, project: Project) -> None:
    with pytest.raises(NoFigure, match=r"no figure: a launch alone takes .* and each one more"):
        timed(worker, project, "evens_out", "waits")


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("overlaps", r"no figure: a launch alone takes .* and each one more .*, as if they overlapped"),
        ("honest", r"no figure: a launch takes .* shorter than the host's launch of an empty kernel \(1000000.0 µs\)"),
    ],
)
def test_a_time_that_cannot_be_told_is_no_figure(worker: Worker, project: Project, way: str, said: str) -> None:
    if way == "honest":
        worker.call(slow_host)
    with pytest.raises(NoFigure, match=said):
        timed(worker, project, way)
    assert worker.call(allocated) == 0


def test_secret_numbers_follow_from_their_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbits", lambda bits: 7)
    first, second = SecretRandom(), SecretRandom()
    numbers = [first.getrandbits(300), first.randrange(10**6), first.sample(range(9), 9)]
    assert numbers == [second.getrandbits(300), second.randrange(10**6), second.sample(range(9), 9)]
    monkeypatch.undo()
    assert SecretRandom().getrandbits(300) != numbers[0]
    draws = [first.random() for _ in range(1000)]
    assert 0.45 < statistics.fmean(draws) < 0.55
    assert 0 <= min(draws) < 0.01
    assert 0.99 < max(draws) < 1


def slow_host() -> None:
    """Let the host take a second to launch an empty kernel, in the worker."""
    candidate_samples.launch_seconds = lambda: 1.0  # type: ignore[assignment]
