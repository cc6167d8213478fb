"""Calls the CUDA driver where PyCUDA has no binding: occupancy, and launches in thread block clusters.

PyCUDA does not give the handles of its functions away either, so the module is loaded once more, in the same context.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

from warpwatch.catalogue.launches import Launch
from warpwatch.devices.compiler import read_image
from warpwatch.devices.machine import DeviceError

CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
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


def cluster_launcher(image: Path, name: str, launch: Launch, stream: int, packed: bytes) -> Callable[[], None]:
    """Return a function that launches a kernel in clusters of blocks. Raises DeviceError."""
    loaded = _load(image, name)
    if loaded is None:
        raise DeviceError(f"{name} cannot be loaded for a launch in clusters")
    cuda, _, handle = loaded  # the module is kept as long as the process, as its kernel may run at any time
    buffer, size = ctypes.create_string_buffer(packed, len(packed)), ctypes.c_size_t(len(packed))
    extra = (ctypes.c_void_p * 5)(BUFFER_POINTER, ctypes.addressof(buffer), BUFFER_SIZE, ctypes.addressof(size), END)
    attribute = _Attribute(CLUSTER_DIMENSION, b"", (ctypes.c_uint * 16)(*launch.cluster))
    three = ctypes.c_uint * 3
    config = _Config(
        three(*launch.grid), three(*launch.block), launch.shared_bytes, stream, ctypes.pointer(attribute), 1
    )
    kept = (buffer, size, attribute)  # what `extra` and `config` point to

    def start(_: object = kept) -> None:
        if status := cuda.cuLaunchKernelEx(ctypes.byref(config), handle, None, extra):
            raise DeviceError(
                f"launching {name} in clusters of {launch.cluster} failed with status {status}: clusters need compute "
                "capability 9.0, at most 8 blocks, and a grid that they divide"
            )

    return start
