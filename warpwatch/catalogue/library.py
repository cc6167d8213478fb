"""Describes a vendor's library that replaces a kernel: how it is found, which versions work, how a call is queued.

The calls themselves belong to the families that use them, such as kernels/matmul/cublas.py. This module needs the
standard library alone.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Queue = Callable[[], None]  # puts one call of a library on its stream


class LibraryError(Exception):
    """A failed call of a library; the message names the call and its status."""


def check_status(what: str, status: int) -> None:
    """Raise LibraryError where a call did not return 0."""
    if status:
        raise LibraryError(f"{what} failed with status {status}")


@dataclass(frozen=True, kw_only=True)
class LibraryCall:
    """Arguments for the call of a library: the case's shape and element type, and the addresses of its arrays.

    ``pointers``: addresses of the operands, then of the result. ``stream``: handle of the CUDA stream that the call is
    queued on. ``array_bytes``: of operands and result together.
    """

    shape: tuple[int, ...]
    dtype: str
    pointers: Sequence[int]
    stream: int
    array_bytes: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Library:
    """A library that replaces a variant's kernel.

    ``prepare`` does what can be done beforehand and returns the call that is timed; it raises LibraryError. ``missing``
    says why the library cannot be used and how to get it, or returns an empty text. ``needs_gpu``: it is machine code
    for GPUs, which the software device cannot run. ``version`` returns an empty text where the version is unknown.
    """

    name: str
    prepare: Callable[[LibraryCall], Queue]
    missing: Callable[[], str] = lambda: ""
    needs_gpu: bool = True
    version: Callable[[], str] = lambda: ""


@dataclass(frozen=True)
class SharedLibrary:
    """A shared library of NVIDIA: from a Python package (such as nvidia-cublas), the loader's path or a toolkit.

    ``majors``: the major versions whose calls are known to work, newest first.
    """

    name: str
    title: str
    package: str
    majors: tuple[int, ...]

    def load(self) -> ctypes.CDLL:
        """Load the library, once in a process. Raises OSError where there is none."""
        return _load(self.name, self.majors)

    def missing(self) -> str:
        """Say why the library cannot be used and how to get it; empty where it can."""
        try:
            self.load()
        except OSError:
            return f"{self.title} is not installed: pip install {self.package} (extra 'vendor'), or a CUDA toolkit"
        known = " or ".join(map(str, self.majors))
        return "" if self.version() else f"{self.title} is of another major version than {known}"

    def version(self) -> str:
        """Return the version, such as 13.0.2; empty where the major version is not known to work."""
        parts = []
        for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL of library_types.h
            value = ctypes.c_int()
            getattr(self.load(), f"{self.name}GetProperty")(part, ctypes.byref(value))
            parts.append(value.value)
        return ".".join(map(str, parts)) if parts[0] in self.majors else ""


@functools.cache
def _load(name: str, majors: tuple[int, ...]) -> ctypes.CDLL:
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations or () if package else ()
    file = f"lib{name}.so"
    found = [str(path) for folder in folders for path in sorted(Path(folder).glob(f"**/{file}.*"), reverse=True)]
    for path in (*found, *(f"{file}.{major}" for major in majors), f"/usr/local/cuda/lib64/{file}"):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise OSError(f"no {file}")
