"""Declares calls that copy an array, and calls that pretend to: what each does is said by its variant and its size.

Each size of a variant has a way of its own, so that many ways share a process. ``NOTES``: the folder where they leave
what they saw.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import inspect
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import warpwatch as ww

NOTES = Path("/dev/shm", f"notes-{hashlib.sha256(__file__.encode()).hexdigest()[:16]}")  # may be written anywhere
kept: dict[Any, Any] = {}
SLEEP = 0.004  # seconds


def cuda() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def afterwards(seconds: float, function: Callable[..., None], *given: int) -> None:
    """Call a function in a thread, in the context of this one."""
    context = ctypes.c_void_p()
    cuda().cuCtxGetCurrent(ctypes.byref(context))

    def run() -> None:
        cuda().cuCtxSetCurrent(context)
        function(*given)

    threading.Timer(seconds, run).start()


def copy(to: int, source: int, size: int, stream: int) -> None:
    arguments = (ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), ctypes.c_void_p(stream))
    ww.check_status("cuMemcpyDtoDAsync", cuda().cuMemcpyDtoDAsync_v2(*arguments))


def fill(to: int, size: int, stream: int, word: int = 0) -> None:
    arguments = (ctypes.c_uint64(to), ctypes.c_uint(word), ctypes.c_size_t(size // 4), ctypes.c_void_p(stream))
    ww.check_status("cuMemsetD32Async", cuda().cuMemsetD32Async(*arguments))


def note(name: str, value: object) -> None:
    NOTES.mkdir(exist_ok=True)
    with (NOTES / name).open("a") as file:
        file.write(json.dumps(value) + "\n")


def values(A: ww.DeviceArray) -> np.ndarray[Any, Any]:
    host = np.empty(A.size, np.float32)
    cuda().cuMemcpyDtoH_v2(ctypes.c_void_p(host.ctypes.data), ctypes.c_uint64(A.address), ctypes.c_size_t(host.nbytes))
    return host


def write(B: ww.DeviceArray, host: np.ndarray[Any, Any]) -> None:
    cuda().cuMemcpyHtoD_v2(ctypes.c_uint64(B.address), ctypes.c_void_p(host.ctypes.data), ctypes.c_size_t(host.nbytes))


WAYS: dict[int, Callable[..., ww.Queue]] = {}


def way(size: int) -> Callable[[Callable[..., ww.Queue]], Callable[..., ww.Queue]]:
    def add(function: Callable[..., ww.Queue]) -> Callable[..., ww.Queue]:
        WAYS[size] = function
        return function

    return add


@way(1024)
def honest(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    return lambda: copy(B.address, A.address, A.nbytes, stream)


@way(1025)
def overlaps(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Takes long once in a go and little for each launch that follows, as where launches overlap on several streams."""

    def queue() -> None:
        go = sys._getframe()
        while go.f_code.co_name != "go":
            assert go.f_back
            go = go.f_back
        time.sleep(SLEEP / 4 if kept.get("go") is go else 10 * SLEEP)  # clearly, on a busy host too
        kept["go"] = go
        copy(B.address, A.address, A.nbytes, stream)

    return queue


