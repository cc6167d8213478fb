"""Runs kernels in a child process, the worker process.

After an illegal address the driver refuses every further CUDA call of the process, even with a new context (measured
with driver 580 on an H200), and a kernel that never ends can only be stopped with its process. So kernels run in a
child process. When a kernel breaks it, that case fails, and the next case gets a new process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Build, Case, make_case
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import Project, load_project
from warpwatch.devices.check import WrongResult
from warpwatch.devices.compiler import ENGINE, CompileError, Image
from warpwatch.devices.gpu import Device, NoDevice, Settings, open_device
from warpwatch.devices.host import Host
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.machine import DeviceError, Machine
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.runner import Outcome, run

_P = ParamSpec("_P")
_T = TypeVar("_T")
CALL_SECONDS = 120.0  # seconds that a call may take beyond the launch limit: inputs, references, copies


# The first code of the child. It sends a failed import to the parent, because nothing else is loaded that could.
BOOT = """
import os, sys
from multiprocessing.connection import Connection
try:
    sys.path += [path for path in sys.argv[3].split(os.pathsep) if path not in sys.path]
    from warpwatch.devices.worker import load, main
    load(sys.argv[4], sys.argv[5])
except BaseException as error:
    Connection(int(sys.argv[1])).send((0, None, f"{type(error).__name__}: {error}"))
    sys.exit(1)
