"""Runs kernels in a child process, the worker process: starts and ends it, and both ends of its calls.

When a kernel breaks that process, its case fails, and the next case gets a new process (docs/design.md says why).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
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
from warpwatch.devices.child import RUN_SEED, Child, ending, launch
from warpwatch.devices.compile.compiler import CompileError
from warpwatch.devices.foreign.candidate import Candidates
from warpwatch.devices.gpu import Device, source_module_class
from warpwatch.devices.host import Host
from warpwatch.devices.info import DeviceInfo, call_problem
from warpwatch.devices.machine import DeviceError, Machine
from warpwatch.devices.mismatch import WrongResult
from warpwatch.devices.opening import NoDevice, Settings, open_device, ready_to_import
from warpwatch.devices.runner import flush
from warpwatch.devices.transfer import Stage, serve, stage

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Seconds after which Python lets another thread run. With its own 5 ms, a reference that computes in Python beside a
# kernel (timing/inputs.py) leaves a twelfth of the samples; with this, half of them (of 2,240 a second, no GPU).
SWITCH_SECONDS = 2e-4
AT_COLLECTION = 0.1  # of the time that a reference may take: the smallest shape has that much
CALL_SECONDS = 120.0  # seconds that a call may take beyond the launch limit: inputs, references, copies


class Worker:
    """Calls functions in a child process, which it starts when needed and replaces when it is lost.

    ``launch``: starts a child.
    """

    def __init__(
        self,
        project: Project | Setting,
        settings: Settings = Settings(),  # noqa: B008  # frozen
        launch: Callable[[Project | Setting, Settings], Child] = launch,
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


def accepted_findings() -> list[str] | None:
    """Return, in the child, which of the accepted findings there were; None where the device looks for none."""
    return gpu().accepted()


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
        with ready_to_import(_settings[0]):
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
