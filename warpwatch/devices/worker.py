"""Runs kernels in a child process, the worker process: starts and ends it, and both ends of its calls.

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
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

from warpwatch.catalogue.cases import Build
from warpwatch.catalogue.declaration import Family, draw_by, registered
from warpwatch.catalogue.leaving import Ended, end_now
from warpwatch.catalogue.names import BadCase
from warpwatch.catalogue.project import Project, load_project
from warpwatch.catalogue.setting import Setting
from warpwatch.catalogue.validation import computed_fault
from warpwatch.devices.compile.compiler import ENGINE, CompileError
from warpwatch.devices.foreign.candidate import Candidates
from warpwatch.devices.foreign_text import Printed
from warpwatch.devices.gpu import Device, NoDevice, Settings, open_device, source_module_class
from warpwatch.devices.host import Host
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.isolated import FIND_ENGINE, packages
from warpwatch.devices.machine import LATE, DeviceError, Machine
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.runner import flush
from warpwatch.devices.transfer import PATIENCE, Stage, receive, send, serve, stage

# The first code of the child. It sends a failed import to the parent, because nothing else is loaded that could.
BOOT = """
import contextlib, os, pickle, sys
from multiprocessing.connection import Connection
try:
    sys.path[:] = [path for path in sys.path if not path.endswith(("site-packages", "dist-packages"))]  # in their order
    sys.path += [path for path in sys.argv[3].split(os.pathsep) if path not in sys.path]
    with contextlib.suppress(ImportError):  # in another revision, which asks later
        from warpwatch.devices.gpus import begin_for
        begin_for(sys.argv[2])
    from warpwatch.devices.worker import load, main
    load(sys.argv[2], sys.argv[4], sys.argv[5])
except BaseException as error:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        failure = pickle.dumps((None, f"{type(error).__name__}: {error}"))
        Connection(int(sys.argv[1])).send((0, failure, ()))  # as ``transfer.serve`` does
    sys.exit(1)
