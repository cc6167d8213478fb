"""Calls the CUDA driver directly for what PyCUDA lacks: launches with attributes, graphs, context events, settings.

PyCUDA does not give the handles of its functions away either, so the module is loaded once more, in the same context.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import struct
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from warpwatch.catalogue.launches import Launch
from warpwatch.catalogue.tensor_maps import TENSOR_MAP
from warpwatch.catalogue.textures import is_surface
from warpwatch.devices.compile.compiler import compile_file, read_image
from warpwatch.devices.machine import DeviceError

MAX_DYNAMIC_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: CUDA allows 48 KiB without being asked
# CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION and _PROGRAMMATIC_STREAM_SERIALIZATION
COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC = 2, 4, 6
TOO_LARGE = 720  # CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
CAPTURE_OF_THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
ENABLE_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, which cuIpcOpenMemHandle asks for
HANDLE_BYTES = 64  # of a CUipcMemHandle
BUFFER_POINTER, BUFFER_SIZE, END = 1, 2, 0  # CU_LAUNCH_PARAM_BUFFER_POINTER and so on
NOT_READY = 600  # CUDA_ERROR_NOT_READY
FAULTS_OF_KERNELS = range(700, 722)  # from CUDA_ERROR_ILLEGAL_ADDRESS on
LAUNCH_TIME = Path(__file__).with_name("launch_time.cpp")
USED_NOW, USED_AT_MOST = 7, 8  # CU_MEMPOOL_ATTR_USED_MEM_CURRENT and _HIGH
# CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
NOT_INTERLEAVED, L2_PROMOTION, ZEROS_BEYOND = 0, 3, 0
CUDA_ARRAY, LINEAR, PITCHED = 0, 2, 3  # CU_RESOURCE_TYPE_*
DEVICE_MEMORY, ARRAY_MEMORY = 2, 3  # CU_MEMORYTYPE_*
SURFACE_LOAD_STORE = 2  # CUDA_ARRAY3D_SURFACE_LDST
RESOURCE_BYTES, SAMPLING_BYTES = 144, 104  # of CUDA_RESOURCE_DESC and CUDA_TEXTURE_DESC
# Settings of a context that a call may change, in words, by CUlimit.
LIMITS = {
    0: "the stack size of threads",
    1: "the size of printf's buffer",
    2: "the size of malloc's heap",
    3: "the depth of the device runtime",
    4: "the pending launches of the device runtime",
    5: "the granularity of fetches into L2",
    6: "the size of persisting L2",
}
# And of a stream, by CUstreamAttrID.
STREAM_ATTRIBUTES = {1: "the access policy window", 3: "the synchronisation policy", 8: "the priority"}
VALUE_BYTES = 64  # of the union CUstreamAttrValue, the longest value of a setting


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h; its value is a union of 64 bytes."""

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


class _Handle(ctypes.Structure):
    """CUipcMemHandle of cuda.h, which is passed by value."""

    _fields_ = (("reserved", ctypes.c_ubyte * HANDLE_BYTES),)


def _check(status: int, failure: str) -> None:
    if status:
        name = ctypes.c_char_p()
        ctypes.CDLL("libcuda.so.1").cuGetErrorName(status, ctypes.byref(name))
        said = " ".join((name.value or b"").decode(errors="replace").split())
        raise DeviceError(f"{failure}: status {status}{f' ({said})' if said else ''}")


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def reset_persisting_cache() -> None:
    """Make all lines of L2 that were to persist normal ones. Raises DeviceError."""
    _check(_driver().cuCtxResetPersistingL2Cache(), "L2's persisting lines cannot be reset")


