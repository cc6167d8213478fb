"""Tests of what a call does outside its launch: found, said, restored; and nothing is said of honest calls."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.outside import FAMILIES, HONEST
from tests.project import ROOT
from tests.stranger import declare, run_pytest
from warpwatch.catalogue.cases import Case, find_case
from warpwatch.catalogue.project import load_project
from warpwatch.devices import driver_calls, outside, preparing
from warpwatch.devices.activity import Activity
from warpwatch.devices.kernel import evaluate_case
from warpwatch.devices.machine import DeviceError, GuardedArray
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker, gpu
from warpwatch.results import read_run
from warpwatch.timing import observers, sampling
from warpwatch.timing.observers.observer import growth

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker(load_project(ROOT, "tests.outside"), Settings(kind="software"))
    yield worker
    worker.stop()


def case_of(name: str, family: str = "duplicate", n: int = 100_000, dtype: str = "float32") -> Case:
    return find_case(FAMILIES, f"{family}-{name}-vendor-{n}-{dtype}")


def measure(case: Case) -> dict[str, Any]:
    """In the worker: check a case as a benchmark does, take samples, and return what is recorded of it."""
    facts = sampling.prepare(case, Path(), cold=False)
    observers.begin()
    for _ in range(12):
        sampling.sample("warm")
    facts |= observers.end()
    sampling.finish("warm")
    return facts


def tested(worker: Worker, case: Case) -> str:
    """Return what a test says of a case; empty where it is right."""
    faults = worker.call(evaluate_case, case, Path(), "again", launches=3).faults
    return "\n".join(faults)


@pytest.mark.parametrize("name", [function.__name__ for function in HONEST])
def test_nothing_is_said_of_an_honest_call(worker: Worker, name: str) -> None:
    assert tested(worker, case_of(name, n=1000)) == ""
    assert "remarks" not in worker.call(measure, case_of(name))


SAID = {
    "late": "works on for .* after its stream has ended: the work is queued on another stream; queue it on `stream`",
    "early": "runs a part of its work before its time begins: it takes .*s, and .*s where no stream may begin earlier",
    "hosted": "waits for another stream before it has queued its work: what it computes on the host meanwhile is not",
    "threaded": "starts a thread with each launch, 3 in 3 launches, such as 'helper'",
    "computing": "computes in a thread, such as 'eager' after its launch has ended",
    "precomputed": "its result is that of the inputs that `prepare` saw: prepare may only prepare",
}


def fault_of(worker: Worker, case: Case) -> str:
    """Return what a benchmark says is wrong with a case; empty where it has times."""
    try:
        worker.call(measure, case)
    except WrongResult as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", SAID)
def test_work_outside_the_launch_is_wrong(worker: Worker, name: str) -> None:
    case = case_of(name)
    # Times of a busy host may hide once what takes longer where all streams wait.
    said = next(filter(None, (fault_of(worker, case) for _ in range(3 if name == "early" else 1))), "")
    assert said.startswith(case.id)
    assert re.search(SAID[name], said)
    if name not in ("early", "hosted"):  # which take a second each
        assert re.search(SAID[name], tested(worker, case_of(name, n=1000)))


def test_a_preparation_may_look_at_what_holds_for_all_inputs(worker: Worker) -> None:
    case = case_of("advanced", "ascending", 1000, "int32")
    assert tested(worker, case) == ""
    assert fault_of(worker, case) == ""
    said = tested(worker, case_of("precomputed", "ascending", 1000, "int32"))
    assert SAID["precomputed"] in said


def values_kept_without_memory() -> bool:
    """In the worker: whether an array has its values again that were saved where no memory was free."""
    array = GuardedArray(gpu(), "x", (1000,), "int32")
    array.write(np.arange(1000, dtype=np.int32))
    with mock.patch.object(gpu(), "allocate", side_effect=DeviceError("not enough memory")):
        restore = preparing._saved(array)
    array.write(np.zeros(1000, np.int32))
    restore()
    return bool((array.read() == np.arange(1000)).all())


def test_values_are_kept_on_the_host_where_the_device_has_no_memory(worker: Worker) -> None:
    assert worker.call(values_kept_without_memory)


def surroundings() -> tuple[Any, ...]:
    """In the worker: what a call may change of its surroundings."""
    settings = driver_calls.settings(int(gpu()._stream.handle))
    context = driver_calls.current_context().value
    return dict(os.environ), np.geterr(), context, [setting.read() for setting in settings]


def test_what_a_call_changes_is_said_and_restored(worker: Worker) -> None:
    before = worker.call(surroundings)
    facts = worker.call(measure, case_of("changing"))
    changed = (
        "the current context, the size of persisting L2, the cache configuration, the access policy window of the "
        "stream, NumPy's handling of errors, PATH, CUBLAS_WORKSPACE_CONFIG"
    )
    assert facts["remarks"] == (f"its call changes {changed}; restored after it",)
    assert worker.call(surroundings) != before
    worker.call(sampling.release)
    assert worker.call(surroundings) == before
    assert tested(worker, case_of("changing", n=1000)) == ""
    assert worker.call(surroundings) == before


def measure_without_events(case: Case) -> dict[str, Any]:
    """In the worker: measure with a driver that has no events of a whole context."""
    device = gpu()
    device._watch = None
    try:
        with mock.patch.object(driver_calls, "has_context_events", return_value=False):
            return measure(case)
    finally:
        device._watch = None


def test_what_an_old_driver_cannot_show_is_said(worker: Worker) -> None:
    assert worker.call(measure_without_events, case_of("plain"))["remarks"] == (outside.UNSEEN,)
    assert "remarks" not in worker.call(measure, case_of("plain"))


def measure_recorded(case: Case, ran: list[Activity] | None) -> dict[str, Any]:
    """In the worker: measure where CUPTI records what is given, or nothing."""
    device, runs = gpu(), list[int]()

    def record(work: Callable[[], None]) -> list[Activity] | None:
        runs.append(1)
        work()
        return ran

    device._watch = device._learn()
    device._watch._record = record
    try:
        return {**measure(case), "runs": len(runs)}
    finally:
        device._watch = None


def test_what_a_call_launches_is_recorded_once_and_stray_work_is_wrong(worker: Worker) -> None:
    times = {outside.MARK: [(0, 5), (5, 9), (90_000, 95_000)], "scale": [(10_000, 80_000)]}
    ran = [
        Activity(name=name, words=name, stream=1, begin=begin, end=end, kernel={"registers": 24, "code": "a1"})
        for name, spans in times.items()
        for begin, end in spans
    ]
    facts = worker.call(measure_recorded, case_of("plain"), ran)
    assert (facts["launches"], facts["runs"]) == (["scale"], 1)
    assert (facts["kernels"], facts["registers"]) == ([{"registers": 24, "code": "a1"}], 24)
    assert "launches" not in worker.call(measure_recorded, case_of("plain"), ran[1:])  # not all was recorded
    assert "launches" not in worker.call(measure, case_of("plain"))  # the software device has no CUPTI
    assert "remarks" not in facts
    assert worker.call(measure_recorded, case_of("plain"), None)["remarks"] == (outside.UNRECORDED,)
    unseen = [replace(each, kernel={"code": ""}) for each in ran]
    remark = f"{outside.UNSEEN_CODE}: scale"
    assert worker.call(measure_recorded, case_of("plain"), unseen)["remarks"] == (remark,)
    late = Activity(name="", words="a fill of 16 bytes", stream=2, begin=80_000, end=97_000)
    with pytest.raises(WrongResult, match=r"plain.*works on for 7 µs after .* it runs a fill of 16 bytes on another"):
        worker.call(measure_recorded, case_of("plain"), [*ran, late])


def test_the_limit_is_learnt_from_launches_beside_which_nothing_runs(worker: Worker) -> None:
    assert worker.call(learn, [2e-6] * 10 + [2.2e-6] * 9 + [90e-6]) == outside.LATEST
    assert 205e-6 < worker.call(learn, [200e-6] * 10 + [200.2e-6] * 9 + [900e-6]) < 210e-6


def learn(readings: list[float]) -> float:
    """In the worker: return the limit that is learnt from readings."""
    aftermath = outside.Aftermath(int(gpu()._stream.handle))
    aftermath.learn(readings)
    return aftermath.limit


def test_one_late_sample_is_taken_again_and_three_in_a_row_are_a_fault(worker: Worker) -> None:
    assert worker.call(look, [0.0, 1.0, 0.0, 1.0, 1.0]) == ([True, False, True, False, False], "")
    counts, fault = worker.call(look, [0.0, 1.0, 3e-4, 2.0])
    assert counts == [True, False, False, False]
    assert fault.startswith("works on for 300 µs after")


def look(seconds: list[float]) -> tuple[list[bool], str]:
    """In the worker: look at samples after which work goes on for so long."""
    aftermath = outside.Aftermath(int(gpu()._stream.handle))
    aftermath.limit = 1e-5
    aftermath.seconds = lambda patience: seconds.pop(0)  # type: ignore[method-assign]
    return [aftermath.look(1.0) for _ in range(len(seconds))], aftermath.fault


def test_memory_that_is_kept_from_launch_to_launch_is_a_remark() -> None:
    million = 10**6
    assert growth([90 * million, 80 * million, 70 * million, 50 * million]) == (
        "free memory of the GPU falls from launch to launch, by 40 MB so far: free what each allocates"
    )
    assert growth([90 * million, 80 * million, 80 * million]) == ""  # a pool is made once
    assert growth([90 * million, 80 * million]) == ""
    assert growth([3_000_000, 2_999_999, 2_999_998]) == ""


@pytest.mark.slow
def test_remarks_are_printed_and_saved(tmp_path: Path) -> None:
    case, text = "copy-memcpy-vendor-1048576-float32", '    cuda = ctypes.CDLL("libcuda.so.1")\n'
    file = declare(tmp_path) / "memcpy.py"
    assert text in file.read_text()
    file.write_text(file.read_text().replace(text, f"{text}    cuda.cuCtxSetCacheConfig(1)\n"))
    (tmp_path / "bench").mkdir()
    shutil.copy(ROOT / "bench" / "bench_kernels.py", tmp_path / "bench")
    done = run_pytest(tmp_path, "bench", "--device=software", "--benchmark-max-time=0.01", "-k", case)
    remark = "its call changes the cache configuration; restored after it"
    assert f"\n{case}: {remark}\n" in done.stdout, done.stdout
    (saved,) = tmp_path.glob("**/.benchmarks/**/*.json")
    assert read_run(saved).cases[case].facts.remarks == (remark,)
