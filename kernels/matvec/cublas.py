"""Calls cuBLAS for matrix-vector products."""

from __future__ import annotations

import ctypes

from kernels.matmul.cublas import function, handle, one_and_zero
from warpwatch import DeviceArray, Queue, check_status

TRANSPOSED = 1  # CUBLAS_OP_T


def gemv(A: DeviceArray, x: DeviceArray, y: DeviceArray, stream: int, m: int, n: int, dtype: str) -> Queue:
    """Prepare cuBLAS's matrix-vector product. It stores matrices by columns, so A is its A transposed."""
    own = handle(stream, dtype)
    a, b, c = (ctypes.c_void_p(array.address) for array in (A, x, y))
    one, zero = one_and_zero(dtype)
    multiply, refs = function("gemv", dtype), (ctypes.byref(one), ctypes.byref(zero))

    def queue() -> None:
        check_status("cublas gemv", multiply(own, TRANSPOSED, n, m, refs[0], a, n, b, 1, refs[1], c, 1))

    return queue