def made_tensor_map(described: Any) -> np.generic:
    """Make the tensor map that a declaration describes (catalogue/tensor_maps.py). Raises DeviceError."""
    buffer = ctypes.create_string_buffer(2 * TENSOR_MAP.itemsize)
    place = -(-ctypes.addressof(buffer) // 64) * 64  # the driver writes to a multiple of 64
    two = ctypes.c_uint32 * 2
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(place),
        int(described["element"]),
        2,
        ctypes.c_void_p(int(described["tensor_map"])),
        (ctypes.c_uint64 * 2)(int(described["columns"]), int(described["rows"])),
        (ctypes.c_uint64 * 1)(int(described["row_bytes"])),
        two(int(described["box_columns"]), int(described["box_rows"])),
        two(1, 1),
        NOT_INTERLEAVED,
        int(described["swizzle"]),
        L2_PROMOTION,
        ZEROS_BEYOND,
    )
    _check(status, f"no tensor map can be made of {described}")
    return np.void(ctypes.string_at(place, TENSOR_MAP.itemsize))


class CudaArray:
    """The CUDA array of textures and surfaces, with copies between it and the declared array that they describe."""

    def __init__(self, described: Any, stream: int) -> None:
        """Allocate it. ``described``: one of them (catalogue/textures.py). Raises DeviceError."""
        names = ("texture", "format", "channels", "width", "height", "depth", "row_bytes")
        address, form, channels, width, height, depth, pitch = (int(described[name]) for name in names)
        self.handle, self.is_written, self._stream = ctypes.c_void_p(), False, ctypes.c_void_p(stream)
        description = struct.pack("3Q3i4x", width, height, depth, form, channels, SURFACE_LOAD_STORE)
        status = _driver().cuArray3DCreate_v2(ctypes.byref(self.handle), description)
        shape = " x ".join(str(size) for size in (depth, height, width) if size)
        self._name = f"CUDA array of {shape} elements"
        _check(status, f"no {self._name} with {channels} channels can be made")
        item = {1: 1, 8: 1, 2: 2, 9: 2, 16: 2}.get(form, 4)
        rows = max(height, 1)
        # CUDA_MEMCPY3D: a side is where it begins, its kind of memory, pointers, pitch and height
        own = struct.pack("4QI4x6Q", 0, 0, 0, 0, ARRAY_MEMORY, 0, 0, self.handle.value or 0, 0, 0, 0)
        other = struct.pack("4QI4x6Q", 0, 0, 0, 0, DEVICE_MEMORY, 0, address, 0, 0, pitch, rows)
        extent = struct.pack("3Q", width * channels * item, rows, max(depth, 1))
        self._in, self._out = other + own + extent, own + other + extent

    def fill(self) -> None:
        """Queue the copy of the declared array to this one. Raises DeviceError."""
        self._copy(self._in)

    def give_back(self) -> None:
        """Queue the copy back, where kernels may have written it. Raises DeviceError.

        The fault of a fast kernel may show here already: it is left to who waits for the kernel.
        """
        if self.is_written:
            self._copy(self._out, known=FAULTS_OF_KERNELS)

    def _copy(self, described: bytes, known: Collection[int] = ()) -> None:
        status = _driver().cuMemcpy3DAsync_v2(described, self._stream)
        words = f"the {self._name} cannot be copied from and to its declared array, which must hold all of it"
        _check(0 if status in known else status, words)


def free_array(handle: ctypes.c_void_p) -> None:
    """Give the memory of a CUDA array back."""
    _driver().cuArrayDestroy(handle)


class TextureObject(NamedTuple):
    """A texture or surface object, and the CUDA array that it is of, if it is of one."""

    handle: int
    is_surface: bool = False
    array: CudaArray | None = None


