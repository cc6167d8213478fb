"""Calls the driver's own copy, which every GPU has: the bandwidth that other kernels are held against."""

from __future__ import annotations

import ctypes

from warpwatch import DeviceArray, Queue, check_status


def memcpy(A: DeviceArray, B: DeviceArray, stream: int) -> Queue:
    """Prepare the copy of A to B."""
    cuda = ctypes.CDLL("libcuda.so.1")
    source, target, size = ctypes.c_uint64(A.address), ctypes.c_uint64(B.address), ctypes.c_size_t(A.nbytes)

    def queue() -> None:
        check_status("cuMemcpyDtoDAsync", cuda.cuMemcpyDtoDAsync_v2(target, source, size, ctypes.c_void_p(stream)))

    return queue
