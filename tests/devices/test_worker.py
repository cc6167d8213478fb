"""Tests of worker processes: after any failure the next call gets a new one, some of which are started ahead."""

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
from typing import Any

import numpy as np
import pytest

from kernels import FAMILIES
from tests.project import PROJECT, ROOT
from tests.written import compile_planted
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.catalogue.names import BadCase
from warpwatch.devices.child import CLEAN_UP_SECONDS, launch
from warpwatch.devices.compile.builds import compile_build
from warpwatch.devices.info import DeviceInfo
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import NoDevice, Settings
from warpwatch.devices.references import expected
from warpwatch.devices.transfer import send
from warpwatch.devices.worker import Worker, describe_device

CASE = find_case(FAMILIES, "matmul-serial-host-7x5x9-float64")


@pytest.fixture
def child() -> Iterator[Worker]:
    child = Worker(PROJECT)
    yield child
    child.stop()


# What the child is asked to do.


def add(a: int, b: int) -> int:
    return a + b


def ignore_sigterm() -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return os.getpid()


def die_with_words() -> None:
    os.write(2, b"the last words\n")
    os.abort()


def print_by_c() -> None:
    ctypes.CDLL(None).printf(b"by C\n")


def fail(error: Exception) -> None:
    raise error


def stumble() -> None:
    dict[str, int]()["a key that is not there"]


def chatter() -> None:
    """Send an answer that nobody asked for."""
    send(Connection(os.dup(int(sys.argv[1]))), 99, ("never mind", None))


@pytest.mark.slow
def test_an_answer_to_another_question_is_an_error(child: Worker) -> None:
    first = child.call(os.getpid)
    with pytest.raises(DeviceError, match="gave answer 99 to question 2") as caught:
        child.call(chatter)
    assert caught.value.lost
    assert child.call(os.getpid) != first


def test_calls_run_in_one_other_process_which_leaves_ctrl_c_to_its_parent(child: Worker) -> None:
    assert child.call(add, 2, b=3) == 5
    first = child.call(os.getpid)
    os.kill(first, signal.SIGINT)
    assert child.call(os.getpid) == first != os.getpid()


@pytest.mark.once
@pytest.mark.parametrize(
    ("asked", "said", "lost"),
    [
        ((fail, DeviceError("no luck", lost=True)), "no luck", True),
        ((fail, DeviceError("no luck", lost=False)), "no luck", False),
        ((ctypes.string_at, 0), "died: SIGSEGV", True),
        ((os._exit, 7), "died: exit status 7", True),
    ],
    ids=["lost device", "other error", "crash", "exit"],
)
def test_the_next_call_has_a_new_process_where_the_last_one_or_its_device_was_lost(
    child: Worker, asked: tuple[Any, ...], said: str, lost: bool
) -> None:
    first = child.call(os.getpid)
    with pytest.raises(DeviceError, match=said) as caught:
        child.call(*asked)
    assert caught.value.lost is lost
    assert (child.call(os.getpid) != first) is lost


def test_errors_arrive_as_what_they_are_with_their_traceback(child: Worker) -> None:
    with pytest.raises(BadCase, match="no such case"):
        child.call(fail, BadCase("no such case"))
    with pytest.raises(KeyError) as caught:
        child.call(stumble)
    assert "in stumble" in "\n".join(caught.value.__notes__)


@pytest.mark.slow
def test_silence_ends_at_the_limit(child: Worker) -> None:
    child.settings = Settings(launch_timeout=0.3)
    child.call(add, 1, 1)
    before, child.call_seconds = child.call_seconds, 0.2
    begin = time.monotonic()
    with pytest.raises(DeviceError, match=r"no answer within 0.5 s"):
        child.call(time.sleep, 60)
    assert time.monotonic() - begin < 5
    child.call_seconds = before
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
    first = child.call(os.getpid)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(Interruption):
        child.call(time.sleep, 0.6)
    time.sleep(1)  # by now the answer would have come
    assert child.call(add, 1, 1) == 2
    assert child.call(os.getpid) != first


