"""Calls cuBLAS for products of half-precision elements: cublasGemmEx, with sums in float32 (CUBLAS_COMPUTE_32F).

Where several blocks share a sum, its parts are added up in float32, too.
"""

from __future__ import annotations

import ctypes

from kernels.matmul.cublas import CUBLAS, NOT_TRANSPOSED, handle, one_and_zero
from warpwatch import DeviceArray, Queue, check_status

WIDE_REDUCTIONS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
ELEMENTS = {"float16": 2, "bfloat16": 14}  # CUDA_R_16F, CUDA_R_16BF
COMPUTE_32F, DEFAULT_ALGORITHM = 68, -1  # CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT


def gemm_ex(A: DeviceArray, B: DeviceArray, C: DeviceArray, stream: int, m: int, n: int, k: int, dtype: str) -> Queue:
    """Prepare cuBLAS's product. It stores matrices by columns, so its product B A is this family's A B."""
    cublas, own, kind = CUBLAS.load(), handle(stream, dtype), ELEMENTS[dtype]
    check_status("cublasSetMathMode", cublas.cublasSetMathMode(own, WIDE_REDUCTIONS))
    a, b, c = (ctypes.c_void_p(array.address) for array in (A, B, C))
    one, zero = one_and_zero("float32")
    transposed = (NOT_TRANSPOSED, NOT_TRANSPOSED)
    left, right = (ctypes.byref(one), b, kind, k, a, kind, n), (ctypes.byref(zero), c, kind, k)

    def queue() -> None:
        status = cublas.cublasGemmEx(own, *transposed, k, m, n, *left, *right, COMPUTE_32F, DEFAULT_ALGORITHM)
        check_status("cublasGemmEx", status)

    return queue
