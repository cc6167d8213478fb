"""Arrays that other processes map, so that large inputs are not sent from one to the next.

A proof of an untrusted call needs its inputs in the process that compares, and in the one that runs the reference. Sent
through sockets, two gigabytes took 2 s each time (H200's host). Memory that an array has given back is used again,
because fresh memory costs as much as copying into it.
"""

from __future__ import annotations

import mmap
import os
import weakref
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from warpwatch.catalogue.arrays import Array, Shape

LEAST_BYTES = 2**22  # of an array that is mapped: a smaller one is sent as quickly
_unused: list[Memory] = []


class Memory(mmap.mmap):
    """A file in memory that is mapped. ``descriptor``: of the file, which can be mapped elsewhere."""

    descriptor: int

    def end(self) -> None:
        """Close the file. What is mapped stays until the last array is gone."""
        os.close(self.descriptor)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Place of an array in a file in memory. ``first``: its first byte there."""

    file: Path
    first: int
    shape: Shape
    dtype: np.dtype[np.generic]

    def array(self) -> Array:
        """Return the array, read-only. Raises OSError where the file is gone."""
        with self.file.open("rb") as file:
            return mapped(os.dup(file.fileno()), self.first, self.shape, self.dtype)


def empty(shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """Return an array of any values which other processes can map, if it is large."""
    size = prod(shape) * dtype.itemsize
    if size < LEAST_BYTES:
        return np.empty(shape, dtype)
    fitting = [memory for memory in _unused if size <= len(memory) <= 2 * size]
    if fitting:
        _unused.remove(memory := fitting[0])
    else:
        free()
        descriptor = os.memfd_create("inputs")
        os.ftruncate(descriptor, size)
        memory = Memory(descriptor, size)
        memory.descriptor = descriptor
    flat = np.frombuffer(memory, dtype, prod(shape))
    weakref.finalize(flat, _unused.append, memory)
    return flat.reshape(shape)


def mapped(descriptor: int, first: int, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """Return an array of a file in memory, whose descriptor is closed with it. Raises ValueError of a shorter file."""
    memory = Memory(descriptor, 0, access=mmap.ACCESS_READ)
    memory.descriptor = descriptor
    flat = np.frombuffer(memory, dtype, prod(shape), first)
    weakref.finalize(flat, memory.end)
    return flat.reshape(shape)


def free() -> None:
    """Give back the memory that no array uses."""
    while _unused:
        _unused.pop().end()


def memory_of(array: Array) -> tuple[Memory, int] | None:
    """Return the memory in which an array lies whole, and its first byte there; None of an array that is elsewhere."""
    root: object = array
    while isinstance(root, np.ndarray) and root.base is not None:
        root = root.base
    memory = root.obj if isinstance(root, memoryview) else None
    if not isinstance(memory, Memory) or not array.flags.c_contiguous:
        return None
    begin = np.frombuffer(memory, np.uint8, 1).ctypes.data
    return memory, array.ctypes.data - begin


def place_of(array: Array) -> Place | None:
    """Return where another process of this user finds an array; None of one that is to be sent."""
    if not (found := memory_of(array)):
        return None
    file = Path(f"/proc/{os.getpid()}/fd/{found[0].descriptor}")
    return Place(file=file, first=found[1], shape=array.shape, dtype=array.dtype)