main()
"""
# What a kernel or a reference prints in a call is printed here after it, its begin and end as plain text: where pytest
# captures what this process prints, it belongs to the test.
RUN_SEED = "WARPWATCH_RUN_SEED"
MOST_PRINTED, REST = 2**15, "`python -m warpwatch run` of the case prints all of them"
PIPE_BYTES = 2**16  # that the system keeps
CLEAN_UP_SECONDS = 0.7  # seconds for a child to remove its temporary files before it is killed
LOOK_SECONDS = 0.002
# The system copies this much between two switches to the other process: 8 MB pass at 4.4 GB/s with it, and at 2.2
# without.
SOCKET_BYTES = 2**20
_P = ParamSpec("_P")
_T = TypeVar("_T")
# Seconds after which Python lets another thread run. With its own 5 ms, a reference that computes in Python beside a
# kernel (timing/inputs.py) leaves a twelfth of the samples; with this, half of them (of 2,240 a second, no GPU).
SWITCH_SECONDS = 2e-4
AT_COLLECTION = 0.1  # of the time that a reference may take: the smallest shape has that much
CALL_SECONDS = 120.0  # seconds that a call may take beyond the launch limit: inputs, references, copies


@dataclass
class Child:
    """A child process, as its parent sees it.

    ``printed``: what it has printed on stdout and on stderr, by the file descriptor that this is read from.
    ``stage_seconds``: what a stage of the declaration's Python may take. ``waiting``: is called each second with the
    stage that an answer is waited for. ``opened``: whether it has opened the device, None where it has not been asked
    to. ``questions``: how many were asked. ``stages``: those that run, by number.
    """

    process: subprocess.Popen[bytes]
    connection: Connection
    printed: dict[int, tuple[str, Printed]]
    stage_seconds: float
    waiting: Callable[[Stage], object] = lambda stage: None
    opened: bool | None = None
    questions: int = 0
    stages: dict[int, Stage] = field(default_factory=dict)

    def ask(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Send a call of ``function``, of a module's top level. Raises OSError where the child has ended."""
        self.questions += 1
        send(self.connection, (self.questions, function.__module__, function.__qualname__), (args, kwargs))

    def begin(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Ask for what opens the device, without waiting for it; ``has_opened`` does, and sees whether it has ended."""
        self.opened = False
        with contextlib.suppress(OSError):
            self.ask(function, *args, **kwargs)

    def has_opened(self, seconds: float) -> bool:
        """Wait until the device is open, and return whether it could be opened. Raises as ``await_start``."""
        self.await_start(seconds)
        self.opened = self.answer(seconds)[1] is None
        return self.opened

    def answer(self, seconds: float, question: int | None = None) -> tuple[Any, Exception | None]:
        """Return what a call returned in the child, and the exception that it raised.

        ``question``: its number, if it is not the last one. Raises DeviceError with ``lost`` where no answer comes
        within ``seconds``, or that to another question, as where the declaration's Python forks and both processes
        answer; EOFError or ConnectionError where the child has ended.
        """
        wanted = self.questions if question is None else question
        try:
            number, contents = self._await_answer(seconds)
            value, error = contents()
        finally:
            for descriptor, (name, printed) in self.printed.items():
                self._read(descriptor)
                if text := printed.take():
                    print(text, end="", file=getattr(sys, name), flush=True)
        if number != wanted:
            answered = f"the process in which kernels run gave answer {number} to question {wanted}"
            raise DeviceError(f"{answered}; process killed", lost=True)
        return value, error

    def await_start(self, seconds: float) -> None:
        """Wait until the child is ready. Raises DeviceError where it does not start, otherwise as ``answer``."""
        _, failure = self.answer(seconds, question=0)
        if failure:
            raise DeviceError(f"the process in which kernels run does not start: {failure}", lost=True)

    def death(self) -> str:
        """Say of what a child died that has closed its connection: in what of the declaration's Python, if in any."""
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:  # it closed the connection and still runs
            code = -signal.SIGKILL
        reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        if stage := self._oldest:
            return f"{stage.text} ended the process in which it ran ({reason}): let it return its results, or raise"
        return f"the process in which kernels run died: {reason}"

    @property
    def _oldest(self) -> Stage | None:
        """The stage that began first of those that have not ended, or None."""
        return min(self.stages.values(), key=lambda stage: stage.since, default=None)

    def _await_answer(self, seconds: float) -> tuple[int, Callable[[], Any]]:
        """Return the number of the next answer, and what unpacks it.

        The time of stages does not count; each has its own limit.
        """
        latest = time.monotonic() + seconds
        while True:
            begin, stage = time.monotonic(), self._oldest
            if self._has_message(1.0 if stage else max(0.0, latest - begin)):
                head, contents = receive(self.connection)
                if isinstance(head, int):
                    return head, contents
                number, text, share = head
                self.stages.pop(number, None)
                if text:
                    self.stages[number] = Stage(text=text, limit=share * self.stage_seconds)
            elif stage is None:
                raise DeviceError(f"no answer within {seconds:g} s; process killed", lost=LATE)
            if stage is None:
                continue
            latest += time.monotonic() - begin
            if stage.age > stage.limit:
                cure = "let it end, or allow more with --reference-timeout SECONDS"
                late = f"{stage.text} did not end within {stage.limit:g} s"
                raise DeviceError(f"{late}; process killed: {cure}", lost=LATE)
            if self._oldest is stage and stage.age >= PATIENCE:
                self.waiting(stage)

    def _has_message(self, seconds: float) -> bool:
        """Wait for a message while the child prints; return whether one came within this time."""
        ready, latest = select.poll(), time.monotonic() + seconds
        for number in (self.connection.fileno(), *self.printed):
            ready.register(number, select.POLLIN)
        while (left := latest - time.monotonic()) > 0:
            numbers = [number for number, _ in ready.poll(1000 * left)]
            for number in numbers:
                if number in self.printed and not self._read(number):
                    ready.unregister(number)  # the child has closed it
            if self.connection.fileno() in numbers:
                return True
        return False

    def _read(self, number: int) -> bytes:
        """Keep what the child has printed, as much as a pipe holds; empty where nothing is printed there any more."""
        try:
            part = os.read(number, PIPE_BYTES)
        except BlockingIOError:
            return b"."
        self.printed[number][1].add(part)
        return part

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child and the processes that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        """Hang up."""
        self.connection.close()
        while self.printed:
            os.close(self.printed.popitem()[0])


def launch(project: Project | Setting, settings: Settings, boot: str = BOOT) -> Child:
    """Start a child that finds the same modules in any working folder; its first answer says whether it is ready.

    ``boot``: its first code.
    """
    ours, theirs = pair = socket.socketpair()
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)  # or what the system allows
    root, apart = project.root, settings.untrusted
    # Searched after Python's own folders.
    known = os.pathsep.join(packages() if apart else [str(ENGINE), *filter(os.path.isabs, sys.path)])
    command = [sys.executable, *(["-I", "-c", FIND_ENGINE + boot] if apart else ["-P", "-c", boot])]
    told = json.dumps(asdict(replace(settings, run_seed=None)))  # every process can read this command line
    command += [str(theirs.fileno()), told, known, str(root), project.module]
    out, err = os.pipe(), os.pipe()
    with theirs, open(out[1], "wb") as stdout, open(err[1], "wb") as stderr:
        # A process group of its own, so that the compilers that it calls can be ended with it.
        process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=_environment(None if apart else root) | _of_run(settings),
            cwd=root,
            process_group=0,
            stdout=stdout,
            stderr=stderr,
        )
    printed = {number: (name, Printed(MOST_PRINTED, REST)) for name, (number, _) in (("stdout", out), ("stderr", err))}
    for number in printed:
        os.set_blocking(number, False)
    return Child(process, Connection(ours.detach()), printed, settings.reference_timeout)


