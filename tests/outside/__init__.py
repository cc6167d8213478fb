"""Declares calls that are honest, and calls that work outside their launch, all by ctypes on the CUDA driver.

Each copies x to y. What they do besides is in their names and docstrings.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import warpwatch as ww
from warpwatch.catalogue.calls import DeviceArray

LARGE = 2**22  # bytes whose filling takes 5 ms and more on the software device
ENDED = threading.Event()
NEWEST = [ENDED]  # of the threads that compute


def done(status: int) -> None:
    assert status == 0, status


@functools.cache
def driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def own_stream() -> ctypes.c_void_p:
    """Return a stream that is not the one that calls are given."""
    stream = ctypes.c_void_p()
    done(driver().cuStreamCreate(ctypes.byref(stream), 1))
    return stream


@functools.cache
def own_memory() -> int:
    memory = ctypes.c_uint64()
    done(driver().cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(LARGE)))
    return memory.value


def copy(to: int, source: int, size: int, stream: Any) -> None:
    """Queue a copy."""
    handle = stream if isinstance(stream, ctypes.c_void_p) else ctypes.c_void_p(stream)
    done(driver().cuMemcpyDtoDAsync_v2(ctypes.c_uint64(to), ctypes.c_uint64(source), ctypes.c_size_t(size), handle))


def fill() -> None:
    """Queue work on another stream: fill a large array."""
    to, count = ctypes.c_uint64(own_memory()), ctypes.c_size_t(LARGE // 4)
    done(driver().cuMemsetD32Async(to, 1, count, own_stream()))


def let_wait(waiting: Any, other: Any) -> None:
    """Let a stream wait for what another one was given."""
    event = ctypes.c_void_p()
    done(driver().cuEventCreate(ctypes.byref(event), 2))
    done(driver().cuEventRecord(event, other))
    done(driver().cuStreamWaitEvent(waiting, event, 0))
    done(driver().cuEventDestroy_v2(event))


def queue_of(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    return functools.partial(copy, y.address, x.address, x.nbytes, stream)


def plain(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Queue the copy."""
    return queue_of(x, y, stream)


