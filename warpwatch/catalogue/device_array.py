"""Describes an array in a GPU's memory to calls, by address, ``__cuda_array_interface__`` and DLPack."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from math import prod
from typing import Any

from warpwatch.catalogue.elements import numpy_type

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
