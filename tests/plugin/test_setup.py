"""Tests that only a missing driver, GPU or compiler skips tests; a broken set-up stops the run with its cause."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkout import Bench
from tests.fork_server import run_module
from tests.project import PROJECT, ROOT
from warpwatch.devices import gpus
from warpwatch.devices.child import BOOT, launch
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.gpus import number_of_gpus, why_no_gpu
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import NoDevice
from warpwatch.devices.worker import Worker
from warpwatch.plugin.device import try_device

NEEDS_A_DEVICE = "def test_one(device): pass\n\n\ndef test_two(device): pass\n"
BROKEN_IN_WORKERS = """
import os
from warpwatch.devices import worker
from warpwatch.devices.machine import DeviceError

def call(self, *args):
    if "PYTEST_XDIST_WORKER" in os.environ:
        raise DeviceError("GPU 1 fell off the bus")
    return before(self, *args)

before, worker.Worker.call = worker.Worker.call, call
"""
needs_gxx = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt install g++")
needs_no_gpu = pytest.mark.skipif(
    shutil.which("nvidia-smi") is not None, reason="asks what happens on a machine without an NVIDIA driver"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout with two tests that need a device."""
    Bench(tmp_path)
    (tmp_path / "tests" / "test_device.py").write_text(NEEDS_A_DEVICE)
    return tmp_path