@way(1100)
def evens_out(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Waits before a go of few launches, and before one of none, so that each more seems to take a quarter as long."""

    def wait(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "go":
            time.sleep(0.75 * SLEEP * (8 - frame.f_locals["count"]))

    def queue() -> None:
        sys.setprofile(wait)
        time.sleep(SLEEP)
        copy(B.address, A.address, A.nbytes, stream)

    return queue


@way(1090)
def peeks(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Looks between goes, by a signal, at inputs that no go has had yet, and notes them each time."""
    had = [b""]

    def look(*_: object) -> None:
        now = values(A).tobytes()
        if now != had[0]:
            note("peeks", hashlib.sha256(now).hexdigest())

    def queue() -> None:
        had[0] = values(A).tobytes()
        copy(B.address, A.address, A.nbytes, stream)

    if kept.setdefault("look", look) is look:  # the first set, which each go has
        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    return queue


@way(1026)
def zeros(B: ww.DeviceArray, stream: int) -> ww.Queue:
    return lambda: fill(B.address, B.nbytes, stream)


@way(1027)
def nothing() -> ww.Queue:
    return lambda: None


@way(1028)
def searches(B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Looks for an array of the result's size everywhere in the process, and for the engine's own state."""

    def queue() -> None:
        arrays = [each for each in gc.get_objects() if isinstance(each, np.ndarray) and each.size == B.size]
        frames = [each.frame.f_locals for each in inspect.stack()]
        states = [name for name in sys.modules if name.startswith("warpwatch.timing") or name.endswith(".worker")]
        seeds = [name for name, value in os.environ.items() if "SEED" in name and name != "SOFTCUDA_SEED"]
        found = [each for local in frames for each in local.values() if isinstance(each, np.ndarray)]
        note("searches", [len(arrays), len(found), states, seeds])
        fill(B.address, B.nbytes, stream)

    return queue


@way(1029)
def prepared(A: ww.DeviceArray, B: ww.DeviceArray) -> ww.Queue:
    """Computes while it is prepared."""
    early = values(A)
    return lambda: write(B, early)


@way(1030)
def late(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Computes in a thread, after it has returned."""
    return lambda: afterwards(0.02, copy, B.address, A.address, A.nbytes, stream)


@way(1031)
def stale(A: ww.DeviceArray, B: ww.DeviceArray) -> ww.Queue:
    """Computes in the first launches alone, which are those that a check would see."""

    def queue() -> None:
        kept["launches"] = kept.get("launches", 0) + 1
        if kept["launches"] <= 6:
            kept["result"] = values(A)
        write(B, kept["result"])

    return queue


@way(1032)
def by_value(A: ww.DeviceArray, B: ww.DeviceArray) -> ww.Queue:
    """Keeps results by the value of their inputs."""

    def queue() -> None:
        key = hash(values(A).tobytes())
        note("by_value", key in kept)
        if key not in kept:
            time.sleep(SLEEP)
            kept[key] = values(A)
        write(B, kept[key])

    return queue


@way(1033)
def spoils(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    def queue() -> None:
        copy(B.address, A.address, A.nbytes, stream)
        fill(A.address + 64, 4, stream)

    return queue


@way(1034)
def overruns(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    def queue() -> None:
        copy(B.address, A.address, A.nbytes, stream)
        fill(B.address, B.nbytes + 64, stream)

    return queue


@way(1035)
def patched(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Stops every clock of the process, and is slow."""

    def queue() -> None:
        time.sleep(SLEEP)
        copy(B.address, A.address, A.nbytes, stream)

    import warpwatch.devices.gpu as engine  # noqa: PLC0415

    time.perf_counter = time.monotonic = lambda: 0.0
    time.perf_counter_ns = lambda: 0
    engine.Device.time = lambda *given: 1e-9  # type: ignore[method-assign]
    return queue


@way(1036)
def forks(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Has a child that goes on."""
    if not kept.get("child"):
        kept["child"] = os.fork()
        while not kept["child"]:
            note("forks", os.getpid())
            time.sleep(0.02)
    return lambda: copy(B.address, A.address, A.nbytes, stream)


@way(1037)
def early(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Reports the end of its work before the work begins."""

    def queue() -> None:
        for number in range(40):
            os.write(int(sys.argv[1]), json.dumps({"number": number, "error": ""}).encode() + b"\n")
        time.sleep(0.05)
        copy(B.address, A.address, A.nbytes, stream)

    return queue


@way(1038)
def answers_next(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Reports the end of its work, with the number of the question, before the work begins."""

    def queue() -> None:
        frame = next(f.frame for f in inspect.stack() if f.function == "serve")
        number = frame.f_locals["number"]
        os.write(int(sys.argv[1]), json.dumps({"number": number, "error": ""}).encode() + b"\n")
        time.sleep(0.05)
        copy(B.address, A.address, A.nbytes, stream)

    return queue


@way(1039)
def hangs() -> ww.Queue:
    return lambda: time.sleep(100)


@way(1040)
def dies() -> ww.Queue:
    def queue() -> None:
        print("the last words", flush=True)
        os._exit(3)

    return queue


@way(1041)
def prints() -> ww.Queue:
    def queue() -> None:
        while True:
            print("x" * 1000)

    return queue


@way(1042)
def raises() -> ww.Queue:
    raise RuntimeError("no such library")


@way(1043)
def later(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    """Goes on writing when it has said that it is done, for a second or until it is called again."""

    def go_on(call: int) -> None:
        end, word = time.monotonic() + 1, 0
        while time.monotonic() < end and kept["calls"] == call:
            word += 1
            fill(B.address, 64, stream, word)

    def queue() -> None:
        kept["calls"] = kept.get("calls", 0) + 1
        copy(B.address, A.address, A.nbytes, stream)
        afterwards(0, go_on, kept["calls"])

    return queue


def launches(A: ww.DeviceArray, B: ww.DeviceArray, stream: int, count: int) -> ww.Queue:
    """Launches a kernel that copies so many elements, of a compiled file beside this one."""
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    image = (Path(__file__).parent / "image").read_bytes()
    ww.check_status("cuModuleLoadData", cuda().cuModuleLoadData(ctypes.byref(module), image))
    ww.check_status("cuModuleGetFunction", cuda().cuModuleGetFunction(ctypes.byref(kernel), module, b"copied"))
    given = (ctypes.c_uint64(B.address), ctypes.c_uint64(A.address), ctypes.c_uint64(count))
    pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(each) for each in given))
    sizes = (-(-count // 128), 1, 1, 128, 1, 1, 0)

    def queue() -> None:
        assert given
        launch = cuda().cuLaunchKernel
        ww.check_status("cuLaunchKernel", launch(kernel, *sizes, ctypes.c_void_p(stream), pointers, None))

    return queue


@way(1044)
def launches_a_kernel(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    return launches(A, B, stream, A.size)


@way(1045)
def launches_too_much(A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    return launches(A, B, stream, A.size + 1)


def prepare(n: int, A: ww.DeviceArray, B: ww.DeviceArray, stream: int) -> ww.Queue:
    function = WAYS[n]
    given = {"A": A, "B": B, "stream": stream}
    return function(**{name: given[name] for name in inspect.signature(function).parameters})


def family(name: str, sizes: tuple[int, ...]) -> ww.Family:
    return ww.Family(
        name,
        sizes=("n",),
        dtypes=("float32",),
        arrays=lambda n: {"A": ww.In(n), "B": ww.Out(n)},
        reference=lambda A: A,
        exact=True,
        tests=tuple((size,) for size in sizes),
        variants=(ww.call("own", prepare=prepare, needs=ww.Driver(), needs_gpu=False),),
    )


FAMILIES = (family("calls", tuple(WAYS)), family("clocks", (1035,)), family("waits", (1100,)))