main()
"""
CLEAN_UP_SECONDS = 0.7  # seconds for a child to remove its temporary files before it is killed


class Worker:
    """Calls functions in a child process, which it starts when needed and replaces when it is lost."""

    def __init__(self, project: Project, settings: Settings = Settings()) -> None:  # noqa: B008  # frozen
        self.project, self.settings = project, settings
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._questions = 0  # sent so far; each answer carries the number of its question
        self.started = 0  # processes so far

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run ``function``, of a module's top level, in the child. Its exceptions are raised here.

        Raises DeviceError with ``lost`` where the child died, did not answer in time, or lost its device. The next call
        then starts a new child. An interruption has the same effect, because the answer that is still to come would be
        taken for the answer to the next question.
        """
        try:
            connection = self._connection or self._start()
            self._questions += 1
            connection.send((self._questions, function.__module__, function.__qualname__, pickle.dumps((args, kwargs))))
            value, error = self._answer(connection, self.settings.launch_timeout + CALL_SECONDS)
        except (EOFError, ConnectionError):
            error = DeviceError(f"the process in which kernels run died: {self._exit_reason()}", lost=True)
        except BaseException:
            self.stop()
            raise
        if getattr(error, "lost", False):
            self.stop()
        if error:
            raise error
        return value  # type: ignore[no-any-return]

    def _answer(self, connection: Connection, seconds: float) -> tuple[Any, Exception | None]:
        if not connection.poll(seconds):
            raise DeviceError(f"no answer within {seconds:g} s; process killed", lost=True)
        number, value, error = connection.recv()
        if number != self._questions:
            raise DeviceError(
                f"the process in which kernels run gave answer {number} to question {self._questions}; process killed",
                lost=True,
            )
        return value, error

    def _start(self) -> Connection:
        """Start a child that finds the same modules in any working folder, and wait until it is ready."""
        ours, theirs = socket.socketpair()
        root = self.project.root
        known = os.pathsep.join([str(ENGINE), *filter(os.path.isabs, sys.path)])  # searched after Python's own folders
        command = [sys.executable, "-P", "-c", BOOT, str(theirs.fileno()), json.dumps(asdict(self.settings)), known]
        command += [str(root), self.project.module]
        with theirs:
            # A process group of its own, so that the compilers that it calls can be ended with it.
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=_environment(root), cwd=root, process_group=0
            )
        self._connection = Connection(ours.detach())
        self.started += 1
        self._questions = 0
        _, failure = self._answer(self._connection, CALL_SECONDS)
        if failure:
            raise DeviceError(f"the process in which kernels run does not start: {failure}", lost=True)
        return self._connection

    def _exit_reason(self) -> str:
        assert self._process
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:  # it closed the connection and still runs
            code = -signal.SIGKILL
        self.stop()
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"

    def stop(self) -> None:
        """End the child and the processes that it has started, whatever they are doing."""
        process, self._process = self._process, None
        if self._connection:
            self._connection.close()
            self._connection = None
        if process is None:
            return
        try:
            _signal_group(process, signal.SIGTERM)
            process.wait(CLEAN_UP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _signal_group(process, signal.SIGKILL)
            process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _environment(root: Path) -> dict[str, str]:
    """Return the environment for a child: modules are found in ``root``, and all paths are absolute."""
    environment = dict(os.environ)
    for name in ("WARPWATCH_CACHE", "XDG_CACHE_HOME"):
        if environment.get(name):
            environment[name] = str(Path(environment[name]).absolute())
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join([str(root), *filter(os.path.isabs, given)])
    # By default NumPy's idle threads spin for a while on the cores that compilers need; here they sleep.
    environment.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    return environment


_machines: dict[bool, Machine] = {}
_settings = [Settings()]
_busy = [False]  # whether the child runs a function for its parent


def machine(on_host: bool) -> Machine:
    """Return, in the child, the host or the device, which the first call opens."""
    if on_host not in _machines:
        _machines[on_host] = Host() if on_host else open_device(_settings[0])
    return _machines[on_host]


def gpu() -> Device:
    """Return, in the child, the device. Raises NoDevice where there is none."""
    device = machine(on_host=False)
    assert isinstance(device, Device)
    return device


def describe_device() -> DeviceInfo:
    """Return, in the child, the properties of the device. Raises NoDevice where there is none."""
    return gpu().info


def call_missing(build: Build) -> str:
    """Say, in the child, why the call of a variant cannot be used and what helps; empty where it can."""
    return call_problem(build.variant, gpu().info)


def run_case(case: Case, image: Path, inputs: Mapping[str, Array], placement: Placement) -> Outcome:
    """Launch a case once, in the child, by devices.runner.run."""
    return run(machine(case.variant.on_host), case, image, inputs, placement)


@dataclass(frozen=True)
class Kernel:
    """A compiled build and the worker that runs it, as the fixture ``kernel`` gives them to a test.

    ``checking_image``: another build of the same kernel, which finds more faults and is slower. A benchmark checks it
    before it times ``image``. None where the device has no such build.
    """

    worker: Worker
    build: Build
    image: Image
    checking_image: Image | None = None

    @property
    def checked(self) -> Image:
        """Machine code that finds the most faults."""
        return self.checking_image or self.image

    def run(self, shape: Shape, inputs: Mapping[str, Array], placement: Placement = PLAIN) -> Outcome:
        """Launch once on these inputs; ``placement`` says how arrays and blocks are laid out."""
        build = self.build
        case = make_case(build.family, build.variant, build.configuration, shape, build.dtype)
        return self.worker.call(run_case, case, self.image.path, inputs, placement)


def serve(connection: Connection) -> None:
    """Answer calls until the parent hangs up."""
    while True:
        number, module, name, packed = connection.recv()
        value, error = None, None
        try:
            _busy[0] = True
            args, kwargs = pickle.loads(packed)
            value = getattr(importlib.import_module(module), name)(*args, **kwargs)
        except Exception as caught:  # every error is sent to the parent
            error = _picklable(caught)
        finally:
            _busy[0] = False
        connection.send((number, value, error))


def _picklable(error: Exception) -> Exception:
    """Return the exception itself if it can be pickled, else its traceback; PyCUDA's needs a driver to be unpickled."""
    foreign = type(error).__module__.partition(".")[0] == "pycuda"
    with contextlib.suppress(Exception):
        if not foreign and type(pickle.loads(pickle.dumps(error))) is type(error):
            if not isinstance(error, DeviceError | NoDevice | BadCase | CompileError | WrongResult):
                error.add_note(traceback.format_exc())
            return error
    return RuntimeError(traceback.format_exc())


def load(root: str, module: str) -> None:
    """Load the project, in the child, before cases are sent to it."""
    load_project(Path(root), module)


def main() -> None:
    """Run the child: BOOT with the file descriptor of its connection and its settings. Does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGTERM, _end_on_sigterm)
    status = 0
    try:
        _settings[0] = Settings(**json.loads(sys.argv[2]))
        connection = Connection(int(sys.argv[1]))
        connection.send((0, None, None))
        serve(connection)
    except (EOFError, ConnectionError):  # the parent ended, or was killed
        pass
    except SystemExit as leaving:
        # At once, while the error still holds the loaded module: unloading it would wait for its kernels.
        os._exit(leaving.code if isinstance(leaving.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        status = 1
    # Without the interpreter's own exit, where PyCUDA aborts if a context is left.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(status)


def _end_on_sigterm(number: int, frame: object) -> None:
    """End the child: at once where it waits, else by SystemExit, so that temporary folders are removed."""
    if _busy[0]:
        device = _machines.get(False)
        if isinstance(device, Device):
            device.abandon()  # freeing memory would wait for a kernel that never ends
        raise SystemExit(128 + number)
    os._exit(128 + number)