def forked(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Queue the copy on another stream, which waits for the given one, which waits for it."""
    own, given = own_stream(), ctypes.c_void_p(stream)

    def queue() -> None:
        let_wait(own, given)
        fill()
        copy(y.address, x.address, x.nbytes, own)
        let_wait(given, own)

    return queue


def pooled(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Have a thread that is made once and waits."""
    threading.Thread(target=ENDED.wait, name="pool", daemon=True).start()
    return queue_of(x, y, stream)


def warmed(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Queue the copy once beforehand, so that whatever it makes is made."""
    queue_of(x, y, stream)()
    return queue_of(x, y, stream)


def growing(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Take memory in each launch, and keep it."""

    def queue() -> None:
        memory = ctypes.c_uint64()
        done(driver().cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(2**20)))
        copy(y.address, x.address, x.nbytes, stream)

    return queue


def changing(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Change what it can of its surroundings."""
    done(driver().cuCtxSetCacheConfig(1))
    done(driver().cuCtxSetLimit(6, ctypes.c_size_t(2**20)))
    window = (ctypes.c_uint64 * 8)(x.address, x.nbytes)
    done(driver().cuStreamSetAttribute(ctypes.c_void_p(stream), 1, ctypes.byref(window)))
    np.seterr(divide="ignore")
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":0:0"
    os.environ["PATH"] = os.environ["PATH"] + os.pathsep
    done(driver().cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0))
    return queue_of(x, y, stream)


@functools.cache
def pause(milliseconds: int) -> Any:
    """Return a function of the host that takes its time."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(milliseconds / 1e3))


def late(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Leave work on another stream that ends later."""

    def queue() -> None:
        copy(y.address, x.address, x.nbytes, stream)
        done(driver().cuLaunchHostFunc(own_stream(), pause(40), None))

    return queue


def early(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Work on another stream while the given one is held, and copy what came of it."""
    own, given = own_stream(), ctypes.c_void_p(stream)

    def queue() -> None:
        copy(own_memory(), x.address, x.nbytes, own)
        done(driver().cuLaunchHostFunc(own, pause(30), None))
        let_wait(given, own)
        time.sleep(0.04)
        copy(y.address, own_memory(), x.nbytes, stream)

    return queue


def hosted(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Read the values while the stream is held, work on the host, and copy what came of it."""
    values = np.empty(x.shape, np.float32)
    place, size = values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(x.nbytes)

    def queue() -> None:
        done(driver().cuMemcpyDtoH_v2(place, ctypes.c_uint64(x.address), size))
        done(driver().cuMemcpyHtoDAsync_v2(ctypes.c_uint64(y.address), place, size, ctypes.c_void_p(stream)))

    return queue


def threaded(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Start a thread in each launch."""

    def queue() -> None:
        copy(y.address, x.address, x.nbytes, stream)
        threading.Thread(target=time.sleep, args=(0.1,), name="helper", daemon=True).start()

    return queue


def computing(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Compute in a thread for some seconds, or until another call is prepared."""
    end, mine = time.monotonic() + 5, threading.Event()

    def compute() -> None:
        while time.monotonic() < end and NEWEST[-1] is mine:
            pass

    NEWEST.append(mine)
    threading.Thread(target=compute, name="eager", daemon=True).start()
    return queue_of(x, y, stream)


def precomputed(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Work in advance, and copy what came of it."""
    NEWEST.append(ENDED)
    copy(own_memory(), x.address, x.nbytes, stream)
    return functools.partial(copy, y.address, own_memory(), x.nbytes, stream)


def briefly_late(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Leave work of some microseconds on another stream, which begins when the copy has ended."""

    def queue() -> None:
        copy(y.address, x.address, x.nbytes, stream)
        let_wait(own_stream(), ctypes.c_void_p(stream))
        fill()

    return queue


def briefly_early(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Work for some microseconds on another stream while the given one is held."""

    def queue() -> None:
        fill()
        let_wait(ctypes.c_void_p(stream), own_stream())
        copy(y.address, x.address, x.nbytes, stream)

    return queue


HONEST = (plain, forked, pooled, warmed)
REMARKED = (growing, changing)
WRONG = (late, early, hosted, threaded, computing, precomputed)
BRIEF = (briefly_late, briefly_early)  # which CUPTI alone shows

COPY = ww.Family(
    "duplicate",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "float32"), "y": ww.Out(n, "float32")},
    reference=lambda x: x,
    tests=((1000,),),
    benchmarks=((100_000,),),
    variants=tuple(
        ww.call(function.__name__, needs=ww.Driver(), prepare=function, needs_gpu=False)
        for function in (*HONEST, *REMARKED, *WRONG, *BRIEF)
    ),
)


def advanced(x: DeviceArray, y: DeviceArray, stream: int) -> Callable[[], None]:
    """Look at the order of the values beforehand, as far as it may, and copy."""
    for array in (x, y):
        values = np.empty(array.shape, np.int32)
        source, size = ctypes.c_uint64(array.address), ctypes.c_size_t(array.nbytes)
        done(driver().cuMemcpyDtoH_v2(values.ctypes.data_as(ctypes.c_void_p), source, size))
        assert (np.diff(values) > 0).all()
    return queue_of(x, y, stream)


ADVANCE = ww.Family(
    "ascending",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "int32"), "y": ww.InOut(n, "int32")},
    draw=lambda rng, n: {name: np.cumsum(rng.integers(1, 9, n)) for name in ("x", "y")},
    reference=lambda x, y: x,
    tests=((1000,),),
    benchmarks=((1000,),),
    variants=tuple(
        ww.call(function.__name__, needs=ww.Driver(), prepare=function, needs_gpu=False)
        for function in (advanced, precomputed)
    ),
)

FAMILIES = (COPY, ADVANCE)