def linger(folder: Path) -> None:
    """Imitate a compilation: a temporary folder, and a program that works in it."""
    with tempfile.TemporaryDirectory(dir=folder):
        subprocess.run(["sh", "-c", f"echo $$ > {folder}/pid; exec sleep 60"], check=False)


@pytest.mark.slow
@pytest.mark.usefixtures("alarm")
def test_an_interrupted_child_leaves_no_temporary_folder_and_no_compiler(child: Worker, tmp_path: Path) -> None:
    child.call(os.getpid)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    with pytest.raises(Interruption):
        child.call(linger, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


ORPHAN = """
import os, signal, sys, threading, time
from warpwatch.devices.opening import NoDevice, Settings
from warpwatch.devices.worker import Worker, describe_device
from tests.project import PROJECT
worker = Worker(PROJECT, Settings(kind="software"))
worker.call(describe_device)
print(worker.call(os.getpid), flush=True)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
worker.call(time.sleep, 1.0)
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
from warpwatch.devices.kernel import Kernel

CASE = find_case(FAMILIES, "matmul-naive-16x16-40x33x50-float32")

def test_endless(device, pytestconfig):
    image = compile_file(Path("endless.cu").resolve(), CASE.build.all_macros, device.target)
    kernel = Kernel(pytestconfig.stash[WORKER], CASE.build, image)
    inputs = exact_inputs(CASE, 1)
    Path("running").touch()
    kernel.run(CASE.shape, inputs)
"""


@pytest.mark.slow
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
    source, crash = ROOT / "kernels/matmul/serial.cpp", "*(volatile int*)nullptr = 0;"
    wrong = compile_planted(tmp_path, source, "c_row[col] = 0;", crash, CASE.build.all_macros)
    inputs = exact_inputs(CASE, 0)
    with pytest.raises(DeviceError, match="SIGSEGV"):
        Kernel(child, CASE.build, wrong).run(CASE.shape, inputs)
    product = Kernel(child, CASE.build, compile_build(CASE.build, None)).run(CASE.shape, inputs).first
    assert np.array_equal(product, expected(CASE, inputs)["C"].reference)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_last_words_of_a_process_are_printed(child: Worker, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DeviceError, match="died: SIGABRT"):
        child.call(die_with_words)
    assert capfd.readouterr().err == "the last words\n"


# Processes that are started ahead, and how one process follows another.


@pytest.fixture
def failing_first() -> Iterator[Worker]:
    """A worker whose first child ends before it can be asked anything."""
    worker = Worker(PROJECT, launch=lambda *given: launch(*given, *([] if worker.started > 1 else [ENDS])))
    yield worker
    worker.stop()


ENDS = "raise SystemExit(3)"


@pytest.mark.slow
def test_a_spare_process_takes_the_place_of_one_that_ends(child: Worker) -> None:
    child.open_spares(2, os.getpid)
    first = child.call(os.getpid)
    child.await_spares()
    later = []
    for _ in range(2):
        child.renew()
        later.append(child.call(os.getpid))
    assert child.started == 3
    assert len({first, *later}) == 3
    child.renew()
    child.call(os.getpid)
    assert child.started == 4


def test_a_process_that_is_started_early_opens_the_device_and_takes_the_first_call(child: Worker) -> None:
    child.start()
    early = child.child
    assert child.call(describe_device).name
    assert child.child is early
    assert child.started == 1


@pytest.mark.slow
def test_a_process_that_cannot_open_the_device_is_replaced_and_the_call_says_why(
    child: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child.settings = Settings(kind="software")
    monkeypatch.setenv("PATH", str(tmp_path))
    child.start()
    with pytest.raises(NoDevice, match=r"no g\+\+ to build the software device with"):
        child.call(describe_device)
    assert child.started == 2
    monkeypatch.undo()
    child.renew()
    assert child.call(describe_device).name


@pytest.mark.slow
def test_a_process_that_ends_before_the_first_call_is_an_error(failing_first: Worker) -> None:
    failing_first.start()
    with pytest.raises(DeviceError, match="died: exit status 3"):
        failing_first.call(add, 1, 2)
    assert failing_first.call(add, 1, 2) == 3


@pytest.mark.slow
def test_loaded_processes_are_taken_before_new_ones_and_end_with_the_worker(child: Worker) -> None:
    first = child.call(os.getpid)
    child.start_spares(2)
    assert (child.has_opened_spares, child.spares) == (False, 2)
    loaded = [spare.process.pid for spare in child._spares if spare.opened is None]
    child.open_spares(1, os.getpid)
    assert (child.has_opened_spares, child.spares) == (True, 2)
    child.renew()
    assert child.call(os.getpid) == loaded[0] != first
    assert (child.has_opened_spares, child.spares) == (False, 1)
    assert child.started == 3
    child.open_spares(2, os.getpid)
    assert child.started == 4
    child.start_spares(1)
    (idle,) = (spare.process for spare in child._spares if spare.opened is None)
    child.stop()
    assert idle.poll() is not None
    assert not Path(f"/proc/{loaded[0]}").exists()
    assert (child.spares, child.child) == (0, None)


@pytest.mark.slow
def test_processes_that_do_not_end_by_themselves_are_killed_together(child: Worker) -> None:
    child.open_spares(2, ignore_sigterm)
    child.await_spares()
    assert child.call(ignore_sigterm) == child.call(os.getpid)
    begin = time.monotonic()
    child.stop()
    assert time.monotonic() - begin < 1.5 * CLEAN_UP_SECONDS


def test_the_next_process_may_be_called_while_the_last_one_ends(child: Worker) -> None:
    child.open_spares(1, os.getpid)
    last = child.call(ignore_sigterm)
    answers: list[tuple[int, bool]] = []

    def meanwhile() -> None:
        answers.append((child.call(os.getpid), Path(f"/proc/{last}").exists()))

    child.renew(meanwhile)
    assert answers == [(child.call(os.getpid), True)]
    assert not Path(f"/proc/{last}").exists()


@pytest.mark.slow
def test_a_process_ends_also_where_what_runs_meanwhile_fails(child: Worker) -> None:
    last = child.call(os.getpid)
    with pytest.raises(ZeroDivisionError):
        child.renew(lambda: 1 / 0)
    assert not Path(f"/proc/{last}").exists()
    assert child.call(os.getpid) != last


@pytest.mark.once
@pytest.mark.parametrize("awaited", [True, False])
def test_a_spare_process_that_fails_is_replaced(failing_first: Worker, awaited: bool) -> None:
    failing_first.open_spares(1, os.getpid)
    if awaited:
        failing_first.await_spares()
        assert failing_first.spares == 0
    assert failing_first.call(add, 2, 3) == 5


@pytest.mark.slow
def test_a_process_that_broke_is_replaced_by_a_new_one_and_spare_ones_serve_later(child: Worker) -> None:
    child.call(os.getpid)
    child.open_spares(1, os.getpid)
    child.await_spares()
    (spare,) = (each.process.pid for each in child._spares if each.opened)
    with pytest.raises(DeviceError, match="died"):
        child.call(os._exit, 1)
    assert child.call(os.getpid) != spare
    child.renew()
    assert child.call(os.getpid) == spare


@pytest.mark.slow
def test_processes_that_were_told_to_end_are_waited_for_later(child: Worker) -> None:
    first = child.call(os.getpid)
    child.open_spares(1, os.getpid)
    child.await_spares()
    (spare,) = (each.process.pid for each in child._spares if each.opened)
    child.leave()
    assert not child.has_opened_spares
    assert child.call(os.getpid) not in (first, spare)
    child.stop()
    assert not any(Path(f"/proc/{each}").exists() for each in (first, spare))


@pytest.mark.slow
@pytest.mark.usefixtures("alarm")
def test_a_spare_process_whose_answer_was_not_read_is_ended(child: Worker) -> None:
    child.open_spares(1, time.sleep, 60)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    with pytest.raises(Interruption):
        child.await_spares()
    assert child.spares == 0
    assert child.call(add, 1, 1) == 2