def made_texture(described: Any, array: CudaArray | None = None) -> TextureObject:
    """Make the object that a declaration describes (catalogue/textures.py). Raises DeviceError.

    ``array``: which it is of, where it is not of the declared array's memory.
    """
    names = ("texture", "format", "channels", "width", "height", "row_bytes")
    address, form, channels, width, height, row_bytes = (int(described[name]) for name in names)
    is_matrix, handle = height > 0, ctypes.c_uint64()
    extent = (width, height, row_bytes) if is_matrix else (row_bytes, 0, 0)
    # CUDA_RESOURCE_DESC of an array, of pitched or linear memory, CUDA_TEXTURE_DESC
    resource = struct.pack("I4xQiiQQQ", PITCHED if is_matrix else LINEAR, address, form, channels, *extent)
    if array:
        resource = struct.pack("I4xQ", CUDA_ARRAY, array.handle.value)
    resource = resource.ljust(RESOURCE_BYTES, b"\0")
    if is_surface(described):
        _check(_driver().cuSurfObjectCreate(ctypes.byref(handle), resource), "no surface can be made")
        return TextureObject(handle.value, True, array)
    sampling = struct.pack("5i", *(int(described["beyond"]),) * 3, int(described["filter"]), int(described["flags"]))
    status = _driver().cuTexObjectCreate(ctypes.byref(handle), resource, sampling.ljust(SAMPLING_BYTES, b"\0"), None)
    size = f"{height:,} rows of {row_bytes:,}" if is_matrix else f"{row_bytes:,}"
    _check(status, f"no texture can be made of {size} bytes at {address:#x}, all of which its array must hold")
    return TextureObject(handle.value, array=array)


def free_textures(objects: Sequence[TextureObject]) -> None:
    """Destroy texture and surface objects; those of a context that has ended are gone already."""
    for each in objects:
        destroy = _driver().cuSurfObjectDestroy if each.is_surface else _driver().cuTexObjectDestroy
        destroy(ctypes.c_uint64(each.handle))


class Module:
    """A compiled file that is loaded a second time, for what PyCUDA cannot do; its variables are its own."""

    def __init__(self, image: Path, kernel: str) -> None:
        """Load a file that has this kernel. Raises DeviceError."""
        self._cuda, self._handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        _check(
            self._cuda.cuModuleLoadData(ctypes.byref(self._handle), read_image(image)),
            f"{kernel} cannot be loaded again",
        )

    def function(self, name: str) -> ctypes.c_void_p:
        """Return the handle of a kernel. Raises DeviceError."""
        kernel = ctypes.c_void_p()
        _check(
            self._cuda.cuModuleGetFunction(ctypes.byref(kernel), self._handle, name.encode()),
            f"{name} cannot be loaded again",
        )
        return kernel

    def variable(self, name: str) -> int:
        """Return the address of a __device__ or __constant__ variable. Raises DeviceError."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        _check(
            self._cuda.cuModuleGetGlobal_v2(ctypes.byref(address), ctypes.byref(size), self._handle, name.encode()),
            f"the variable {name} of the module that is loaded again cannot be set",
        )
        return address.value

    def launcher(self, name: str, launch: Launch, stream: int, packed: bytes) -> Callable[[], None]:
        """Return a function that launches a kernel, also with attributes. Raises DeviceError."""
        cuda, arguments, failed = self._cuda, *self._prepare(name, launch, stream, packed)

        def start() -> None:
            if status := cuda.cuLaunchKernelEx(*arguments):
                raise failed(status)

        return start

    def timed_launcher(self, name: str, launch: Launch, stream: int, packed: bytes) -> Callable[[], float]:
        """Return a function that launches a kernel and returns the seconds of the driver's call. Raises as above."""
        call, arguments, failed = self._cuda.cuLaunchKernelEx, *self._prepare(name, launch, stream, packed)
        clock, status = ctypes.CDLL(str(compile_file(LAUNCH_TIME, {}, None).path)), ctypes.c_int()
        clock.launch_seconds.restype = ctypes.c_double

        def start() -> float:
            seconds: float = clock.launch_seconds(call, *arguments, ctypes.byref(status))
            if status.value:
                raise failed(status.value)
            return seconds

        return start

    def _prepare(
        self, name: str, launch: Launch, stream: int, packed: bytes
    ) -> tuple[tuple[Any, ...], Callable[[int], DeviceError]]:
        """Return the arguments of cuLaunchKernelEx, and what makes an error of its status."""
        kernel = self.function(name)
        ways = {"cooperatively": launch.cooperative, "programmatically": launch.programmatic}
        ways[f"in clusters of {launch.cluster}"] = launch.cluster != (1, 1, 1)
        how = "".join(f" {words}" for words, is_so in ways.items() if is_so)
        _check(
            self._cuda.cuFuncSetAttribute(kernel, MAX_DYNAMIC_SHARED_BYTES, launch.shared_bytes),
            f"{name} cannot be prepared for a launch{how}",
        )
        buffer, size = ctypes.create_string_buffer(packed, len(packed)), ctypes.c_size_t(len(packed))
        places = (BUFFER_POINTER, ctypes.addressof(buffer), BUFFER_SIZE, ctypes.addressof(size), END)
        extra = (ctypes.c_void_p * 5)(*places)
        values = [(CLUSTER_DIMENSION, launch.cluster)] if launch.cluster != (1, 1, 1) else []
        values += [(COOPERATIVE, (1, 0, 0))] if launch.cooperative else []
        values += [(PROGRAMMATIC, (1, 0, 0))] if launch.programmatic else []
        attributes = (_Attribute * len(values))(*(_Attribute(i, b"", (ctypes.c_uint * 16)(*v)) for i, v in values))
        three = ctypes.c_uint * 3
        config = _Config(
            three(*launch.grid), three(*launch.block), launch.shared_bytes, stream, attributes, len(values)
        )
        kept = (buffer, size, attributes)  # what `extra` and `config` point to

        def failed(status: int, _: object = kept) -> DeviceError:
            return DeviceError(f"launching {name}{how} failed with status {status}{_needs(launch, status)}")

        return (ctypes.byref(config), kernel, None, extra), failed

    def unload(self) -> None:
        self._cuda.cuModuleUnload(self._handle)


