"""Calls cuBLAS for matrix-vector products."""

from __future__ import annotations

import ctypes

from kernels.matmul.cublas import CUBLAS, function, handle, one_and_zero
from warpwatch.catalogue.library import Library, LibraryCall, Queue, check_status

TRANSPOSED = 1  # CUBLAS_OP_T


def _prepare(call: LibraryCall) -> Queue:
    # cuBLAS stores matrices by columns, so this family's A is its A transposed.
    (m, n), own = call.shape, handle(call.stream, call.dtype)
    a, x, y = map(ctypes.c_void_p, call.pointers)
    one, zero = one_and_zero(call.dtype)
    gemv, refs = function("gemv", call.dtype), (ctypes.byref(one), ctypes.byref(zero))

    def queue() -> None:
        check_status("cublas gemv", gemv(own, TRANSPOSED, n, m, refs[0], a, n, x, 1, refs[1], y, 1))

    return queue


GEMV = Library(name="cublas", prepare=_prepare, missing=CUBLAS.missing, version=CUBLAS.version)
