"""Describes calls that take a kernel's place: of a vendor's library, of PyTorch, of anything that queues on a stream.

The calls themselves belong to the families that use them, such as kernels/matmul/cublas.py. They are given arrays in a
GPU's memory as a DeviceArray, by address, ``__cuda_array_interface__`` or DLPack.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Protocol

from warpwatch.catalogue.elements import numpy_type

Queue = Callable[[], object]  # puts the work of one call on its stream


class CallError(Exception):
    """A failed call; the message names the call and its status."""


def check_status(call: str, status: int) -> None:
    """Raise CallError where a call did not return 0."""
    if status:
        raise CallError(f"{call} failed with status {status}")


class Requirement(Protocol):
    """Something that a call needs on the machine. ``version``: empty where it is unknown."""

    def missing(self) -> str:
        """Say why it cannot be used and how to get it; empty where it can."""

    def version(self) -> str: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """A call that takes a kernel's place.

    ``prepare`` does what can be done beforehand and returns the function that is timed; it takes by name arrays, sizes
    and ``stream``, the handle of the CUDA stream to queue on, and raises CallError. ``needs_gpu``: it brings machine
    code for GPUs, which the software device cannot run.
    """

    prepare: Callable[..., Queue]
    needs: tuple[Requirement, ...] = ()
    needs_gpu: bool = True

    @property
    def is_library(self) -> bool:
        """True where it calls NVIDIA's libraries alone, whose code is the same where their version is."""
        return bool(self.needs) and all(isinstance(each, SharedLibrary | Driver) for each in self.needs)

    def missing(self) -> str:
        """Say what it lacks and how to get it; empty where it lacks nothing."""
        return next(filter(None, (each.missing() for each in self.needs)), "")

    def version(self) -> str:
        """Return the versions of what it needs; empty where one is unknown."""
        versions = [each.version() for each in self.needs]
        return " ".join(versions) if all(versions) else ""


@dataclass(frozen=True)
class PythonPackage:
    """A package of Python that a call needs, such as torch."""

    name: str

    def missing(self) -> str:
        """Say how to get the package where it is not installed; empty where it is."""
        return "" if importlib.util.find_spec(self.name) else f"{self.name} is not installed: pip install {self.name}"

    def version(self) -> str:
        """Return the installed version; empty where it is unknown, or that of a folder, whose code may change."""
        try:
            distribution = importlib.metadata.distribution(self.name)
        except importlib.metadata.PackageNotFoundError:
            return ""
        return "" if "dir_info" in (distribution.read_text("direct_url.json") or "") else distribution.version


class Driver:
    """The CUDA driver, which is there wherever a device is."""

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return "driver"


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
    files = [str(path) for folder in folders for path in sorted(Path(folder).glob(f"**/{file}.*"), reverse=True)]
    for path in (*files, *(f"{file}.{major}" for major in majors), f"/usr/local/cuda/lib64/{file}"):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise OSError(f"no {file}")


CUDA = 2  # kDLCUDA
# kDLInt, kDLUInt, kDLFloat, kDLBfloat, kDLComplex, kDLBool; kDLFloat8_e4m3fn, kDLFloat8_e5m2 (DLPack 1.1)
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
EXTENDED_CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


class _Tensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h, with DLTensor written out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


@dataclass(frozen=True, kw_only=True)
class DeviceArray:
    """An array in a GPU's memory, row by row without gaps. ``ordinal``: number of the GPU."""

    name: str
    address: int
    shape: tuple[int, ...]
    dtype: str
    ordinal: int = 0

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * numpy_type(self.dtype).itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype in EXTENDED_CODES:
            raise AttributeError(f"__cuda_array_interface__ has no name for {self.dtype}: take the array by DLPack")
        return {
            "shape": self.shape,
            "typestr": numpy_type(self.dtype).str,
            "data": (self.address, False),
            "strides": None,
            "version": 3,
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.ordinal

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        """Return a capsule that PyTorch, CuPy or JAX takes. Nothing is to be waited for, on whatever stream."""
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(_tensor(self)), b"dltensor", None)


@functools.cache
def _tensor(array: DeviceArray) -> _Tensor:
    """Describe an array to DLPack. Kept, because who takes a capsule does not say when it is done with it."""
    kind = numpy_type(array.dtype)
    code = EXTENDED_CODES.get(array.dtype, CODES.get(kind.kind, 2))
    shape = (ctypes.c_int64 * len(array.shape))(*array.shape)  # which the tensor keeps
    return _Tensor(array.address, CUDA, array.ordinal, len(array.shape), code, 8 * kind.itemsize, 1, shape)