@contextlib.contextmanager
def ending(*children: Child) -> Iterator[None]:
    """End children and the processes that they have started, whatever they are doing, all at the same time.

    The body runs while they end, which takes 0.05 to 0.3 s where they hold a GPU.
    """
    latest = time.monotonic() + CLEAN_UP_SECONDS
    try:
        for child in children:
            child.close()
            child.signal(signal.SIGTERM)
        yield
        while any(child.process.poll() is None for child in children) and time.monotonic() < latest:
            time.sleep(LOOK_SECONDS)  # ``Popen.wait`` looks every 0.05 s alone
    finally:
        for child in children:
            child.signal(signal.SIGKILL)
            child.process.wait()


def _of_run(settings: Settings) -> dict[str, str]:
    """Return the variable that brings a child the seed of its run; processes that are kept apart cannot read it."""
    return {} if settings.run_seed is None else {RUN_SEED: str(settings.run_seed)}


def _environment(root: Path | None) -> dict[str, str]:
    """Return the environment for a child: modules are found in ``root``, if in any, and all paths are absolute."""
    environment = dict(os.environ)
    for name in ("WARPWATCH_CACHE", "XDG_CACHE_HOME"):
        if environment.get(name):
            environment[name] = str(Path(environment[name]).absolute())
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join([*([str(root)] if root else []), *filter(os.path.isabs, given)])
    # By default NumPy's idle threads spin for a while on the cores that compilers need; here they sleep.
    environment.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    return environment


Launch = Callable[[Project | Setting, Settings], Child]


