"""The process in which kernels run: whatever breaks it, the next call has another."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kernels import FAMILIES, worker
from kernels.catalogue import BadCase, find_case
from kernels.compiler import ROOT, Image, compile_build, compile_file
from kernels.device import Settings
from kernels.machine import DeviceError
from kernels.runner import exact_operands, expected
from kernels.worker import Kernel, Worker

CASE = find_case(FAMILIES, "matmul-serial-host-7x5x9-float64")


@pytest.fixture
def child() -> Iterator[Worker]:
    child = Worker()
    yield child
    child.stop()


# What the child is asked to do.


def add(a: int, b: int) -> int:
    return a + b


def process_id() -> int:
    return os.getpid()


def crash() -> None:
    ctypes.string_at(0)


def leave(status: int) -> None:
    os._exit(status)


def complain(lost: bool) -> None:
    raise DeviceError("no luck", lost)


def refuse() -> None:
    raise BadCase("no such case")


def stumble() -> None:
    dict[str, int]()["a key that is not there"]


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def test_calls_run_in_one_other_process(child: Worker) -> None:
    assert child.call(add, 2, b=3) == 5
    first, second = child.call(process_id), child.call(process_id)
    assert first == second != os.getpid()


def test_a_crash_is_an_error_and_the_next_call_has_a_new_process(child: Worker) -> None:
    first = child.call(process_id)
    with pytest.raises(DeviceError, match="died: SIGSEGV") as caught:
        child.call(crash)
    assert caught.value.lost
    assert child.call(process_id) != first
    with pytest.raises(DeviceError, match="died: exit status 7"):
        child.call(leave, 7)
    assert child.call(add, 1, 1) == 2


def test_a_lost_device_costs_the_process_and_another_error_does_not(child: Worker) -> None:
    first = child.call(process_id)
    with pytest.raises(DeviceError, match="no luck"):
        child.call(complain, lost=False)
    assert child.call(process_id) == first
    with pytest.raises(DeviceError, match="no luck"):
        child.call(complain, lost=True)
    assert child.call(process_id) != first


def test_errors_arrive_as_what_they_are_with_their_traceback(child: Worker) -> None:
    with pytest.raises(BadCase, match="no such case"):
        child.call(refuse)
    with pytest.raises(KeyError) as caught:
        child.call(stumble)
    assert "in stumble" in "\n".join(caught.value.__notes__)


def test_silence_ends_at_the_limit(child: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    child.settings = Settings(launch_timeout=0.3)
    child.call(add, 1, 1)
    monkeypatch.setattr(worker, "PATIENCE", 0.2)
    begin = time.monotonic()
    with pytest.raises(DeviceError, match=r"no answer within 0.5 s"):
        child.call(sleep, 60)
    assert time.monotonic() - begin < 5
    monkeypatch.undo()
    assert child.call(add, 1, 1) == 2


def test_ctrl_c_is_left_to_the_parent(child: Worker) -> None:
    os.kill(child.call(process_id), signal.SIGINT)
    assert child.call(add, 1, 1) == 2


def test_a_kernel_that_crashes_fails_alone(child: Worker, tmp_path: Path) -> None:
    text = (ROOT / "kernels" / "matmul" / "serial.cpp").read_text()
    source = tmp_path / "serial.cpp"
    source.write_text(text.replace("c_row[col] = 0;", "*(volatile int*)nullptr = 0;"))
    operands = exact_operands(CASE, 0)

    def product(image: Image) -> np.ndarray:
        return Kernel(child, CASE.build, image).run(CASE.shape, operands).result

    with pytest.raises(DeviceError, match="SIGSEGV"):
        product(compile_file(source, CASE.build.macros, None))
    assert np.array_equal(product(compile_build(CASE.build, None)), expected(CASE, operands)[0])