def _needs(launch: Launch, status: int) -> str:
    """Say what a launch that failed needs, as the end of a sentence."""
    if status == TOO_LARGE:
        blocks = math.prod(launch.grid)
        return f": its {blocks:,} blocks must all run at the same time, and there is no room for them: launch fewer"
    if launch.cooperative:
        return ": the kernel needs as many threads as its block has, and all blocks at the same time"
    if launch.programmatic:
        return ": a programmatic launch needs compute capability 9.0"
    clusters = ": clusters need compute capability 9.0, at most 8 blocks, and a grid that they divide"
    return clusters * (launch.cluster != (1, 1, 1))


def resident_blocks(image: Path, name: str, launch: Launch) -> int | None:
    """Return how many blocks of a kernel a multiprocessor holds at once, or None where that is unknown."""
    cuda, blocks, shared = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_size_t(launch.shared_bytes)
    with contextlib.suppress(DeviceError):
        module = Module(image, name)
        try:
            _check(
                cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    ctypes.byref(blocks), module.function(name), math.prod(launch.block), shared
                ),
                f"the occupancy of {name} is unknown",
            )
            return blocks.value
        finally:
            module.unload()
    return None


def allocation_of(address: int) -> tuple[int, int]:
    """Return address and size in bytes of the allocation that an address belongs to. Raises DeviceError."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    status = ctypes.CDLL("libcuda.so.1").cuMemGetAddressRange_v2(
        ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)
    )
    _check(status, "the allocation of an address is unknown")
    return base.value, size.value


def handle_of(address: int) -> bytes:
    """Return the handle by which another process opens the memory at ``address``. Raises DeviceError.

    On a GPU it opens the whole pages of 2 MB that the memory lies in, with whatever else lies there.
    """
    handle = _Handle()
    status = ctypes.CDLL("libcuda.so.1").cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(address))
    _check(status, "memory cannot be shared with another process (cuIpcGetMemHandle)")
    return bytes(handle.reserved)


def open_handle(handle: bytes) -> int:
    """Return the address, in this process, of the memory of another one's handle. Raises DeviceError."""
    if len(handle) != HANDLE_BYTES:
        raise DeviceError(f"a handle of shared memory has {HANDLE_BYTES} bytes, not {len(handle)}")
    address, given = ctypes.c_uint64(), _Handle((ctypes.c_ubyte * HANDLE_BYTES)(*handle))
    status = ctypes.CDLL("libcuda.so.1").cuIpcOpenMemHandle_v2(
        ctypes.byref(address), given, ctypes.c_uint(ENABLE_PEER_ACCESS)
    )
    _check(status, "memory of another process cannot be opened (cuIpcOpenMemHandle)")
    return address.value


