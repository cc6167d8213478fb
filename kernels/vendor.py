"""The vendor's libraries as variants: cuBLAS, and the driver's own copy. Called by ctypes, on the stream at hand.

cuBLAS comes from the package nvidia-cublas (optional extra ``vendor``) or from a CUDA toolkit. Its default mode is
neither TF32 nor emulation; for float32 it is made pedantic besides, which forbids both whatever the environment says.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernels.catalogue import Case
from kernels.machine import DeviceError

MAJORS = (13, 12)  # of cuBLAS, whose calls used here are the same in both
DEFAULT, PEDANTIC = 0, 2  # CUBLAS_DEFAULT_MATH, CUBLAS_PEDANTIC_MATH; the latter makes float64 slower
TRANSPOSED, PLAIN = 1, 0


def missing(library: str) -> str:
    """Why a library cannot be used and how to get it, or nothing."""
    if library == "memcpy":
        return ""
    try:
        _load_cublas()
    except OSError:
        return "cuBLAS is not installed: pip install nvidia-cublas (extra 'vendor'), or a CUDA toolkit"
    return "" if version(library) else f"cuBLAS is of another major version than {' or '.join(map(str, MAJORS))}"


def version(library: str) -> str:
    """Such as 13.0.2; empty where the library is of a version that is not known to work."""
    if library == "memcpy":
        return "driver"
    parts = []
    for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        value = ctypes.c_int()
        _load_cublas().cublasGetProperty(part, ctypes.byref(value))
        parts.append(value.value)
    return ".".join(map(str, parts)) if parts[0] in MAJORS else ""


def launcher(case: Case, pointers: Sequence[int], stream: int) -> Callable[[], None]:
    """A call that queues what the variant's library does for a case. Raises DeviceError."""
    if case.variant.library == "memcpy":
        return _copy(case, pointers, stream)
    return {"matmul": _gemm, "matvec": _gemv}[case.family.name](case, pointers, stream)


@functools.cache
def _load_cublas() -> ctypes.CDLL:
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations or () if package else ()
    found = [str(path) for folder in folders for path in sorted(Path(folder).glob("**/libcublas.so.*"), reverse=True)]
    for name in (*found, *(f"libcublas.so.{major}" for major in MAJORS), "/usr/local/cuda/lib64/libcublas.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("no libcublas")


@functools.cache
def _handle(stream: int, dtype: str) -> ctypes.c_void_p:
    cublas, handle = _load_cublas(), ctypes.c_void_p()
    _check("cublasCreate", cublas.cublasCreate_v2(ctypes.byref(handle)))
    _check("cublasSetStream", cublas.cublasSetStream_v2(handle, ctypes.c_void_p(stream)))
    mode = PEDANTIC if dtype == "float32" else DEFAULT
    _check("cublasSetMathMode", cublas.cublasSetMathMode(handle, mode))
    return handle


def _check(what: str, status: int) -> None:
    if status:
        raise DeviceError(f"{what} failed with status {status}")


def _scalars(dtype: str) -> tuple[Any, Any]:
    kind = ctypes.c_float if dtype == "float32" else ctypes.c_double
    return kind(1.0), kind(0.0)


def _gemm(case: Case, pointers: Sequence[int], stream: int) -> Callable[[], None]:
    # cuBLAS counts by columns, so what it calls B A is our A B.
    (m, n, k), handle = case.shape, _handle(stream, case.dtype)
    a, b, c = map(ctypes.c_void_p, pointers)
    one, zero = _scalars(case.dtype)
    call = getattr(_load_cublas(), "cublasSgemm_v2" if case.dtype == "float32" else "cublasDgemm_v2")
    refs = ctypes.byref(one), ctypes.byref(zero)

    def start() -> None:
        _check("cublas gemm", call(handle, PLAIN, PLAIN, k, m, n, refs[0], b, k, a, n, refs[1], c, k))

    return start


def _gemv(case: Case, pointers: Sequence[int], stream: int) -> Callable[[], None]:
    (m, n), handle = case.shape, _handle(stream, case.dtype)
    a, x, y = map(ctypes.c_void_p, pointers)
    one, zero = _scalars(case.dtype)
    call = getattr(_load_cublas(), "cublasSgemv_v2" if case.dtype == "float32" else "cublasDgemv_v2")
    refs = ctypes.byref(one), ctypes.byref(zero)

    def start() -> None:
        _check("cublas gemv", call(handle, TRANSPOSED, n, m, refs[0], a, n, x, 1, refs[1], y, 1))

    return start


def _copy(case: Case, pointers: Sequence[int], stream: int) -> Callable[[], None]:
    cuda = ctypes.CDLL("libcuda.so.1")
    source, target = map(ctypes.c_uint64, pointers)
    size = ctypes.c_size_t(case.array_bytes // 2)

    def start() -> None:
        status = cuda.cuMemcpyDtoDAsync_v2(target, source, size, ctypes.c_void_p(stream))
        _check("cuMemcpyDtoDAsync", status)

    return start
