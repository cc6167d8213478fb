"""Declares what a GPU alone can run, for tests there: thread block clusters, and calls that do what calls must not.

The calls use the CUDA driver by ctypes, so that no package is needed.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import warpwatch as ww
from warpwatch.catalogue.arrays import Array
from warpwatch.catalogue.calls import DeviceArray

BLOCK = 128


def reverse(x: Array, shift: Array) -> Array:
    """Return each pair of blocks' elements in reverse order, plus ``shift``."""
    reversed_pairs: Array = x.reshape(-1, 2 * BLOCK)[:, ::-1].reshape(-1) + shift[0]
    return reversed_pairs


REVERSE = ww.Family(
    "reverse",
    sizes=("pairs",),
    arrays=lambda pairs: {
        "x": ww.In(2 * BLOCK * pairs, "float32"),
        "shift": ww.In(1, "float32"),
        "y": ww.Out(2 * BLOCK * pairs, "float32"),
    },
    reference=reverse,
    tests=((1,), (70,)),
    benchmarks=((10_000,),),
    variants=(
        ww.kernel(
            "pairs",
            source="pairs.cu",
            needs="sm_90",
            configurations=((BLOCK,),),
            grid=lambda pairs: 2 * pairs,
            cluster=2,
            shared_bytes=64 * 1024,  # more than CUDA allows without being asked
            symbols={"shift": "shift"},
            arguments="x y",
        ),
    ),
)


FOLLOW = ww.Family(
    "follow",
    sizes=("blocks",),
    arrays=lambda blocks: {
        "x": ww.In(BLOCK * blocks, "float32"),
        "between": ww.Scratch(BLOCK * blocks, "float32"),
        "y": ww.Out(BLOCK * blocks, "float32"),
    },
    reference=lambda x: x + 2,
    tolerance=ww.relative(1e-6, absolute=1e-6),
    tests=((1,), (60,)),
    benchmarks=((60,),),
    variants=tuple(
        ww.kernel(
            name,
            source="follow.cu",
            needs="sm_90",
            configurations=((BLOCK,),),
            launches=(
                ww.Step("follow_first", grid="blocks", arguments="x between"),
                ww.Step("follow_second", grid="blocks", arguments="x between y", programmatic=name == "early"),
            ),
        )
        for name in ("after", "early")
    ),
)


@functools.cache
def driver() -> Any:
    """Return the CUDA driver."""
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def own_stream() -> ctypes.c_void_p:
    """Return a stream that is not the one that calls are given."""
    stream = ctypes.c_void_p()
    assert driver().cuStreamCreate(ctypes.byref(stream), 1) == 0
    return stream


def copy(x: DeviceArray, y: DeviceArray, stream: Any) -> None:
    """Queue a copy of x to y."""
    to, source, size = ctypes.c_uint64(y.address), ctypes.c_uint64(x.address), ctypes.c_size_t(x.nbytes)
    if status := driver().cuMemcpyDtoDAsync_v2(to, source, size, ctypes.c_void_p(stream)):
        raise RuntimeError(f"cuMemcpyDtoDAsync failed with status {status}")


def elsewhere(x: DeviceArray, y: DeviceArray) -> None:
    """Queue the copy on another stream."""
    copy(x, y, own_stream().value)


def waiting(x: DeviceArray, y: DeviceArray, stream: int) -> None:
    """Queue the copy, and wait for it."""
    copy(x, y, stream)
    driver().cuStreamSynchronize(ctypes.c_void_p(stream))


def seeing(x: DeviceArray, y: DeviceArray) -> None:
    """Say how large the memory is that the arrays lie in, as far as this process may use it."""
    sizes = []
    for array in (x, y):
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        driver().cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(array.address))
        sizes.append(size.value)
    raise RuntimeError(str(sizes))


def allocating(x: DeviceArray, y: DeviceArray, stream: int) -> None:
    """Queue the copy, and free memory, which waits for all work."""
    memory = ctypes.c_uint64()
    driver().cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(2**20))
    copy(x, y, stream)
    driver().cuMemFree_v2(memory)


def idle(x: DeviceArray, y: DeviceArray) -> None:
    """Queue nothing."""


def failing(x: DeviceArray, y: DeviceArray, stream: int) -> None:
    """Fail after half of the work."""
    copy(x, y, stream)
    raise RuntimeError("no work space is left")


COPY = ww.Family(
    "duplicate",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "float32"), "y": ww.Out(n, "float32")},
    reference=lambda x: x,
    tests=((100_000,),),
    benchmarks=((10_000_000,),),
    variants=tuple(
        ww.call(function.__name__, needs=ww.Driver(), function=function)
        for function in (copy, elsewhere, waiting, seeing, allocating, idle, failing)
    ),
)

FAMILIES = (REVERSE, FOLLOW, COPY)
