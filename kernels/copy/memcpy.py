"""Calls the driver's own copy, which every GPU has: the bandwidth that other kernels are held against."""

from __future__ import annotations

import ctypes

from warpwatch.catalogue.library import Library, LibraryCall, Queue, check_status


def _prepare(call: LibraryCall) -> Queue:
    cuda = ctypes.CDLL("libcuda.so.1")
    source, target = map(ctypes.c_uint64, call.pointers)
    size, stream = ctypes.c_size_t(call.array_bytes // 2), ctypes.c_void_p(call.stream)

    def queue() -> None:
        check_status("cuMemcpyDtoDAsync", cuda.cuMemcpyDtoDAsync_v2(target, source, size, stream))

    return queue


MEMCPY = Library(name="memcpy", prepare=_prepare, version=lambda: "driver", needs_gpu=False)
