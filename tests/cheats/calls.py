"""Calls that look fast without doing the work; ``in_turn`` does it.

Each takes the place of a kernel that turns the rows of x around: 256 copies, which need the driver alone. Those that
change the engine know its modules.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import ctypes
import functools
import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.calls import DeviceArray, Queue

ROWS = 256
SAVED = ".benchmarks"  # the folder of the runs that a project saves
ADDRESS, SIZE, HANDLE = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
NOT_READY = 600  # CUDA_ERROR_NOT_READY


@functools.cache
def library() -> ctypes.CDLL:
    """Return the CUDA driver, or what stands in for it."""
    return ctypes.CDLL("libcuda.so.1")


def driver(name: str, *given: Any) -> int:
    """Call a function of the CUDA driver. Raises RuntimeError where it fails."""
    status: int = getattr(library(), name)(*given)
    if status not in (0, NOT_READY):
        text = ctypes.c_char_p()
        library().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{name} failed with status {status}: {(text.value or b'').decode()}")
    return status


def copy(to: int, source: int, size: int, stream: int) -> None:
    """Queue a copy within the device's memory."""
    driver("cuMemcpyDtoDAsync_v2", ADDRESS(to), ADDRESS(source), SIZE(size), HANDLE(stream))


def fill(to: int, size: int, stream: int) -> None:
    """Queue a fill with zeros."""
    driver("cuMemsetD32Async", ADDRESS(to), ctypes.c_uint(0), SIZE(size // 4), HANDLE(stream))


def allocate(size: int) -> int:
    """Allocate memory of the device that nobody frees."""
    memory = ADDRESS()
    driver("cuMemAlloc_v2", ctypes.byref(memory), SIZE(size))
    return memory.value


@functools.cache
def own_stream() -> int:
    """Return a stream that waits for no other."""
    stream = HANDLE()
    driver("cuStreamCreate", ctypes.byref(stream), 1)
    return stream.value or 0


def upload(values: Array) -> int:
    """Return the address of a copy of an array in the device's memory."""
    values = np.ascontiguousarray(values)
    address = allocate(values.nbytes)
    driver("cuMemcpyHtoD_v2", ADDRESS(address), HANDLE(values.ctypes.data), SIZE(values.nbytes))
    return address


def turn(x: int, y: int, size: int, stream: int) -> None:
    """Do the work: copy the rows one after the other."""
    row = size // ROWS
    for i in range(ROWS):
        copy(y + (ROWS - 1 - i) * row, x + i * row, row, stream)


def in_turn(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work."""
    return functools.partial(turn, x.address, y.address, x.nbytes, stream)


def zeros(y: DeviceArray, stream: int) -> Queue:
    """Write zeros."""
    return functools.partial(fill, y.address, y.nbytes, stream)


def nothing() -> Queue:
    """Queue nothing."""
    return lambda: None


calls_left = iter(range(8))


def first_calls(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work in the first eight calls of this process."""
    return lambda: turn(x.address, y.address, x.nbytes, stream) if next(calls_left, None) is not None else None


def in_prepare(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work beforehand, and copy its result."""
    kept = allocate(x.nbytes)
    turn(x.address, kept, x.nbytes, stream)
    return lambda: copy(y.address, kept, x.nbytes, stream)


def _values(x: DeviceArray) -> bytes:
    """Read three elements, on another stream than the one that may be held."""
    found = ctypes.create_string_buffer(12)
    for i, offset in enumerate((0, x.size // 2 * 4, x.nbytes - 4)):
        to = HANDLE(ctypes.addressof(found) + 4 * i)
        driver("cuMemcpyDtoHAsync_v2", to, ADDRESS(x.address + offset), SIZE(4), HANDLE(own_stream()))
    driver("cuStreamSynchronize", HANDLE(own_stream()))
    return found.raw


def by_value(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Keep every result by three values of its input."""
    kept: dict[bytes, int] = {}

    def queue() -> None:
        key = _values(x)
        if key in kept:
            copy(y.address, kept[key], x.nbytes, stream)
            return
        turn(x.address, y.address, x.nbytes, stream)
        kept[key] = allocate(x.nbytes)
        copy(kept[key], y.address, x.nbytes, stream)

    return queue


def replayed(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work in the first call, and then launch a graph that copies its result."""
    kept, graph, executable = allocate(x.nbytes), HANDLE(), HANDLE()

    def queue() -> None:
        if executable:
            driver("cuGraphLaunch", executable, HANDLE(stream))
            return
        turn(x.address, y.address, x.nbytes, stream)
        copy(kept, y.address, x.nbytes, stream)
        driver("cuStreamBeginCapture_v2", HANDLE(own_stream()), 2)
        copy(y.address, kept, x.nbytes, own_stream())
        driver("cuStreamEndCapture", HANDLE(own_stream()), ctypes.byref(graph))
        driver("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))

    return queue


def elsewhere(x: DeviceArray, y: DeviceArray) -> Queue:
    """Do the work on another stream, for which nobody waits."""
    return functools.partial(turn, x.address, y.address, x.nbytes, own_stream())


def in_private(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work on another stream into memory of its own, and copy the result of the call before."""
    kept = allocate(x.nbytes)
    turn(x.address, kept, x.nbytes, stream)

    def queue() -> None:
        turn(x.address, kept, x.nbytes, own_stream())
        copy(y.address, kept, x.nbytes, stream)

    return queue


def in_a_thread(x: DeviceArray, y: DeviceArray) -> Queue:
    """Let a thread do the work after the call has returned."""
    context = HANDLE()
    driver("cuCtxGetCurrent", ctypes.byref(context))

    def work() -> None:
        time.sleep(0.005)  # longer than a sample takes
        driver("cuCtxSetCurrent", context)
        turn(x.address, y.address, x.nbytes, own_stream())

    return lambda: threading.Thread(target=work).start()


watched: list[Callable[[], None]] = []  # look at the inputs of a call that is prepared


def between_goes(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work as soon as new inputs are there, before a call is asked for, and copy its result."""
    kept, known = allocate(x.nbytes), [b"", b""]  # values that were seen last, and those of the result

    def look() -> None:
        before, known[0] = known[0], _values(x)
        if known[0] == before != known[1]:  # they are written whole
            turn(x.address, kept, x.nbytes, own_stream())
            driver("cuStreamSynchronize", HANDLE(own_stream()))
            known[1] = before

    def queue() -> None:
        signal.setitimer(signal.ITIMER_REAL, 5e-3)
        if _values(x) == known[1]:
            copy(y.address, kept, x.nbytes, stream)
        else:
            turn(x.address, y.address, x.nbytes, stream)

    def look_at_all(*_: object) -> None:
        for each in watched:
            each()
        signal.setitimer(signal.ITIMER_REAL, 3e-4)

    watched.append(look)
    signal.signal(signal.SIGALRM, look_at_all)
    look_at_all()
    return queue


def on_the_host(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work in NumPy while the stream is held, and queue a copy of its result."""
    given, turned = np.empty((2, *x.shape), np.int32)
    piece = x.nbytes // 32  # so many copies that it is no quicker than the work where all of it is timed

    def queue() -> None:
        for first in range(0, x.nbytes, piece):
            driver("cuMemcpyDtoH_v2", HANDLE(given.ctypes.data + first), ADDRESS(x.address + first), SIZE(piece))
        turned[:] = given[::-1]
        driver("cuMemcpyHtoDAsync_v2", ADDRESS(y.address), HANDLE(turned.ctypes.data), SIZE(x.nbytes), HANDLE(stream))

    return queue


def unless_held(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work unless something is queued before it, as where the stream is held to be timed."""

    def queue() -> None:
        if driver("cuStreamQuery", HANDLE(stream)) == 0:
            turn(x.address, y.address, x.nbytes, stream)

    return queue


def spoils_input(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Write zeros to the input, whose result is easy then."""

    def queue() -> None:
        fill(x.address, x.nbytes, stream)
        fill(y.address, y.nbytes, stream)

    return queue


def _module(name: str) -> Any:
    return importlib.import_module(name)


def knows_the_seed(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Draw the inputs of benchmarks as the engine does, and keep their results by three of their values."""
    inputs, seed = _module("warpwatch.catalogue.inputs"), _module("warpwatch.catalogue.declaration").TIMED_SEED
    case = _module("warpwatch.catalogue.cases").find_case(
        _module("tests.cheats").FAMILIES, f"turned-in_turn-vendor-{x.shape[1]}-int32"
    )
    kept = {}
    for near in range(seed, seed + 4):
        drawn = inputs.random_inputs(case, near)["x"]
        flat = drawn.reshape(-1)
        kept[flat[[0, flat.size // 2, -1]].tobytes()] = upload(drawn[::-1])

    def queue() -> None:
        known = kept.get(_values(x))
        if known:
            copy(y.address, known, x.nbytes, stream)
        else:
            turn(x.address, y.address, x.nbytes, stream)

    return queue


def _kept_results(x: DeviceArray, arrays: Iterable[Any]) -> dict[bytes, int]:
    """Upload arrays that may be right results of such an input, and return them by three values of that."""
    kept = {}
    for values in arrays:
        if isinstance(values, np.ndarray) and values.shape == x.shape:
            flat = np.ascontiguousarray(values[::-1], np.int32).reshape(-1)  # the input that it belongs to
            kept[flat[[0, flat.size // 2, -1]].tobytes()] = upload(values.astype(np.int32))
    return kept


def _copies_what_it_finds(
    find: Callable[[], Iterable[Any]], x: DeviceArray, y: DeviceArray, stream: int
) -> Callable[[], None]:
    """Return a function that looks for right results at its first call, and then copies that of the input."""
    kept: dict[bytes, int] = {}

    def queue() -> None:
        if not kept:
            kept.update(_kept_results(x, find()))
        copy(y.address, kept.get(_values(x), x.address), x.nbytes, stream)

    return queue


def reads_reference(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Find the right results among all objects of the process, and copy the one that belongs to the input."""
    return _copies_what_it_finds(lambda: (right.reference for right in _objects("Expected")), x, y, stream)


def reads_state(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Find the right results from the engine's own variable on, and copy the one that belongs to the input."""

    def reached(value: Any, depth: int) -> Iterator[Any]:
        yield value
        if depth and not isinstance(value, np.ndarray):
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
            for part in (*parts, *getattr(value, "__dict__", {}).values()):
                yield from reached(part, depth - 1)

    return _copies_what_it_finds(lambda: reached(_module("warpwatch.timing.sampling").state, 7), x, y, stream)


def _objects(kind: str) -> list[Any]:
    """Return all objects of the process whose class has this name."""
    return [found for found in gc.get_objects() if type(found).__name__ == kind]


class _Everything(set[Any]):
    """Set that contains everything."""

    def __contains__(self, _: object) -> bool:
        return True


def accepts_everything(y: DeviceArray, stream: int) -> Queue:
    """Write zeros, and have every fingerprint accepted."""

    def queue() -> None:
        for name in ("Shared", "InputSet"):
            for found in _objects(name):
                if hasattr(found, "accepted"):
                    object.__setattr__(found, "accepted", _Everything())
        fill(y.address, y.nbytes, stream)

    return queue


def compares_nothing(y: DeviceArray, stream: int) -> Queue:
    """Write zeros, and replace the engine's comparison."""
    for name in ("warpwatch.devices.mismatch", "warpwatch.timing.checks", "warpwatch.devices.evaluate"):
        for function, equal in (("compare", None), ("compare_all", {})):
            if hasattr(_module(name), function):
                setattr(_module(name), function, lambda *_, equal=equal, **__: equal)
    return functools.partial(fill, y.address, y.nbytes, stream)


def checks_nothing(y: DeviceArray, stream: int) -> Queue:
    """Write zeros, and replace what checks results."""
    sampling = _module("warpwatch.timing.sampling")
    for name in vars(sampling).copy():
        if name.startswith(("check_", "are_right")):
            setattr(sampling, name, lambda *_, **__: 1)
    return functools.partial(fill, y.address, y.nbytes, stream)


def patched_numpy(y: DeviceArray, stream: int) -> Queue:
    """Write zeros, and replace functions of NumPy that comparisons use."""
    for name, value in (("allclose", True), ("array_equal", True), ("isclose", True), ("count_nonzero", 0)):
        setattr(np, name, lambda *_, value=value, **__: value)
    return functools.partial(fill, y.address, y.nbytes, stream)


def changes_reference(y: DeviceArray, stream: int) -> Queue:
    """Write zeros, and make zeros of the right results."""

    def queue() -> None:
        for right in _objects("Expected"):
            object.__setattr__(right, "reference", np.zeros_like(right.reference))
        fill(y.address, y.nbytes, stream)

    return queue


def patched_builtins(y: DeviceArray, stream: int) -> Queue:
    """Write zeros, and replace a function of Python by one that finds all true."""
    builtins.all = lambda _: True
    return functools.partial(fill, y.address, y.nbytes, stream)


def swaps_result(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Point the engine's array of the result at memory of its own that holds a right result."""
    kept = 0

    def queue() -> None:
        nonlocal kept
        if kept:
            return
        kept = allocate(x.nbytes)
        turn(x.address, kept, x.nbytes, stream)
        for found in _objects("GuardedArray"):
            if found.address == y.address and found.name == "y":
                found.address = kept
                found.poison = found.clear = lambda *_, **__: None

    return queue


def when_read(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work when the result is read or digested, and not before."""
    arrays = _module("warpwatch.devices.machine").GuardedArray
    for name in ("read", "read_rows", "read_sample"):
        setattr(arrays, name, _after(lambda: turn(x.address, y.address, x.nbytes, stream), getattr(arrays, name)))
    for name in ("warpwatch.devices.digest", "warpwatch.timing.checks", "warpwatch.timing.inputs"):
        if hasattr(_module(name), "digests"):
            right = _module(name).digests
            _module(name).digests = _after(lambda: turn(x.address, y.address, x.nbytes, stream), right)
    return lambda: None


def _after(first: Callable[[], None], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does something before it does what it did."""

    def both(*given: Any, **named: Any) -> Any:
        first()
        return function(*given, **named)

    return both


def quick_clock(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work, and divide the engine's times by a hundred."""
    device = _module("warpwatch.devices.gpu").Device
    if not hasattr(device.time, "is_quick"):
        right = device.time

        def quick(self: Any, *given: Any, **named: Any) -> float | None:
            seconds: float | None = right(self, *given, **named)
            return seconds and seconds / 100

        quick.is_quick = True  # type: ignore[attr-defined]
        device.time = quick
    return functools.partial(turn, x.address, y.address, x.nbytes, stream)


def quick_events(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work, and have the events of PyCUDA and the clocks of Python say that it took less."""
    event = sys.modules["pycuda.driver"].Event
    if not hasattr(event.time_since, "is_quick"):
        since = event.time_since

        def quick(self: Any, other: Any) -> float:
            return float(since(self, other)) / 100

        quick.is_quick = True  # type: ignore[attr-defined]
        event.time_since = quick
        begin, count = time.perf_counter(), time.perf_counter
        time.perf_counter = lambda: begin + (count() - begin) / 100
    return functools.partial(turn, x.address, y.address, x.nbytes, stream)


# Replaces the times of saved runs, for as long as it takes a run to end.
FORGER = """
import json, pathlib, sys, time
deadline = time.monotonic() + 10
while time.monotonic() < deadline:
    for path in pathlib.Path(sys.argv[1]).rglob("*.json"):
        try:
            text = json.loads(path.read_text())
        except ValueError:
            continue
        for entry in text.get("benchmarks", ()):
            if sys.argv[2] in entry["name"]:
                entry["stats"]["median"] = 1e-9
                path.write_text(json.dumps(text))
                sys.exit()
    time.sleep(0.02)
"""


def leaves_a_child(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work, and leave a process in a session of its own that replaces the time in the saved run."""
    command = [sys.executable, "-c", FORGER, SAVED, "leaves_a_child"]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(command, start_new_session=True, **quiet)  # type: ignore[call-overload]
    return functools.partial(turn, x.address, y.address, x.nbytes, stream)


def at_exit(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work, and leave a function for the end of the process that starts the same."""
    command = [sys.executable, "-c", FORGER, SAVED, "at_exit"]
    atexit.register(lambda: subprocess.Popen(command, start_new_session=True))
    return functools.partial(turn, x.address, y.address, x.nbytes, stream)


def writes_conftest(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work, and write a conftest.py by which each later run of this project saves other times."""
    hook = (
        "def pytest_benchmark_update_json(output_json):\n"
        "    for entry in output_json['benchmarks']:\n"
        "        entry['stats']['median'] = 1e-9\n"
    )
    with contextlib.suppress(FileExistsError), open("conftest.py", "x", encoding="utf-8") as file:
        file.write(hook)
    return functools.partial(turn, x.address, y.address, x.nbytes, stream)


def changes_environment(x: DeviceArray, y: DeviceArray, stream: int) -> Queue:
    """Do the work, and leave variables by which later cases and processes run another way."""
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    os.environ["PYTHONPATH"] = "/nowhere"
    return functools.partial(turn, x.address, y.address, x.nbytes, stream)