def close_handle(address: int) -> None:
    """Close memory that ``open_handle`` has opened. Raises DeviceError."""
    status = ctypes.CDLL("libcuda.so.1").cuIpcCloseMemHandle(ctypes.c_uint64(address))
    _check(status, "memory of another process cannot be closed (cuIpcCloseMemHandle)")


class Graph:
    """A CUDA graph of recorded launches."""

    def __init__(self, stream: int, starts: Sequence[Callable[[], None]]) -> None:
        """Record what functions queue on a stream, which does not run meanwhile. Raises DeviceError."""
        self._cuda, self._stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(stream)
        self._graph, self._ready = ctypes.c_void_p(), ctypes.c_void_p()
        failure = "launches cannot be recorded in a graph"
        _check(self._cuda.cuStreamBeginCapture_v2(self._stream, CAPTURE_OF_THIS_THREAD), failure)
        try:
            for start in starts:
                start()
        finally:
            status = self._cuda.cuStreamEndCapture(self._stream, ctypes.byref(self._graph))
        no_flags = ctypes.c_ulonglong(0)
        _check(
            status or self._cuda.cuGraphInstantiateWithFlags(ctypes.byref(self._ready), self._graph, no_flags), failure
        )

    def launch(self) -> None:
        """Queue all of them on the stream that they were recorded on. Raises DeviceError."""
        _check(self._cuda.cuGraphLaunch(self._ready, self._stream), "a graph of launches cannot be launched")

    def destroy(self) -> None:
        """Give its memory back, when the last of its launches has ended."""
        self._cuda.cuGraphExecDestroy(self._ready)
        self._cuda.cuGraphDestroy(self._graph)


class Event:
    """An event of the driver whose handle is known: PyCUDA keeps those of its own to itself."""

    def __init__(self) -> None:
        """Make the event. Raises DeviceError."""
        self._cuda, self.handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        _check(self._cuda.cuEventCreate(ctypes.byref(self.handle), 0), "an event cannot be made")

    def record(self, stream: int) -> None:
        """Let it come after what was queued on a stream. Raises DeviceError."""
        _check(self._cuda.cuEventRecord(self.handle, ctypes.c_void_p(stream)), "an event cannot be recorded")

    def record_context(self) -> None:
        """Let it come after all that was queued in the current context, on whatever stream. Raises DeviceError."""
        status = self._cuda.cuCtxRecordEvent(current_context(), self.handle)
        _check(status, "an event of the context cannot be recorded")

    def hold_context(self) -> None:
        """Let all that is queued in the current context from now on come after it. Raises DeviceError."""
        _check(self._cuda.cuCtxWaitEvent(current_context(), self.handle), "the context cannot wait for an event")

    def is_done(self) -> bool:
        """Return whether the GPU has come to it. Raises DeviceError."""
        status = self._cuda.cuEventQuery(self.handle)
        _check(status if status != NOT_READY else 0, "the kernel failed")
        return bool(status == 0)

    def seconds_since(self, start: Event) -> float:
        """Return the seconds from another event, both of which the GPU has come to. Raises DeviceError."""
        milliseconds = ctypes.c_float()
        status = self._cuda.cuEventElapsedTime(ctypes.byref(milliseconds), start.handle, self.handle)
        _check(status, "an event cannot be read")
        return milliseconds.value * 1e-3


