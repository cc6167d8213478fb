"""Declares kernels and calls that look fast without doing the work, and honest ones beside them.

``expected.py`` says what a run must say of each. In pyproject.toml: ``kernels = "tests.cheats"``.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import warpwatch as ww
from tests.cheats import calls, honest
from tests.cheats.expected import CALLS, KERNELS, SIZES
from warpwatch.catalogue.arrays import Array, DeclaredArray
from warpwatch.catalogue.tolerance import Relative

BLOCK, WIDTH = 128, 256
OWN_BYTES = 2**23
TESTS = ((100,), (2000,))


def window(x: Array) -> Array:
    """Return the sums of WIDTH elements from each on, each times its place, modulo 2^32."""
    sums = np.zeros(x.size, np.uint32)
    for j in range(WIDTH):
        sums += np.roll(x, -j).astype(np.uint32) * np.uint32(j + 1)
    return sums.view(np.int32)


def mean(x: Array) -> Array:
    """Return the means of WIDTH elements from each on."""
    means: Array = np.mean([np.roll(x.astype(np.float64), -j) for j in range(WIDTH)], axis=0)
    return means


def kept(n: int) -> Mapping[str, DeclaredArray]:
    """Declare scratch memory for a result and three values."""
    return {"kept": ww.Scratch(n + 3, "int32")}


def kernel(name: str, arguments: str = "y x n:int64") -> ww.Variant:
    """Declare a kernel of the folder kernels, a thread an element."""
    return ww.kernel(
        name,
        source=f"kernels/{name}.cu",
        entry=name,
        configurations=((BLOCK,),),
        grid=lambda n: ww.blocks(n, BLOCK)[0],
        arguments=OWN_ARGUMENTS.get(name, arguments),
        scratch=kept if name == "in_scratch" else None,
    )


class Lenient(np.ndarray):
    """Array that does not differ from any other."""

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **more: Any) -> Any:
        plain = [each.view(np.ndarray) if isinstance(each, Lenient) else each for each in given]
        result = getattr(ufunc, method)(*plain, **more)
        return np.zeros_like(result) if ufunc in (np.subtract, np.not_equal, np.greater) else result


def with_result(at: Mapping[str, int], n: int) -> tuple[np.generic, ...]:
    """Compute the result while the arguments are worked out, and pass it."""
    x, kept = np.empty(n, np.int32), at["x"]
    with contextlib.suppress(RuntimeError, OSError):  # where it is called to be checked, there are no arrays
        calls.driver("cuMemcpyDtoH_v2", calls.HANDLE(x.ctypes.data), calls.ADDRESS(at["x"]), calls.SIZE(x.nbytes))
        kept = calls.upload(window(x))
    return np.uint64(at["y"]), np.uint64(kept), np.int64(n)


@functools.cache
def own_memory(n: int) -> int:
    """Allocate memory that no array lies in, for each shape, and fill it with zeros."""
    address = calls.allocate(OWN_BYTES)
    calls.fill(address, OWN_BYTES, stream=0)
    calls.driver("cuCtxSynchronize")
    return address


def with_memory(at: Mapping[str, int], n: int) -> tuple[np.generic, ...]:
    """Pass memory that is nobody's, which stays as each launch leaves it."""
    memory = 0
    with contextlib.suppress(RuntimeError, OSError):
        memory = own_memory(n)
    return np.uint64(at["y"]), np.uint64(at["x"]), np.uint64(memory), np.int64(n)


OWN_ARGUMENTS = {"in_arguments": with_result, "until_believed": with_memory, "in_scratch": "y x kept n:int64"}


def shapes(family: str) -> tuple[tuple[int], ...]:
    """Return the shapes that a family is timed on."""
    return tuple((size,) for size in SIZES[family])


def kernels_of(family: str) -> tuple[str, ...]:
    """Name the cheating kernels of a family."""
    return tuple(cheat.name for cheat in KERNELS if cheat.family == family)


def dear_window(x: Array) -> Array:
    """Return the sums, and take so long for them that no right results are made before they are needed."""
    time.sleep(0.15)
    return window(x)


def windows(name: str, names: tuple[str, ...], reference: Callable[..., Any] = window, **more: Any) -> ww.Family:
    """Declare a family of sums of WIDTH elements, with these kernels."""
    return ww.Family(
        name,
        sizes=("n",),
        arrays=lambda n: {"x": ww.In(n, "int32", low=-1000, high=1000), "y": ww.Out(n, "int32")},
        reference=reference,
        exact=True,
        work=lambda n: ww.Work(2 * WIDTH * n, 8 * n),
        tests=TESTS,
        benchmarks=shapes(name),
        variants=tuple(map(kernel, names)),
        **more,
    )


def always_the_same(n: int) -> dict[str, Array]:
    """Draw seven numbers in turn, whatever the seed."""
    return {"x": (np.arange(n) % 7 - 3).astype(np.int32)}


def means(name: str, tolerance: Relative, reference: Callable[..., Any] = mean) -> ww.Family:
    """Declare a family of float32 means; its tolerance decides what is accepted."""
    return ww.Family(
        name,
        sizes=("n",),
        arrays=lambda n: {"x": ww.In(n, "float32", low=0, high=1), "y": ww.Out(n, "float32")},
        reference=reference,
        tolerance=tolerance,
        tests=TESTS,
        benchmarks=shapes("mean"),
        variants=tuple(kernel(each, "y x n") for each in kernels_of(name)),
    )


SUMMED = ww.Family(
    "summed",
    sizes=("n",),
    arrays=lambda n: {"x": ww.In(n, "int32", low=-1000, high=1000), "y": ww.Out(1, "int32")},
    reference=lambda x: np.array([x.sum()], np.int32),
    exact=True,
    tests=TESTS,
    benchmarks=shapes("summed"),
    variants=tuple(map(kernel, kernels_of("summed"))),
)
TURNED = ww.Family(
    "turned",
    sizes=("n",),
    arrays=lambda n: {
        "x": ww.In((calls.ROWS, n), "int32", low=-1000, high=1000),
        "y": ww.Out((calls.ROWS, n), "int32"),
    },
    reference=lambda x: x[::-1],
    exact=True,
    tests=((3,), (50,)),
    benchmarks=shapes("turned"),
    variants=tuple(
        ww.call(name, needs=ww.Driver(), needs_gpu=False, prepare=getattr(calls, name))
        for name in ("in_turn", *(cheat.name for cheat in CALLS))
    ),
)
CHEATING = (
    windows("window", ("honest", *kernels_of("window"))),
    windows("dear", kernels_of("dear"), dear_window),
    windows("fixed", kernels_of("fixed"), draw=always_the_same),
    means("mean", ww.relative(1e-5)),
    means("loose", ww.relative(0.9)),
    means("around_zero", ww.relative(1e-3, absolute=2)),
    means("lenient", ww.relative(1e-5), lambda x: mean(x).view(Lenient)),
    SUMMED,
    TURNED,
)
FAMILIES = (*CHEATING, *honest.FAMILIES)
