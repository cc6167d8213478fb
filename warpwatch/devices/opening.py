"""Opens the GPU, or starts the software device in its place.

PyCUDA and softcuda are imported when a device is opened, because PyCUDA binds to the libcuda.so.1 that it finds at that
moment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from warpwatch.devices.compile.compiler import NoCompiler
from warpwatch.devices.gpu import Device, source_module_class
from warpwatch.devices.gpus import asked
from warpwatch.devices.machine import DeviceError, poison_of
from warpwatch.devices.transfer import BUILD, stage

CLIENTS = ("pycuda", "cuda")  # packages whose import loads the driver, or may
BUILDING = 4.0  # of the time that a reference may take: a busy machine builds the software device for minutes


class NoDevice(Exception):
    """A missing driver, GPU or compiler; the message says which one is missing, and how to get it.

    Any other reason why a device cannot be opened is a broken set-up, and raises another error.
    """


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The device to open, and the options of a run that change it.

    ``kind``: gpu, software, or auto, which takes a GPU where there is one. ``ordinal``: number of the GPU, modulo those
    that CUDA_VISIBLE_DEVICES leaves. ``launch_timeout``: in seconds. ``schedule_seed``: draws the software device's
    order of threads and blocks. ``gpu_seen``: a GPU was seen, so the driver is not asked for one.
    ``reference_timeout``: seconds that a reference may take. ``untrusted``: declarations are read as data, and results
    are compared in another process than the one that launches (devices/foreign/). ``run_seed``: of the inputs then.
    """

    kind: str = "auto"
    ordinal: int = 0
    launch_timeout: float = 10.0
    schedule_seed: int | None = None
    gpu_seen: bool = False
    reference_timeout: float = 300.0
    untrusted: bool = False
    run_seed: int | None = None


def open_device(settings: Settings) -> Device:
    """Open a device. Raises NoDevice where there is none, DeviceError or CompileError where its set-up is broken."""
    # A module that is loaded lazily while the stream is held would wait for ever.
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    try:
        if settings.kind == "software" or settings.gpu_seen:
            return _open(settings, "")
        with asked() as (missing, _):
            return _open(settings, missing)
    except NoCompiler as lacking:
        raise NoDevice(str(lacking)) from None


@contextmanager
def ready_to_import(settings: Settings) -> Iterator[None]:
    """Have a driver ready for declarations that are imported inside and import PyCUDA or cuda-bindings.

    Where there is no GPU, or the software device is wanted, that takes the driver's place when the first of them is
    imported. What it changes in the environment is undone at the end.
    """
    finder = _Provider(settings)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.leave()
        for name, value in finder.before.items():
            os.environ.pop(name, None)
            os.environ.update({} if value is None else {name: value})


class _Provider:
    """Finder of modules that finds none, and is asked for PyCUDA before any other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.before: dict[str, str | None] = {}  # variables of the environment that the software device has changed

    def leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Put the software device in the driver's place if PyCUDA is imported and needs it.

        Raises as ``_activate``, and NoDevice where a GPU is asked for that is missing.
        """
        if name not in CLIENTS:
            return
        self.leave()
        settings, missing = self._settings, ""
        if settings.kind != "software" and not settings.gpu_seen:
            with asked() as (missing, _):
                pass
        if missing and settings.kind == "gpu":
            raise NoDevice(missing)
        if missing or settings.kind == "software":
            before = {**os.environ}
            _activate(settings.launch_timeout, settings.schedule_seed, missing)
            self.before = {name: before.get(name) for name, value in os.environ.items() if value != before.get(name)}


def _open(settings: Settings, missing: str) -> Device:
    """Open the GPU, or the software device where a GPU is ``missing`` or not wanted.

    Raises NoCompiler where the software device has no compiler, otherwise as ``open_device``.
    """
    if missing and settings.kind == "gpu":
        raise NoDevice(missing)
    in_software = missing or settings.kind == "software"
    if not in_software and getattr(sys.modules.get("softcuda"), "is_active", bool)():
        raise DeviceError(
            "the declarations call softcuda.activate(), which hides the GPU: leave it out, and choose the "
            "device by --device"
        )
    compiler = _activate(settings.launch_timeout, settings.schedule_seed, missing) if in_software else None
    try:
        source_module_class()
        from pycuda import driver  # noqa: PLC0415
    except ImportError as error:
        raise DeviceError(f"PyCUDA cannot be imported ({error}): {_cure_of_import()}") from None
    try:
        driver.init()
        ordinal = settings.ordinal % driver.Device.count()
        return Device(driver, ordinal, settings.launch_timeout, compiler)
    except (driver.Error, OSError, subprocess.SubprocessError) as error:
        raise DeviceError(f"the device cannot be opened: {error}") from None


def _cure_of_import() -> str:
    """Say what helps where PyCUDA cannot be imported: a folder of that name may hide the one that is installed."""
    found = PathFinder.find_spec("pycuda")
    if found and found.origin:
        here = Path(found.origin).parent
        other = PathFinder.find_spec(
            "pycuda", [path for path in sys.path if Path(path).resolve() != here.parent.resolve()]
        )
        if other and other.origin:
            return f"{here} hides the installed one: `python -m warpwatch init {here.parent}/FOLDER`, and work there"
    return "`python -m warpwatch setup` installs it"


def _activate(launch_timeout: float, schedule_seed: int | None, missing: str) -> Path:
    """Put the software device in the place of the CUDA driver, before PyCUDA is imported; return its compiler.

    ``missing``: what a GPU lacks. Raises NoCompiler, which says that too, or DeviceError.
    """
    import softcuda  # noqa: PLC0415  # where it is needed

    if not shutil.which("g++"):
        reasons = filter(None, [missing, "no g++ to build the software device with: install it (apt install g++)"])
        raise NoCompiler("; ".join(reasons))
    # The software device's own limit is shorter, so that it ends first even on a busy machine: its message names the
    # line where the kernel hangs. Its fresh memory is poison.
    limit = max(launch_timeout / 2, launch_timeout - 1)
    try:
        with stage(BUILD, BUILDING):
            return softcuda.activate(launch_seconds=limit, seed=schedule_seed, fill=poison_of(4))
    except (softcuda.BuildError, OSError, ImportError) as error:
        raise DeviceError(f"the software device cannot be built: {error}") from None
