"""Calls the CUDA driver where PyCUDA has no binding: occupancy, launches in thread block clusters, and graphs.

PyCUDA does not give the handles of its functions away either, so the module is loaded once more, in the same context.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compile.compiler import read_image
from warpwatch.devices.machine import DeviceError

MAX_DYNAMIC_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: CUDA allows 48 KiB without being asked
CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
CAPTURE_OF_THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
BUFFER_POINTER, BUFFER_SIZE, END = 1, 2, 0  # CU_LAUNCH_PARAM_BUFFER_POINTER and so on


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h for a cluster's dimensions; its value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def _load(image: Path, name: str) -> tuple[ctypes.CDLL, ctypes.c_void_p, ctypes.c_void_p] | None:
    """Load a kernel; return the driver, the module and the kernel, or None where that fails."""
    cuda, module, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    failed = cuda.cuModuleLoadData(ctypes.byref(module), read_image(image)) or cuda.cuModuleGetFunction(
        ctypes.byref(handle), module, name.encode()
    )
    if failed and module:
        cuda.cuModuleUnload(module)
    return None if failed else (cuda, module, handle)


def resident_blocks(image: Path, name: str, launch: Launch) -> int | None:
    """Return how many blocks a multiprocessor holds at once, or None where that is unknown."""
    loaded = _load(image, name)
    if loaded is None:
        return None
    cuda, module, handle = loaded
    x, y, z = launch.block
    blocks = ctypes.c_int()
    failed = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(blocks), handle, x * y * z, ctypes.c_size_t(launch.shared_bytes)
    )
    cuda.cuModuleUnload(module)
    return None if failed else blocks.value


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module that is loaded a second time, for launches that PyCUDA cannot make; its variables are its own.

    It is kept as long as the process, as its kernels may run at any time.
    """

    cuda: ctypes.CDLL
    handle: ctypes.c_void_p

    def variable(self, name: str) -> int:
        """Return the address of a __device__ or __constant__ variable. Raises DeviceError."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        if status := self.cuda.cuModuleGetGlobal_v2(
            ctypes.byref(address), ctypes.byref(size), self.handle, name.encode()
        ):
            raise DeviceError(f"the variable {name} cannot be set for launches in clusters: status {status}")
        return address.value


def load_module(image: Path, name: str) -> Module:
    """Load a compiled file that has the kernel ``name`` a second time. Raises DeviceError."""
    loaded = _load(image, name)
    if loaded is None:
        raise DeviceError(f"{name} cannot be loaded for a launch in clusters")
    cuda, handle, _ = loaded
    return Module(cuda=cuda, handle=handle)


def cluster_launcher(module: Module, name: str, launch: Launch, stream: int, packed: bytes) -> Callable[[], None]:
    """Return a function that launches a kernel in clusters of blocks. Raises DeviceError."""
    cuda, kernel = module.cuda, ctypes.c_void_p()
    status = cuda.cuModuleGetFunction(ctypes.byref(kernel), module.handle, name.encode())
    status = status or cuda.cuFuncSetAttribute(kernel, MAX_DYNAMIC_SHARED_BYTES, launch.shared_bytes)
    if status:
        raise DeviceError(f"{name} cannot be prepared for a launch in clusters: status {status}")
    buffer, size = ctypes.create_string_buffer(packed, len(packed)), ctypes.c_size_t(len(packed))
    extra = (ctypes.c_void_p * 5)(BUFFER_POINTER, ctypes.addressof(buffer), BUFFER_SIZE, ctypes.addressof(size), END)
    attribute = _Attribute(CLUSTER_DIMENSION, b"", (ctypes.c_uint * 16)(*launch.cluster))
    three = ctypes.c_uint * 3
    config = _Config(
        three(*launch.grid), three(*launch.block), launch.shared_bytes, stream, ctypes.pointer(attribute), 1
    )
    kept = (buffer, size, attribute)  # what `extra` and `config` point to

    def start(_: object = kept) -> None:
        if status := cuda.cuLaunchKernelEx(ctypes.byref(config), kernel, None, extra):
            raise DeviceError(
                f"launching {name} in clusters of {launch.cluster} failed with status {status}: clusters need compute "
                "capability 9.0, at most 8 blocks, and a grid that they divide"
            )

    return start


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A CUDA graph of recorded launches."""

    cuda: ctypes.CDLL
    stream: ctypes.c_void_p
    graph: ctypes.c_void_p
    ready: ctypes.c_void_p

    def launch(self) -> None:
        """Queue all of them on the stream that they were recorded on. Raises DeviceError."""
        if status := self.cuda.cuGraphLaunch(self.ready, self.stream):
            raise DeviceError(f"a graph of launches cannot be launched: status {status}")

    def destroy(self) -> None:
        """Give its memory back, when the last of its launches has ended."""
        self.cuda.cuGraphExecDestroy(self.ready)
        self.cuda.cuGraphDestroy(self.graph)


def record_graph(stream: int, starts: Sequence[Callable[[], None]]) -> Graph:
    """Record what functions queue on a stream, which does not run meanwhile. Raises DeviceError."""
    cuda, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(stream)
    graph, ready = ctypes.c_void_p(), ctypes.c_void_p()
    status = cuda.cuStreamBeginCapture_v2(handle, CAPTURE_OF_THIS_THREAD)
    if not status:
        try:
            for start in starts:
                start()
        finally:
            status = cuda.cuStreamEndCapture(handle, ctypes.byref(graph))
    status = status or cuda.cuGraphInstantiateWithFlags(ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
    if status:
        raise DeviceError(f"launches cannot be recorded in a graph: status {status}")
    return Graph(cuda=cuda, stream=handle, graph=graph, ready=ready)
