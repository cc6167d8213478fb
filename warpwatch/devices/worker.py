"""Runs kernels in a child process, the worker process: both ends of its calls (child.py starts it and talks to it).

After an illegal address the driver refuses every further CUDA call of the process, even with a new context (measured
with driver 580 on an H200), and a kernel that never ends can only be stopped with its process. So kernels run in a
child process. When a kernel breaks it, that case fails, and the next case gets a new process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ParamSpec, TypeVar

from warpwatch.catalogue.arrays import Array, Shape
from warpwatch.catalogue.cases import Build, Case, make_case
from warpwatch.catalogue.declaration import Family, registered
from warpwatch.catalogue.leaving import Ended, end_now
from warpwatch.catalogue.names import BadCase, print_short
from warpwatch.catalogue.project import Project, load_project
from warpwatch.catalogue.setting import Setting
from warpwatch.catalogue.validation import computed_fault
from warpwatch.devices.check import WrongResult
from warpwatch.devices.child import Child, State, ending, launch
from warpwatch.devices.compile.compiler import CompileError, Image
from warpwatch.devices.evaluate import evaluate
from warpwatch.devices.gpu import Device, NoDevice, Settings, open_device, source_module_class
from warpwatch.devices.host import Host
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.machine import DeviceError, Machine
from warpwatch.devices.placement import PLAIN, Placement
from warpwatch.devices.runner import Outcome, flush, run
from warpwatch.devices.transfer import Stage, receive, report_to, send, stage, tell

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Seconds after which Python lets another thread run. With its own 5 ms, a reference that computes in Python beside a
# kernel (timing/inputs.py) leaves a twelfth of the samples; with this, half of them (of 2,240 a second, no GPU).
SWITCH_SECONDS = 2e-4
AT_COLLECTION = 0.1  # of the time that a reference may take: the smallest shape has that much
CALL_SECONDS = 120.0  # seconds that a call may take beyond the launch limit: inputs, references, copies


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
        self.children: list[Child] = []  # one of them takes calls; the others are spare
        self._launch_child = launch
        self._is_lost = False  # the last child broke
        self._leaving = contextlib.ExitStack()  # waits for those that were told to end
        self.started = 0  # processes so far
        self.calls = 0  # so far
        self.waiting: Callable[[Stage], object] = lambda stage: None  # is called with a stage that takes long

    def _in(self, *states: State) -> list[Child]:
        return [child for child in self.children if child.state in states]

    @property
    def child(self) -> Child | None:
        """The child that takes calls, or None."""
        return next(iter(self._in(State.STARTED, State.CALLED)), None)

    @property
    def has_opened_spares(self) -> bool:
        """True where a spare child has opened the device, or has been asked to."""
        return bool(self._in(State.OPENING, State.READY))

    @property
    def spares(self) -> int:
        """Number of spare children, whether or not they have opened the device."""
        return len(self._in(State.LOADED, State.OPENING, State.READY))

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run ``function``, of a module's top level, in the child. Its exceptions are raised here.

        Raises DeviceError with ``lost`` where the child died, did not answer in time, or lost its device. The next call
        then starts a new child. An interruption has the same effect, because the answer that is still to come would be
        taken for the answer to the next question.
        """
        self.calls += 1
        try:
            self._await_opening()
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
        if (ready := self._in(State.READY)) and not lost:
            ready[0].state = State.CALLED
            return ready[0]
        child = self._launch(State.CALLED)
        child.await_start(self.call_seconds)
        return child

    def start(self) -> None:
        """Start the child now, and let it open the device, without waiting for that: the first call is quicker."""
        child = self._launch(State.STARTED)
        with contextlib.suppress(OSError):  # it has ended: the first call says why
            child.ask(describe_device)

    def _await_opening(self) -> None:
        """Wait until the child has opened the device; one that cannot is ended, and the next one says why."""
        for child in self._in(State.STARTED):
            child.state = State.CALLED
            child.await_start(self.call_seconds)
            if child.answer(self.call_seconds)[1]:
                self._lose()

    def _launch(self, state: State, *, gpu_seen: bool = False) -> Child:
        self.started += 1
        child = self._launch_child(self.project, replace(self.settings, gpu_seen=gpu_seen))
        child.state = state
        child.waiting = lambda stage: self.waiting(stage)  # noqa: PLW0108  # which may be replaced later
        self.children.append(child)
        return child

    def start_spares(self, count: int) -> None:
        """Start children for ``open_spares``, on a machine where a GPU was seen.

        They load their modules, and leave the GPU alone: processes that open it at the same time wait for each other.
        """
        for _ in range(count):
            self._launch(State.LOADED, gpu_seen=True)

    def open_spares(self, count: int, get_ready: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Have spare children, which later ones are taken from, open the device, without waiting for them.

        Children of ``start_spares`` come first, then new ones. ``get_ready``: what they run, which opens the device. To
        start a child and to open the device takes a second, which passes here while there is nothing to measure.
        """
        for _ in range(count):
            child = next(iter(self._in(State.LOADED)), None) or self._launch(State.OPENING)
            child.state = State.OPENING
            with contextlib.suppress(OSError):  # it has ended: ``await_spares`` sees that
                child.ask(get_ready, *args, **kwargs)

    def await_spares(self) -> None:
        """Wait until spare children are ready, because to open the device would disturb what is measured meanwhile.

        Those that failed are ended. Nothing is lost by that: a call that finds no spare child starts one.
        """
        for child in self._in(State.OPENING):
            with contextlib.suppress(EOFError, OSError, DeviceError):
                child.await_start(self.call_seconds)
                if child.answer(self.call_seconds)[1] is None:
                    child.state = State.READY
                    continue
            self._end([child])

    def _end(self, children: Sequence[Child], meanwhile: Callable[[], object] | None = None) -> None:
        self.children = [child for child in self.children if child not in children]
        with ending(*children):
            if meanwhile:
                meanwhile()

    def renew(self, meanwhile: Callable[[], object] | None = None) -> None:
        """End the child: the next call has another one. ``meanwhile``: runs while it ends, and may call the next."""
        self._end(self._in(State.STARTED, State.CALLED), meanwhile)

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
        children, self.children = self.children, []
        self._leaving.enter_context(ending(*children))

    def stop(self) -> None:
        """End the child and all spare ones."""
        self.leave()
        self._leaving.close()


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


def fault_of_reference(name: str) -> tuple[str, str] | None:
    """Return field and fault of what a family's reference and tolerance compute, in the child, or None."""
    with stage(f"the reference of {name} on the smallest shape (NumPy on the host)", AT_COLLECTION):
        try:
            return computed_fault(registered(name))
        except KeyboardInterrupt:  # Ctrl-C is the parent's
            return "reference", "cannot be used: it raises KeyboardInterrupt: let it return, or raise an error"


def run_case(case: Case, image: Path, inputs: Mapping[str, Array], placement: Placement) -> Outcome:
    """Launch a case once, in the child, by devices.runner.run."""
    return run(machine(case.variant.on_host), case, image, inputs, placement)


def try_case(
    case: Case, image: Path, again: str, *, seed: int, launches: int, exact: bool, further: bool, placement: Placement
) -> tuple[list[str], str]:
    """Evaluate a case, in the child, as ``evaluate`` does.

    Returns its faults, and why no further inputs were tried, if any could be.
    """
    evaluation = evaluate(
        machine(case.variant.on_host),
        case,
        image,
        again,
        seed=seed,
        launches=launches,
        exact=exact,
        further=further,
        placement=placement,
    )
    return evaluation.faults, evaluation.trial.left_out


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

    def __repr__(self) -> str:
        return f"Kernel({self.build.id})"

    _repr_pretty_ = print_short

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
        message = receive(connection)
        number, module, name = message.head
        value: object = None
        error: Exception | None = None
        try:
            _busy[0] = True
            args, kwargs = message.contents()
            value = getattr(importlib.import_module(module), name)(*args, **kwargs)
        except KeyboardInterrupt:  # Ctrl-C is the parent's: a function of the declaration raised it
            error = BadCase("a function of the declaration raises KeyboardInterrupt: let it return")
        except Exception as caught:  # every error is sent to the parent
            error = _picklable(caught)
        finally:
            _busy[0] = False
        flush()
        tell(connection, number, (value, error))


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
    _settings[0] = Settings(**json.loads(settings))


def load(settings: str, root: str, module: str) -> None:
    """Load settings and project, in the child, before cases are sent to it."""
    use(settings)
    if _settings[0].gpu_seen:
        with contextlib.suppress(ImportError):  # ``open_device`` says what is missing
            source_module_class()
    load_project(Path(root), module)


def main() -> None:
    """Run the child: BOOT with the file descriptor of its connection. Does not return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGTERM, _end_on_sigterm)
    sys.setswitchinterval(SWITCH_SECONDS)
    status = 0
    try:
        connection = Connection(int(sys.argv[1]))
        send(connection, 0, (None, None))
        report_to(connection)
        serve(connection)
    except (EOFError, ConnectionError):  # the parent ended, or was killed
        pass
    except SystemExit as leaving:
        # At once, while the error still holds the loaded module: unloading it would wait for its kernels.
        end_now(leaving.code if isinstance(leaving.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        status = 1
    # Without the interpreter's own exit, where PyCUDA aborts if a context is left.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    end_now(status)


def _end_on_sigterm(number: int, frame: object) -> None:
    """End the child: at once where it waits, else by SystemExit, so that temporary folders are removed."""
    if _busy[0]:
        device = _machines.get(False)
        if isinstance(device, Device):
            device.abandon()  # freeing memory would wait for a kernel that never ends
        raise Ended(128 + number)
    end_now(128 + number)
