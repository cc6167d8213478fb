"""Tests of the worker process: after any failure the next call gets a new one."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from kernels import FAMILIES
from tests.devices.asked import add, die_with_words, print_by_c, process_id
from tests.project import PROJECT, ROOT
from tests.written import compile_written
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.catalogue.names import BadCase
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.compile.compiler import Image
from warpwatch.devices.gpu import Settings
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.references import expected
from warpwatch.devices.transfer import send
from warpwatch.devices.worker import Kernel, Worker

CASE = find_case(FAMILIES, "matmul-serial-host-7x5x9-float64")


@pytest.fixture
def child() -> Iterator[Worker]:
    child = Worker(PROJECT)
    yield child
    child.stop()


# What the child is asked to do.


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


@pytest.mark.slow
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


def test_silence_ends_at_the_limit(child: Worker) -> None:
    child.settings = Settings(launch_timeout=0.3)
    child.call(add, 1, 1)
    before, child.call_seconds = child.call_seconds, 0.2
    begin = time.monotonic()
    with pytest.raises(DeviceError, match=r"no answer within 0.5 s"):
        child.call(sleep, 60)
    assert time.monotonic() - begin < 5
    child.call_seconds = before
    assert child.call(add, 1, 1) == 2


def test_ctrl_c_is_left_to_the_parent(child: Worker) -> None:
    os.kill(child.call(process_id), signal.SIGINT)
    assert child.call(add, 1, 1) == 2


class Interruption(BaseException):
    """An exception that a signal handler raises, like KeyboardInterrupt or that of a plugin with a time limit."""


def interrupt(number: int, frame: object) -> None:
    raise Interruption


@pytest.fixture
def alarm() -> Iterator[None]:
    """A signal handler: SIGALRM interrupts this process at any point."""
    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("alarm")
def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next(child: Worker) -> None:
    assert child.call(add, 1, 1) == 2
    first = child.call(process_id)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(Interruption):
        child.call(echo, "the answer to another question", 0.6)
    time.sleep(1)  # by now the answer would have come
    assert child.call(add, 1, 1) == 2
    assert child.call(process_id) != first


def echo(text: str, seconds: float) -> str:
    time.sleep(seconds)
    return text


def keep(function: object) -> None:
    """Do nothing with what cannot be sent."""


def chatter() -> None:
    """Send an answer that nobody asked for."""
    send(Connection(os.dup(int(sys.argv[1]))), 99, ("never mind", None))


@pytest.mark.slow
def test_an_answer_to_another_question_is_an_error(child: Worker) -> None:
    first = child.call(process_id)
    with pytest.raises(DeviceError, match="gave answer 99 to question 2") as caught:
        child.call(chatter)
    assert caught.value.lost
    assert child.call(process_id) != first


@pytest.mark.slow
def test_a_question_that_cannot_be_sent_does_no_harm(child: Worker) -> None:
    with pytest.raises(Exception, match=r"(?i)pickle"):
        child.call(keep, lambda: None)
    assert child.call(add, 1, 1) == 2


def linger(folder: Path) -> None:
    """Imitate a compilation: a temporary folder, and a program that works in it."""
    with tempfile.TemporaryDirectory(dir=folder):
        subprocess.run(["sh", "-c", f"echo $$ > {folder}/pid; exec sleep 60"], check=False)


@pytest.mark.slow
@pytest.mark.usefixtures("alarm")
def test_an_interrupted_child_leaves_no_temporary_folder_and_no_compiler(child: Worker, tmp_path: Path) -> None:
    child.call(process_id)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    with pytest.raises(Interruption):
        child.call(linger, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


ORPHAN = """
import os, signal, sys, threading, time
from warpwatch.devices.gpu import NoDevice, Settings
from warpwatch.devices.worker import Worker, describe_device
from tests.project import PROJECT
from tests.devices.test_worker import process_id, sleep
worker = Worker(PROJECT, Settings(kind="software"))
worker.call(describe_device)
print(worker.call(process_id), flush=True)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
worker.call(sleep, 1.0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
def test_a_child_whose_parent_was_killed_ends_quietly(tmp_path: Path) -> None:
    """Without its own way to end, a process with a context would be aborted by PyCUDA, with a core file."""
    with (tmp_path / "said").open("w") as said:
        command = [sys.executable, "-P", "-c", ORPHAN]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=said, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    for _ in range(100):
        if not Path("/proc", done.stdout.decode().strip()).exists():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the child is still there")
    assert (tmp_path / "said").read_text() == ""


ENDLESS = """
from pathlib import Path
from warpwatch.plugin.device import WORKER
from kernels import FAMILIES
from warpwatch.catalogue.cases import find_case
from warpwatch.devices.compile.compiler import compile_file
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.devices.worker import Kernel

CASE = find_case(FAMILIES, "matmul-naive-16x16-40x33x50-float32")

def test_endless(device, pytestconfig):
    image = compile_file(Path("endless.cu").resolve(), CASE.build.all_macros, device.target)
    kernel = Kernel(pytestconfig.stash[WORKER], CASE.build, image)
    inputs = exact_inputs(CASE, 1)
    Path("running").touch()
    kernel.run(CASE.shape, inputs)
"""


@pytest.mark.once
@pytest.mark.exclusive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_run_ends_at_once_while_a_kernel_runs(
    device: DeviceInfo, tmp_path: Path, number: signal.Signals
) -> None:
    shutil.copy(ROOT / "tests" / "softcuda" / "bad_kernels" / "endless.cu", tmp_path)
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [sys.executable, "-m", "pytest", "--launch-timeout=60", "-p", "no:cacheprovider", "test_endless.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as run:
        for _ in range(600):
            if (tmp_path / "running").exists():
                break
            time.sleep(0.1)
        time.sleep(1.0)  # by now the kernel runs
        begin = time.monotonic()
        run.send_signal(number)
        said, _ = run.communicate(timeout=60)
        assert time.monotonic() - begin < 2.0, said
    assert run.returncode == pytest.ExitCode.INTERRUPTED, said
    assert "KeyboardInterrupt" in said


def test_a_kernel_that_crashes_fails_alone(child: Worker, tmp_path: Path) -> None:
    text = (ROOT / "kernels" / "matmul" / "serial.cpp").read_text()
    (source := tmp_path / "serial.cpp").write_text(text.replace("c_row[col] = 0;", "*(volatile int*)nullptr = 0;"))
    inputs = exact_inputs(CASE, 0)

    def product(image: Image) -> Array:
        return Kernel(child, CASE.build, image).run(CASE.shape, inputs).first

    with pytest.raises(DeviceError, match="SIGSEGV"):
        product(compile_written(source, CASE.build.all_macros, None))
    assert np.array_equal(product(compile_build(CASE.build, None)), expected(CASE, inputs)["C"].reference)


@pytest.mark.once
@pytest.mark.parametrize(("descriptor", "name"), [(1, "out"), (2, "err")])
def test_what_a_call_prints_is_printed_here_after_it_plain_and_limited(
    child: Worker, capsys: pytest.CaptureFixture[str], descriptor: int, name: str
) -> None:
    child.call(os.getpid)
    capsys.readouterr()
    child.call(os.write, descriptor, b"\x1b]0;title\x07::set-output::x\n::add-mask::y\r::z\xff")
    shown = getattr(capsys.readouterr(), name)
    assert shown == "\\x1b]0;title\\x07::set-output::x\n: :add-mask::y\\r::z\\xff\n"
    for text in (b"line\n" * 10**6, b"x" * 10**7):  # more than a pipe holds: the call would wait for ever
        child.call(os.write, descriptor, text)
        shown = getattr(capsys.readouterr(), name)
        assert len(shown) < 40_000
        assert " are left out here; `python -m warpwatch run` of the case prints all of them\n" in shown
    child.call(os.close, descriptor)
    child.call(os.getpid)
    assert not getattr(capsys.readouterr(), name)


def test_what_python_and_c_keep_in_buffers_is_printed_with_its_call(
    child: Worker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    child.call(print, "by Python")
    assert capsys.readouterr().out == "by Python\n"
    child.call(print_by_c)
    assert capsys.readouterr().out == "by C\n"


def test_the_last_words_of_a_process_are_printed(child: Worker, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DeviceError, match="died: SIGABRT"):
        child.call(die_with_words)
    assert capfd.readouterr().err == "the last words\n"
