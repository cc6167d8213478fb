"""The vendor's libraries as variants: cuBLAS, cuDNN, the driver's own copy. Called by ctypes, on the stream at hand.

The libraries come from the packages nvidia-cublas and nvidia-cudnn-cu13 (optional extra ``vendor``) or from a CUDA
toolkit. cuBLAS's default mode is neither TF32 nor emulation; for float32 it is made pedantic besides, which forbids
both whatever the environment says. cuDNN is told to use fused multiply-adds alone.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warpwatch.catalogue.declaration import Case
from warpwatch.devices.machine import DeviceError

MAJORS = {"cublas": (13, 12), "cudnn": (9,)}  # whose calls used here are the same
NAMES = {"cublas": "cuBLAS", "cudnn": "cuDNN"}
LIBRARIES = ("memcpy", *NAMES)  # what Variant.library may name
PACKAGES = {"cublas": "nvidia-cublas", "cudnn": "nvidia-cudnn-cu13"}
DEFAULT, PEDANTIC = 0, 2  # CUBLAS_DEFAULT_MATH, CUBLAS_PEDANTIC_MATH; the latter makes float64 slower
TRANSPOSED, PLAIN = 1, 0
FLOAT, NCHW, CROSS_CORRELATION, FMA_ALONE = 0, 0, 1, 3  # CUDNN_DATA_FLOAT and so on
# CUDNN_CONVOLUTION_FWD_ALGO_GEMM. Of those without transforms, whose error has no bound for each element, it is the
# quickest: on an H200 0.6, 1.4 and 2.2 ms for 8192^2 and K = 3, 5, 7, where implicit products take 4.8, 7.5 and 11.8.
BY_PRODUCT = 2


def missing(library: str) -> str:
    """Why a library cannot be used and how to get it, or nothing."""
    if library == "memcpy":
        return ""
    try:
        _load(library)
    except OSError:
        return f"{NAMES[library]} is not installed: pip install {PACKAGES[library]} (extra 'vendor'), or a CUDA toolkit"
    known = " or ".join(map(str, MAJORS[library]))
    return "" if version(library) else f"{NAMES[library]} is of another major version than {known}"


def version(library: str) -> str:
    """Such as 13.0.2; empty where the library is of a version that is not known to work."""
    if library == "memcpy":
        return "driver"
    parts = []
    for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        value = ctypes.c_int()
        getattr(_load(library), f"{library}GetProperty")(part, ctypes.byref(value))
        parts.append(value.value)
    return ".".join(map(str, parts)) if parts[0] in MAJORS[library] else ""


def launcher(case: Case, pointers: Sequence[int], stream: int) -> Callable[[], None]:
    """A call that queues what the variant's library does for a case. Raises DeviceError."""
    if case.variant.library == "memcpy":
        return _copy(case, pointers, stream)
    return {"matmul": _gemm, "matvec": _gemv, "conv2d": _convolution}[case.family.name](case, pointers, stream)


@functools.cache
def _load(library: str) -> ctypes.CDLL:
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations or () if package else ()
    name = f"lib{library}.so"
    found = [str(path) for folder in folders for path in sorted(Path(folder).glob(f"**/{name}.*"), reverse=True)]
    for path in (*found, *(f"{name}.{major}" for major in MAJORS[library]), f"/usr/local/cuda/lib64/{name}"):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise OSError(f"no {name}")


@functools.cache
def _handle(stream: int, dtype: str) -> ctypes.c_void_p:
    cublas, handle = _load("cublas"), ctypes.c_void_p()
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
    call = getattr(_load("cublas"), "cublasSgemm_v2" if case.dtype == "float32" else "cublasDgemm_v2")
    refs = ctypes.byref(one), ctypes.byref(zero)

    def start() -> None:
        _check("cublas gemm", call(handle, PLAIN, PLAIN, k, m, n, refs[0], b, k, a, n, refs[1], c, k))

    return start


def _gemv(case: Case, pointers: Sequence[int], stream: int) -> Callable[[], None]:
    (m, n), handle = case.shape, _handle(stream, case.dtype)
    a, x, y = map(ctypes.c_void_p, pointers)
    one, zero = _scalars(case.dtype)
    call = getattr(_load("cublas"), "cublasSgemv_v2" if case.dtype == "float32" else "cublasDgemv_v2")
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


def _convolution(case: Case, pointers: Sequence[int], stream: int) -> Callable[[], None]:
    cudnn, handle, (rows, columns, k) = _load("cudnn"), _cudnn_handle(stream), case.shape
    image, weights, result = map(ctypes.c_void_p, pointers)
    x = _description("Tensor", "4d", NCHW, FLOAT, 1, 1, rows, columns)
    y = _description("Tensor", "4d", NCHW, FLOAT, 1, 1, rows - k + 1, columns - k + 1)
    w = _description("Filter", "4d", FLOAT, NCHW, 1, 1, k, k)
    how = _description("Convolution", "2d", 0, 0, 1, 1, 1, 1, CROSS_CORRELATION, FLOAT)
    _check("cudnnSetConvolutionMathType", cudnn.cudnnSetConvolutionMathType(how, FMA_ALONE))
    size = ctypes.c_size_t()
    found = cudnn.cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, how, y, BY_PRODUCT, ctypes.byref(size))
    _check("cudnnGetConvolutionForwardWorkspaceSize", found)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    source = ctypes.byref(one), x, image, w, weights, how, BY_PRODUCT, _workspace(size.value), size
    target = ctypes.byref(zero), y, result

    def start() -> None:
        _check("cudnnConvolutionForward", cudnn.cudnnConvolutionForward(handle, *source, *target))

    return start


@functools.cache
def _cudnn_handle(stream: int) -> ctypes.c_void_p:
    cudnn, handle = _load("cudnn"), ctypes.c_void_p()
    _check("cudnnCreate", cudnn.cudnnCreate(ctypes.byref(handle)))
    _check("cudnnSetStream", cudnn.cudnnSetStream(handle, ctypes.c_void_p(stream)))
    return handle


@functools.cache
def _description(of: str, dimensions: str, *values: int) -> ctypes.c_void_p:
    """A descriptor of cuDNN's; there are few, and they are kept."""
    cudnn, made = _load("cudnn"), ctypes.c_void_p()
    _check(f"cudnnCreate{of}Descriptor", getattr(cudnn, f"cudnnCreate{of}Descriptor")(ctypes.byref(made)))
    setter = f"cudnnSet{of}{dimensions}Descriptor"
    _check(setter, getattr(cudnn, setter)(made, *values))
    return made


@functools.cache
def _workspace(size: int) -> ctypes.c_void_p:
    """So many bytes of the device's memory, kept until the process ends."""
    address = ctypes.c_uint64()
    if size:
        status = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        _check(f"cuMemAlloc of {size:,} bytes", status)
    return ctypes.c_void_p(address.value)
