"""Makes CUDA arrays, textures and surfaces by the driver's own calls, because PyCUDA has texture references alone."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.devices.worker import gpu

FORMATS = {"uint8": 1, "uint16": 2, "uint32": 3, "int8": 8, "int16": 9, "int32": 10, "float16": 16, "float32": 32}
WRAP, CLAMP, MIRROR, BORDER = range(4)
READ_AS_INTEGER, NORMALIZED = 1, 2
LAYERED, SURFACE, CUBEMAP, GATHER = 1, 2, 4, 8
HOST, DEVICE, ARRAY = 1, 2, 3


@dataclass(frozen=True, kw_only=True)
class Texture:
    """A texture to be made.

    ``values``: of the shape (depth, height, width, channels), (height, width, channels) or (width, channels), or with
    layers in place of the first of them. ``memory``: "array", "linear" or "pitch2D".
    """

    values: np.ndarray
    memory: str = "array"
    linear: bool = False
    modes: tuple[int, int, int] = (CLAMP, CLAMP, CLAMP)
    flags: int = 0
    border: tuple[float, float, float, float] = (0, 0, 0, 0)
    array_flags: int = 0


class CudaError(Exception):
    """The driver answered a call with an error code."""


class Driver:
    """The driver library, whose functions raise CudaError in place of an answer."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            if code := getattr(self.library, name)(*arguments):
                text = ctypes.c_char_p()
                self.library.cuGetErrorString(code, ctypes.byref(text))
                raise CudaError(f"{name}: {code}: {(text.value or b'').decode()}")

        return call

    def allocate(self, size: int) -> ctypes.c_uint64:
        memory = ctypes.c_uint64()
        self.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size))
        return memory

    def upload(self, values: np.ndarray) -> ctypes.c_uint64:
        values = np.ascontiguousarray(values)
        memory = self.allocate(values.nbytes)
        self.cuMemcpyHtoD_v2(memory, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes))
        return memory

    def array(self, values: np.ndarray, flags: int = 0) -> ctypes.c_void_p:
        """An array that holds these values; of which layered ones, and cubemaps, have an axis for the layers first."""
        made = self.empty_array(values, flags)
        self.copy_array(values, made, to_array=True)
        return made

    def empty_array(self, values: np.ndarray, flags: int = 0) -> ctypes.c_void_p:
        """An array of the shape and type of these values."""
        made = ctypes.c_void_p()
        *outer, width, channels = values.shape
        sizes = [width, *reversed(outer)]
        layers = sizes.pop() if flags & (LAYERED | CUBEMAP) else 0
        height, depth = [*sizes[1:], 0, 0][:2]
        format_ = FORMATS[values.dtype.name]
        self.cuArray3DCreate_v2(
            ctypes.byref(made), struct.pack("3Q3I4x", width, height, layers or depth, format_, channels, flags)
        )
        return made

    def copy_array(self, values: np.ndarray, array: ctypes.c_void_p, to_array: bool) -> None:
        """Copy between all of an array and values of its shape, which lie in one piece."""
        described = np.zeros(5, np.uint64)
        self.cuArray3DGetDescriptor_v2(described.ctypes.data_as(ctypes.c_void_p), array)
        rows, slices = (max(int(extent), 1) for extent in described[1:3])
        row = values.nbytes // (rows * slices)
        host = (0, 0, 0, 0, HOST, values.ctypes.data, 0, 0, 0, row, rows)
        sides = [host, (0, 0, 0, 0, ARRAY, 0, 0, array.value, 0, 0, 0)]
        first, second = sides if to_array else reversed(sides)
        self.cuMemcpy3D_v2(struct.pack("4QI4x4Q2Q" * 2 + "3Q", *first, *second, row, rows, slices))

    def resource(self, texture: Texture) -> bytes:
        """A CUDA_RESOURCE_DESC of new memory that holds the texture's values."""
        values = np.ascontiguousarray(texture.values)
        format_, channels = FORMATS[values.dtype.name], values.shape[-1]
        if texture.memory == "array":
            return struct.pack("I4xP", 0, self.array(values, texture.array_flags).value).ljust(144, b"\0")
        if texture.memory == "linear":
            made = struct.pack("I4xQIIQ", 2, self.upload(values).value, format_, channels, values.nbytes)
            return made.ljust(144, b"\0")
        height, width = values.shape[:2]
        pitch = (width * channels * values.dtype.itemsize + 511) // 512 * 512
        rows = np.zeros((height, pitch), np.uint8)
        rows[:, : values.nbytes // height] = values.view(np.uint8).reshape(height, -1)
        made = struct.pack("I4xQIIQQQ", 3, self.upload(rows).value, format_, channels, width, height, pitch)
        return made.ljust(144, b"\0")

    def texture(self, texture: Texture, resource: bytes = b"") -> ctypes.c_uint64:
        """A texture object, of new memory or of a resource that there is already."""
        described = struct.pack("3IIIII3f4f12I", *texture.modes, int(texture.linear), texture.flags, 0, 0,
                                0, 0, 0, *texture.border, *(0,) * 12)  # fmt: skip
        made = ctypes.c_uint64()
        self.cuTexObjectCreate(ctypes.byref(made), resource or self.resource(texture), described, None)
        return made

    def surface(self, array: ctypes.c_void_p) -> ctypes.c_uint64:
        made = ctypes.c_uint64()
        self.cuSurfObjectCreate(ctypes.byref(made), struct.pack("I4xP", 0, array.value).ljust(144, b"\0"))
        return made

    def function(self, image: Path, entry: str) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuModuleLoad(ctypes.byref(module), str(image).encode())
        self.cuModuleGetFunction(ctypes.byref(function), module, entry.encode())
        return function

    def launch(self, function: ctypes.c_void_p, threads: int, *arguments: Any) -> None:
        """Run a kernel with blocks of 64 threads."""
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
        self.cuLaunchKernel(function, -(-threads // 64), 1, 1, min(64, threads), 1, 1, 0, None, pointers, None)

    def download(self, memory: ctypes.c_uint64, values: np.ndarray) -> np.ndarray:
        """Fill an array from the device's memory."""
        self.cuMemcpyDtoH_v2(values.ctypes.data_as(ctypes.c_void_p), memory, ctypes.c_size_t(values.nbytes))
        return values


def in_a_context(call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call answers in a context of its own, where a fault of it spoils nothing; or what the driver says."""
    gpu()
    driver, context = Driver(), ctypes.c_void_p()
    driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    try:
        return call(driver, *arguments)
    except CudaError as error:
        return str(error)
    finally:
        driver.cuCtxDestroy_v2(context)


def fetched(driver: Driver, image: Path, entry: str, texture: Texture, coordinates: np.ndarray) -> np.ndarray:
    """What a kernel of kernels.cu fetches at coordinates of the shape (3, n): four words each, as float32."""
    made, count = driver.texture(texture), coordinates.shape[1]
    given, left = driver.upload(coordinates.astype(np.float32)), driver.allocate(16 * count)
    driver.launch(driver.function(image, entry), count, made, given, ctypes.c_int(count), left)
    result = driver.download(left, np.zeros((count, 4), np.float32))
    driver.cuTexObjectDestroy(made)
    return result


def many_fetched(driver: Driver, image: Path, asked: list[tuple[str, Texture, np.ndarray]]) -> list[np.ndarray]:
    """What ``fetched`` answers for each of several."""
    return [fetched(driver, image, *each) for each in asked]


def surface_launch(
    driver: Driver, image: Path, entry: str, values: np.ndarray, first: int, mode: int, flags: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel of surfaces.cu of 64 threads leaves in its result, and in an array that held these values."""
    array = driver.array(np.ascontiguousarray(values), flags | SURFACE)
    surface, left = driver.surface(array), driver.upload(np.full(64, -1, np.float32))
    driver.launch(driver.function(image, entry), 64, surface, ctypes.c_int(first), ctypes.c_int(mode), left)
    result, after = driver.download(left, np.zeros(64, np.float32)), np.zeros_like(values)
    driver.copy_array(after, array, to_array=False)
    driver.cuSurfObjectDestroy(surface)
    driver.cuArrayDestroy(array)
    return result, after