def pytest_in(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as its command does: Python does not import from the caller's folder."""
    command = ("pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *args)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return run_module(command, folder, inherited | environment, seconds=200, imports_from_folder=False)


def assert_stopped(done: subprocess.CompletedProcess[str], cause: str) -> None:
    said = done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, said
    assert cause in said
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said
    assert "passed" not in said
    assert "skipped" not in said


@pytest.mark.slow
@pytest.mark.once
@needs_gxx
@pytest.mark.parametrize("args", [(), ("-q",), ("-n2",)], ids=" ".join)
def test_a_kernel_of_the_suite_that_does_not_compile_stops_the_run(checkout: Path, args: tuple[str, ...]) -> None:
    (checkout / "warpwatch" / "devices" / "hold.cu").write_text("this is not C++\n")
    assert_stopped(pytest_in(checkout, "tests", *args), "--device=auto: warpwatch/devices/hold.cu does not compile")


@pytest.mark.slow
@needs_gxx
def test_what_fails_in_a_process_of_xdist_alone_stops_the_run_too(checkout: Path) -> None:
    (checkout / "broken_in_workers.py").write_text(BROKEN_IN_WORKERS)
    done = pytest_in(checkout, "tests", "-n1", "-p", "broken_in_workers", PYTHONPATH=str(checkout))
    said = done.stdout + done.stderr
    assert done.returncode not in (0, pytest.ExitCode.INTERNAL_ERROR), said
    assert "--device=auto: GPU 1 fell off the bus" in said
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_driver_that_cannot_be_loaded_stops_the_run(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").touch()
    done = pytest_in(checkout, "tests", LD_LIBRARY_PATH=str(tmp_path))
    assert_stopped(done, "--device=auto: the NVIDIA driver cannot be loaded: ")


@pytest.mark.slow
@needs_no_gpu
def test_no_compiler_is_a_reason_to_skip_and_only_where_the_device_may_be_any(checkout: Path) -> None:
    done = pytest_in(checkout, "tests", PATH="/nowhere")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 skipped: needs a device: no NVIDIA driver" in done.stdout
    assert "no g++ to build the software device with" in done.stdout
    assert_stopped(
        pytest_in(checkout, "tests", "--device=software", PATH="/nowhere"), "--device=software: no g++ to build"
    )


@pytest.mark.slow
@needs_gxx
def test_the_folder_that_pytest_starts_in_changes_nothing(checkout: Path) -> None:
    """If kernels/ were searched first, kernels/copy would be taken for the standard library's copy."""
    done = pytest_in(checkout / "kernels", "../tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.once
@pytest.mark.parametrize("path", ["", ":", ".", "copy:."])
def test_a_path_that_is_relative_changes_nothing_in_the_child(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(ROOT / "kernels")
    monkeypatch.setenv("PYTHONPATH", path)
    worker = Worker(PROJECT)
    try:
        assert worker.call(os.getcwd) == str(ROOT)
        assert all(os.path.isabs(entry) for entry in worker.call(import_path))
    finally:
        worker.stop()


def import_path() -> list[str]:
    """Return, in the child, the folders that it imports from."""
    return sys.path


def test_a_child_that_does_not_start_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    broken = BOOT.replace("warpwatch.devices.worker", "kernels.no_such_module")
    worker = Worker(PROJECT, launch=lambda *given: launch(*given, *([] if worker.started > 1 else [broken])))
    with pytest.raises(DeviceError, match=r"does not start: ModuleNotFoundError: No module named 'kernels.no_such_mod"):
        worker.call(import_path)
    assert worker.call(import_path)
    worker.stop()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (DeviceError("loading hold: the image is damaged"), "loading hold: the image is damaged"),
        (CompileError("hold.cu does not compile\nline 3"), "hold.cu does not compile\nline 3"),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (RuntimeError("Traceback ...\n  in f\nLogicError: no luck\n"), "RuntimeError: LogicError: no luck"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("wanted", ["auto", "gpu", "software"])
def test_every_other_error_stops_the_run_whatever_device_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, error: Exception, cause: str, wanted: str
) -> None:
    assert f"--device={wanted}: " in str(opened(monkeypatch, error, wanted))
    said = opened(monkeypatch, error, wanted)
    assert isinstance(said, pytest.UsageError)
    assert str(said).endswith(cause)


def test_no_device_is_an_answer_under_auto_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = NoDevice("no NVIDIA driver")
    assert opened(monkeypatch, missing, "auto") is missing
    for wanted in ("gpu", "software"):
        assert str(opened(monkeypatch, missing, wanted)) == f"--device={wanted}: no NVIDIA driver"


def opened(monkeypatch: pytest.MonkeyPatch, error: Exception, wanted: str) -> object:
    def call(self: Worker, function: Callable[..., object]) -> object:
        raise error

    monkeypatch.setattr(Worker, "call", call)
    return try_device(Worker(PROJECT), wanted)


DRIVER = """
extern "C" int cuInit(unsigned) {{ return {status}; }}
extern "C" int cuDeviceGetCount(int* count) {{ *count = {count}; return 0; }}
"""


@needs_gxx
@pytest.mark.parametrize(
    ("status", "count", "said", "broken"),
    [
        (0, 2, "", False),
        (0, 0, "the NVIDIA driver finds no GPU (error 0)", False),
        (100, 0, "the NVIDIA driver finds no GPU (error 100)", False),
        (34, 0, "no NVIDIA driver (libcuda.so.1 is the stub of a CUDA toolkit)", False),
        (999, 0, "the NVIDIA driver does not work: cuInit returns error 999", True),
        (803, 0, "the NVIDIA driver does not work: cuInit returns error 803", True),
    ],
)
def test_a_driver_that_does_not_work_is_not_a_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, count: int, said: str, broken: bool
) -> None:
    source = tmp_path / "driver.cpp"
    source.write_text(DRIVER.format(status=status, count=count))
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "libcuda.so.1")], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    if broken:
        with pytest.raises(DeviceError, match=said):
            why_no_gpu()
        with pytest.raises(DeviceError, match=said):
            number_of_gpus()
    else:
        assert why_no_gpu() == said
        assert number_of_gpus() == (0 if said else count)


def test_a_driver_that_says_much_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "import sys; sys.stderr.write(300_000 * '-'); print('0 1', flush=True); sys.stdin.read()"
    monkeypatch.setattr(gpus, "ASK_FOR_GPUS", said)
    assert why_no_gpu() == ""


def test_a_driver_that_crashes_is_not_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "ASK_FOR_GPUS", "import os; os.abort()")
    with pytest.raises(DeviceError, match="the NVIDIA driver cannot be asked for GPUs: exit status -6"):
        why_no_gpu()


LOOK = """
import os, stat, time
from pathlib import Path

def test_look(request):
    folder = Path(request.config.workerinput["warpwatch_locks"])
    about = folder.lstat()
    assert stat.S_ISDIR(about.st_mode) and stat.S_IMODE(about.st_mode) == 0o700 and about.st_uid == os.getuid()
    assert sorted(path.name for path in folder.iterdir()) == ["machine", "queue"]
    Path(SEEN).write_text(str(folder))
"""


@pytest.mark.slow
def test_locks_lie_in_a_folder_of_our_own_and_are_removed(checkout: Path, tmp_path: Path) -> None:
    seen, temporary = tmp_path / "seen", tmp_path / "temporary"
    temporary.mkdir()
    (checkout / "tests" / "test_device.py").write_text(LOOK.replace("SEEN", repr(str(seen))))
    done = pytest_in(checkout, "tests", "-n1", "--device=none", TMPDIR=str(temporary))
    assert done.returncode == 0, done.stdout + done.stderr
    assert Path(seen.read_text()).parent == temporary
    assert list(temporary.glob("warpwatch*")) == []
