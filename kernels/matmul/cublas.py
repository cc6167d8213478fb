"""Calls cuBLAS for matrix products, and shares its handle with the matrix-vector product.

cuBLAS's default mode uses neither TF32 nor emulation. For float32 the mode is set to pedantic, which forbids both even
if environment variables ask for them. Pedantic mode makes float64 slower, so it is not used there.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from warpwatch import DeviceArray, Queue, SharedLibrary, check_status

CUBLAS = SharedLibrary("cublas", "cuBLAS", "nvidia-cublas", (13, 12))
DEFAULT_MATH, PEDANTIC_MATH = 0, 2  # CUBLAS_DEFAULT_MATH, CUBLAS_PEDANTIC_MATH
NOT_TRANSPOSED = 0  # CUBLAS_OP_N


@functools.cache
def handle(stream: int, dtype: str) -> ctypes.c_void_p:
    """Make a handle of cuBLAS that queues on a stream, in the math mode for an element type."""
    cublas, made = CUBLAS.load(), ctypes.c_void_p()
    check_status("cublasCreate", cublas.cublasCreate_v2(ctypes.byref(made)))
    check_status("cublasSetStream", cublas.cublasSetStream_v2(made, ctypes.c_void_p(stream)))
    mode = PEDANTIC_MATH if dtype == "float32" else DEFAULT_MATH
    check_status("cublasSetMathMode", cublas.cublasSetMathMode(made, mode))
    return made


def one_and_zero(dtype: str) -> tuple[Any, Any]:
    """Return the factors of the product (one) and of the old result (zero), in the element type."""
    kind = ctypes.c_float if dtype == "float32" else ctypes.c_double
    return kind(1.0), kind(0.0)


def function(letter: str, dtype: str) -> Any:
    """Return cuBLAS's function for an element type, such as cublasSgemm_v2 for ``gemm`` and float32."""
    return getattr(CUBLAS.load(), f"cublas{'S' if dtype == 'float32' else 'D'}{letter}_v2")


def gemm(A: DeviceArray, B: DeviceArray, C: DeviceArray, stream: int, m: int, n: int, k: int, dtype: str) -> Queue:
    """Prepare cuBLAS's matrix product. It stores matrices by columns, so its product B A is this family's A B."""
    own = handle(stream, dtype)
    a, b, c = (ctypes.c_void_p(array.address) for array in (A, B, C))
    one, zero = one_and_zero(dtype)
    multiply, refs = function("gemm", dtype), (ctypes.byref(one), ctypes.byref(zero))

    def queue() -> None:
        status = multiply(own, NOT_TRANSPOSED, NOT_TRANSPOSED, k, m, n, refs[0], b, k, a, n, refs[1], c, k)
        check_status("cublas gemm", status)

    return queue