class Pool:
    """Memory pool of the current device, from which the driver allocates in the order of a stream."""

    def __init__(self) -> None:
        """Find the pool. Raises DeviceError, and AttributeError where the driver has none."""
        device, self._pool = ctypes.c_int(), ctypes.c_void_p()
        _check(_driver().cuCtxGetDevice(ctypes.byref(device)), "the current device is unknown")
        _check(_driver().cuDeviceGetMemPool(ctypes.byref(self._pool), device), "there is no memory pool")

    def used(self, attribute: int) -> int:
        """Return the bytes in use: USED_NOW, or USED_AT_MOST since ``forget``. Raises DeviceError."""
        value = ctypes.c_uint64()
        status = _driver().cuMemPoolGetAttribute(self._pool, attribute, ctypes.byref(value))
        _check(status, "the use of a memory pool is unknown")
        return value.value

    def forget(self) -> None:
        """Let the most that was in use be what is in use now. Raises DeviceError."""
        zero = ctypes.c_uint64()
        status = _driver().cuMemPoolSetAttribute(self._pool, USED_AT_MOST, ctypes.byref(zero))
        _check(status, "the use of a memory pool cannot be counted anew")


@functools.cache
def has_context_events() -> bool:
    """Tell whether the driver has events of the whole current context: that of CUDA 12.5 and newer does."""
    event = Event()
    try:
        event.record_context()
        event.hold_context()
    except (AttributeError, DeviceError):
        return False
    return True


def current_context() -> ctypes.c_void_p:
    """Return the handle of this thread's current context, null where there is none."""
    context = ctypes.c_void_p()
    _driver().cuCtxGetCurrent(ctypes.byref(context))  # after each launch of a call: to load the library takes 10 µs
    return context


def make_current(context: ctypes.c_void_p) -> None:
    """Make a context the current one of this thread again, without those above it. Raises DeviceError."""
    cuda = ctypes.CDLL("libcuda.so.1")
    while (now := current_context().value) and now != context.value:
        _check(cuda.cuCtxPopCurrent_v2(None), "a context cannot be left")
    if not now:
        _check(cuda.cuCtxPushCurrent_v2(context), "the context cannot be made current")


class Setting:
    """A setting of the current context or of a stream, which a call may change. ``words``: what it is called."""

    def __init__(self, words: str, name: str, *keys: Any, before: bool) -> None:
        """``name``: of the driver's function without Get. ``before``: it takes the keys before the value."""
        cuda = ctypes.CDLL("libcuda.so.1")
        self.words, self._keys, self._before = words, keys, before
        get, write = (getattr(cuda, name.format(word), None) for word in ("Get", "Set"))
        self._get: Callable[..., int] | None = get
        self._set: Callable[..., int] | None = write

    def read(self) -> bytes | None:
        """Return its value; None where the driver does not know it."""
        value = ctypes.create_string_buffer(VALUE_BYTES)
        keys, place = self._keys, ctypes.byref(value)
        known = self._get is not None and self._get(*((*keys, place) if self._before else (place, *keys))) == 0
        return value.raw if known else None

    def write(self, value: bytes) -> None:
        """Write a value that was read. What the driver refuses stays as it is."""
        assert self._set is not None
        if self._before:
            self._set(*self._keys, value)
        else:
            self._set(*self._keys, ctypes.c_size_t.from_buffer_copy(value))


def settings(stream: int) -> tuple[Setting, ...]:
    """Return the settings of the current context and of a stream."""
    queue = ctypes.c_void_p(stream)
    return (
        *(Setting(words, "cuCtx{}Limit", limit, before=False) for limit, words in LIMITS.items()),
        Setting("the cache configuration", "cuCtx{}CacheConfig", before=False),
        Setting("the bank size of shared memory", "cuCtx{}SharedMemConfig", before=False),  # deprecated
        *(
            Setting(f"{words} of the stream", "cuStream{}Attribute", queue, attribute, before=True)
            for attribute, words in STREAM_ATTRIBUTES.items()
        ),
    )


def notes(function: str) -> tuple[str, ...]:
    """Return what a function of the software device's library says: texts that each end in a zero, and an empty one."""
    say = getattr(_driver(), function)
    say.restype = ctypes.c_void_p
    texts, address = list[str](), say()
    while text := ctypes.string_at(address):
        texts.append(text.decode(errors="replace"))
        address += len(text) + 1
    return tuple(texts)