class Worker:
    """Calls functions in a child process, which it starts when needed and replaces when it is lost.

    ``launch``: starts a child.
    """

    def __init__(
        self,
        project: Project | Setting,
        settings: Settings = Settings(),  # noqa: B008  # frozen
        launch: Launch = launch,
    ) -> None:
        self.project, self.settings = project, settings
        self.call_seconds = CALL_SECONDS
        self.child: Child | None = None  # takes calls
        self._spares: list[Child] = []
        self._launch_child = launch
        self._is_lost = False  # the last child broke
        self._leaving = contextlib.ExitStack()  # waits for those that were told to end
        self.started = 0  # processes so far
        self.calls = 0  # so far
        self.waiting: Callable[[Stage], object] = lambda stage: None  # is called with a stage that takes long

    @property
    def has_opened_spares(self) -> bool:
        """True where a spare child has opened the device, or has been asked to."""
        return any(spare.opened is not None for spare in self._spares)

    @property
    def spares(self) -> int:
        """Number of spare children, whether or not they have opened the device."""
        return len(self._spares)

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run ``function``, of a module's top level, in the child. Its exceptions are raised here.

        Raises DeviceError with ``lost`` where the child died, did not answer in time, or lost its device. The next call
        then starts a new child. An interruption has the same effect, because the answer that is still to come would be
        taken for the answer to the next question.
        """
        self.calls += 1
        try:
            # One that cannot open the device is ended, and the next one says why.
            if self.child and self.child.opened is False and not self.child.has_opened(self.call_seconds):
                self._lose()
            child = self.child or self._start()
            child.ask(function, *args, **kwargs)
            value, error = child.answer(self.settings.launch_timeout + self.call_seconds)
        except (EOFError, ConnectionError):
            assert self.child
            error = DeviceError(self.child.death(), lost=True)
        except BaseException:
            self._lose()
            raise
        if getattr(error, "lost", False):
            self._lose()
        if error:
            raise error
        return value  # type: ignore[no-any-return]

    def _lose(self) -> None:
        """End a child that broke; the next call has a new one, which does what the first one did."""
        self.renew()
        self._is_lost = True

    def _start(self) -> Child:
        """Take a spare child, or start one and wait until it is ready.

        None is taken for a child that was lost: spare ones are made for what is measured after the first one.
        """
        self.await_spares()
        lost, self._is_lost = self._is_lost, False
        if (ready := [spare for spare in self._spares if spare.opened]) and not lost:
            self._spares.remove(ready[0])
            self.child = ready[0]
        else:
            self.child = self._launch()
            self.child.await_start(self.call_seconds)
        return self.child

    def start(self) -> None:
        """Start the child now, and let it open the device, without waiting for that: the first call is quicker."""
        self.child = self._launch()
        self.child.begin(describe_device)

    def _launch(self, *, gpu_seen: bool = False) -> Child:
        self.started += 1
        child = self._launch_child(self.project, replace(self.settings, gpu_seen=gpu_seen))
        child.waiting = lambda stage: self.waiting(stage)  # noqa: PLW0108  # which may be replaced later
        return child

    def start_spares(self, count: int) -> None:
        """Start children for ``open_spares``, on a machine where a GPU was seen.

        They load their modules, and leave the GPU alone: processes that open it at the same time wait for each other.
        """
        for _ in range(count):
            self._spares.append(self._launch(gpu_seen=True))

    def open_spares(self, count: int, get_ready: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Have spare children, which later ones are taken from, open the device, without waiting for them.

        Children of ``start_spares`` come first, then new ones. ``get_ready``: what they run, which opens the device. To
        start a child and to open the device takes a second, which passes here while there is nothing to measure.
        """
        loaded = [spare for spare in self._spares if spare.opened is None][:count]
        for _ in range(count - len(loaded)):
            loaded.append(self._launch())
            self._spares.append(loaded[-1])
        for spare in loaded:
            spare.begin(get_ready, *args, **kwargs)

    def await_spares(self) -> None:
        """Wait until spare children are ready, because to open the device would disturb what is measured meanwhile.

        Those that failed are ended. Nothing is lost by that: a call that finds no spare child starts one.
        """
        for spare in [spare for spare in self._spares if spare.opened is False]:
            is_ready = False
            try:
                with contextlib.suppress(EOFError, OSError, DeviceError):
                    is_ready = spare.has_opened(self.call_seconds)
            finally:  # also where an interruption left its answer unread
                if not is_ready:
                    self._spares.remove(spare)
                    with ending(spare):
                        pass

    def renew(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """End the child: the next call has another one. ``meanwhile``: runs while it ends, and may call the next."""
        child, self.child = self.child, None
        with ending(*filter(None, [child])):
            meanwhile()

    def fault_of_reference(self, family: Family) -> tuple[str, str] | None:
        """Return field and fault of what a family's reference computes, as ``catalogue.validation`` asks for it.

        That of a family which the child has loaded is computed there, because it may end the process.
        """
        if family not in getattr(self.project, "families", ()):
            return computed_fault(family)
        try:
            return self.call(fault_of_reference, family.name)
        except DeviceError as error:
            return "reference", f"cannot be used: {error}"
        except Exception as error:
            return "reference", f"cannot be used: {type(error).__name__}: {error}"

    def leave(self) -> None:
        """Tell the child and all spare ones to end, without waiting for that: ``stop`` does."""
        children = filter(None, [self.child, *self._spares])
        self.child, self._spares = None, []
        self._leaving.enter_context(ending(*children))

    def stop(self) -> None:
        """End the child and all spare ones."""
        self.leave()
        self._leaving.close()


_machines: dict[bool, Machine] = {}
_settings = [Settings()]
_place = [(Path(), "")]  # the folder and the module of the project
_busy = [False]  # whether the child runs a function for its parent
_last_acts: list[Callable[[], object]] = []  # of the child before it ends


def machine(on_host: bool) -> Machine:
    """Return, in the child, the host or the device, which the first call opens."""
    if on_host not in _machines:
        _machines[on_host] = Host() if on_host else _open()
    return _machines[on_host]


def _open() -> Device:
    """Open the device; calls that are not trusted run in a process of their own there."""
    device, settings = open_device(_settings[0]), _settings[0]
    if settings.untrusted:
        device.calls = Candidates(device, settings, *_place[0])
        _last_acts.append(device.calls.leave)
    return device


def gpu() -> Device:
    """Return, in the child, the device. Raises NoDevice where there is none."""
    device = machine(on_host=False)
    assert isinstance(device, Device)
    return device


def has_opened_gpu() -> bool:
    """Tell, in the child, whether the device is open."""
    return False in _machines  # the key of what is not the host


def describe_device() -> DeviceInfo:
    """Return, in the child, the properties of the device. Raises NoDevice where there is none."""
    return gpu().info


def call_missing(build: Build) -> str:
    """Say, in the child, why the call of a variant cannot be used and what helps; empty where it can."""
    return call_problem(build.variant, gpu().info)


def fault_of_reference(name: str) -> tuple[str, str] | None:
    """Return field and fault of what a family's reference and tolerance compute, in the child, or None."""
    with stage(f"the reference of {name} on the smallest shape (NumPy on the host)", AT_COLLECTION):
        try:
            return computed_fault(registered(name))
        except KeyboardInterrupt:  # Ctrl-C is the parent's
            return "reference", "cannot be used: it raises KeyboardInterrupt: let it return, or raise an error"


def _answer(function: tuple[str, str], contents: Callable[[], Any]) -> tuple[object, Exception | None]:
    """Call a function of a module, both by name, with the arguments that ``contents`` unpacks.

    Returns its value, and the error that it raised.
    """
    module, name = function
    value: object = None
    error: Exception | None = None
    try:
        _busy[0] = True
        args, kwargs = contents()
        value = getattr(importlib.import_module(module), name)(*args, **kwargs)
    except KeyboardInterrupt:  # Ctrl-C is the parent's: a function of the declaration raised it
        error = BadCase("a function of the declaration raises KeyboardInterrupt: let it return")
    except Exception as caught:  # every error is sent to the parent
        error = _picklable(caught)
    finally:
        _busy[0] = False
    flush()
    return value, error


def _picklable(error: Exception) -> Exception:
    """Return the exception itself if it can be pickled, else its traceback; PyCUDA's needs a driver to be unpickled."""
    foreign = type(error).__module__.partition(".")[0] == "pycuda"
    with contextlib.suppress(Exception):
        if not foreign and type(pickle.loads(pickle.dumps(error))) is type(error):
            if not isinstance(error, DeviceError | NoDevice | BadCase | CompileError | WrongResult):
                error.add_note(traceback.format_exc())
            return error
    return RuntimeError(traceback.format_exc())


def use(settings: str) -> None:
    """Open the device, in the child, with these settings, which are JSON."""
    seed = os.environ.pop(RUN_SEED, "")
    _settings[0] = Settings(**json.loads(settings) | {"run_seed": int(seed) if seed else None})
    draw_by(_settings[0].run_seed)


def load(settings: str, root: str, module: str) -> None:
    """Load settings and project, in the child, before cases are sent to it."""
    use(settings)
    if _settings[0].gpu_seen:
        with contextlib.suppress(ImportError):  # ``open_device`` says what is missing
            source_module_class()
    _place[0] = (Path(root), module)
    if _settings[0].untrusted:  # by its name, because that module needs this one
        begin = importlib.import_module("warpwatch.devices.foreign.comparing").begin
        _last_acts.append(begin(Setting(root=Path(root), module=module), _settings[0]))
    else:
        load_project(Path(root), module)


def main() -> None:
    """Run the child: BOOT with the file descriptor of its connection. Does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGTERM, _end_on_sigterm)
    sys.setswitchinterval(SWITCH_SECONDS)
    status = 0
    try:
        serve(Connection(int(sys.argv[1])), _answer)
    except (EOFError, ConnectionError):  # the parent ended, or was killed
        pass
    except SystemExit as leaving:
        # At once, while the error still holds the loaded module: unloading it would wait for its kernels.
        _end(leaving.code if isinstance(leaving.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        status = 1
    # Without the interpreter's own exit, where PyCUDA aborts if a context is left.
    flush()
    _end(status)


def _end(status: int) -> NoReturn:
    for act in _last_acts:
        with contextlib.suppress(Exception):  # the process ends whatever is left
            act()
    end_now(status)


def _end_on_sigterm(number: int, frame: object) -> None:
    """End the child: at once where it waits, else by SystemExit, so that temporary folders are removed."""
    if _busy[0]:
        device = _machines.get(False)
        if isinstance(device, Device):
            device.abandon()  # freeing memory would wait for a kernel that never ends
        raise Ended(128 + number)
    _end(128 + number)
