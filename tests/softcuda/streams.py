"""Does work of several streams, with and without what orders it, for tests/softcuda/test_streams.py, which says what.

Run as a program, in a process of its own: it makes softcuda the process's CUDA device, reads cases as JSON, and prints
what was found in each; an empty text where nothing was. A case is Python in the words of ``Device``, and has a context
of its own.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import softcuda

if __name__ == "__main__":
    softcuda.activate(checks=True)

from pycuda import driver
from pycuda.compiler import compile as compile_source

from warpwatch.devices.driver_calls import PROGRAMMATIC, _Attribute, _Config

PER_THREAD = 2  # CU_STREAM_PER_THREAD
NOT_READY = 600  # CUDA_ERROR_NOT_READY
FREED = 1  # CUDA_ERROR_INVALID_VALUE, of memory that is no more
HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Event:
    """An event of the driver, whose handle is known: PyCUDA keeps those of its own to itself."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        _call("cuEventCreate", ctypes.byref(self.handle), 0)

    def record(self, stream: Any) -> Event:
        _call("cuEventRecord", self.handle, ctypes.c_void_p(stream.handle))
        return self

    def record_context(self) -> Event:
        _call("cuCtxRecordEvent", _context(), self.handle)
        return self

    def query(self) -> bool:
        code = ctypes.CDLL("libcuda.so.1").cuEventQuery(self.handle)
        assert code in (0, NOT_READY)
        return bool(code == 0)

    def synchronize(self) -> None:
        _call("cuEventSynchronize", self.handle)

    def seconds_since(self, start: Event) -> float:
        milliseconds = ctypes.c_float()
        _call("cuEventElapsedTime", ctypes.byref(milliseconds), start.handle, self.handle)
        return milliseconds.value / 1e3


def _call(name: str, *arguments: Any) -> None:
    code = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    assert code == 0, f"{name} failed: {code}"


def _context() -> ctypes.c_void_p:
    context = ctypes.c_void_p()
    ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context))
    return context


class Device:
    """Streams a, b and c, which wait for no other, arrays p, q and r that have been written, and what can be done."""

    COUNT = 256  # elements of an array
    BYTES = 4 * COUNT
    LARGE = 32 << 20  # bytes, twice what the checker remembers in full

    def __init__(self, image: bytes) -> None:
        self._image, self._module = image, driver.module_from_buffer(image)
        self._functions: list[Any] = []  # of the host, kept for as long as they may be called
        self.a, self.b, self.c = (self.stream() for _ in range(3))
        self.p, self.q, self.r = (self.array() for _ in range(3))
        self.wait_for_all()

    def words(self) -> dict[str, Any]:
        """Return what the text of a case may name."""
        return {name: getattr(self, name) for name in dir(self) if not name.startswith("_")} | {"Event": Event}

    def stream(self) -> Any:
        return driver.Stream(1)

    def blocking(self) -> Any:
        """Return a stream that waits for the default stream."""
        return driver.Stream(0)

    def array(self, size: int = BYTES) -> Any:
        memory = driver.mem_alloc(size)
        driver.memset_d8(memory, 0, size)
        self.wait_for_all()
        return memory

    def pinned(self, mapped: bool = False) -> Any:
        flags = driver.host_alloc_flags.DEVICEMAP if mapped else 0
        return driver.pagelocked_zeros(self.COUNT, np.int32, mem_flags=flags)

    def address_of(self, mapped: Any) -> Any:
        return np.intp(mapped.base.get_device_pointer())

    def ones(self, count: int = COUNT) -> Any:
        return np.ones(count, np.int32)

    # Work. Without a stream it is that of the default stream.

    def run(self, name: str, stream: Any, *arguments: Any, blocks: int = 1) -> None:
        kernel = self._module.get_function(name)
        is_number = [isinstance(argument, int) and argument < 1 << 31 for argument in arguments]
        kernel.prepare("".join("i" if each else "P" for each in is_number))
        kernel.prepared_async_call((blocks, 1), (self.COUNT, 1, 1), stream, *arguments)

    def write(self, stream: Any, to: Any, first: int = 0) -> None:
        self.run("produce", stream, to, first)

    def copy(self, stream: Any, to: Any, source: Any) -> None:
        self.run("consume", stream, to, source)

    def _function(self, name: str) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuModuleLoadData", ctypes.byref(module), self._image)
        _call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def early(self, name: str, stream: Any, *arguments: Any, blocks: int = 1) -> None:
        """Let a kernel begin before the one before it in its stream has ended."""
        values = (ctypes.c_uint64 * len(arguments))(*map(int, arguments))
        size = ctypes.sizeof(ctypes.c_uint64)
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(values) + i * size for i in range(len(values))))
        attribute = _Attribute(PROGRAMMATIC, b"", (ctypes.c_uint * 16)(1))
        three = ctypes.c_uint * 3
        config = _Config(three(blocks, 1, 1), three(self.COUNT, 1, 1), 0, stream.handle, ctypes.pointer(attribute), 1)
        _call("cuLaunchKernelEx", ctypes.byref(config), self._function(name), pointers, None)

    def write_per_thread(self, to: Any) -> None:
        """Write in the default stream of this thread."""
        values = (ctypes.c_uint64(int(to)), ctypes.c_int(0))
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(PER_THREAD)
        _call("cuLaunchKernel", self._function("produce"), 1, 1, 1, self.COUNT, 1, 1, 0, stream, pointers, None)

    def fill(self, to: Any, *stream: Any) -> None:
        (driver.memset_d32_async if stream else driver.memset_d32)(to, 1, self.COUNT, *stream)

    def copy_memory(self, to: Any, source: Any, *stream: Any) -> None:
        (driver.memcpy_dtod_async if stream else driver.memcpy_dtod)(to, source, self.BYTES, *stream)

    def upload(self, to: Any, values: Any, *stream: Any) -> None:
        (driver.memcpy_htod_async if stream else driver.memcpy_htod)(to, values, *stream)

    def download(self, values: Any, source: Any, *stream: Any) -> None:
        (driver.memcpy_dtoh_async if stream else driver.memcpy_dtoh)(values, source, *stream)

    def host(self, stream: Any, function: Callable[[], Any]) -> None:
        """Let the host call a function in a stream."""
        self._functions.append(HostFunction(lambda _: function() and None))
        _call("cuLaunchHostFunc", ctypes.c_void_p(stream.handle), self._functions[-1], None)

    def taken(self, stream: Any) -> int:
        address, size = ctypes.c_uint64(), ctypes.c_size_t(self.BYTES)
        _call("cuMemAllocAsync", ctypes.byref(address), size, ctypes.c_void_p(stream.handle))
        return address.value

    def give(self, address: int, stream: Any) -> None:
        _call("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream.handle))

    def free_beside_copies(self, stream: Any, count: int) -> None:
        """Free arrays as soon as they are made, while a thread copies to the last of them."""
        context, size, source = _context(), ctypes.c_size_t(self.BYTES), ctypes.c_uint64(int(self.p))
        addresses, ended = [int(self.q)], threading.Event()

        def copy() -> None:
            library = ctypes.CDLL("libcuda.so.1")
            library.cuCtxSetCurrent(context)
            while not ended.is_set():
                to = ctypes.c_uint64(addresses[-1])
                assert library.cuMemcpyDtoDAsync_v2(to, source, size, ctypes.c_void_p(stream.handle)) in (0, FREED)
                time.sleep(1e-5)

        thread = threading.Thread(target=copy)
        thread.start()
        for _ in range(count):
            address = ctypes.c_uint64()
            _call("cuMemAlloc_v2", ctypes.byref(address), size)
            addresses.append(address.value)
            _call("cuMemFree_v2", address)
        ended.set()
        thread.join()

    def graph(self, stream: Any, queue: Callable[[], None]) -> Any:
        """Return what launches on a stream what ``queue`` queues in this one."""
        handle, graph, executable = ctypes.c_void_p(stream.handle), ctypes.c_void_p(), ctypes.c_void_p()
        _call("cuStreamBeginCapture_v2", handle, 0)
        queue()
        _call("cuStreamEndCapture", handle, ctypes.byref(graph))
        _call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
        return lambda on: _call("cuGraphLaunch", executable, ctypes.c_void_p(on.handle))

    def symbol(self, name: str) -> int:
        return int(self._module.get_global(name)[0])

    # What orders it.

    def event(self, *stream: Any) -> Any:
        """Return an event, recorded if a stream is given."""
        event = driver.Event()
        return event.record(*stream) if stream else event

    def wait(self, stream: Any, event: Any) -> None:
        if isinstance(event, Event):
            _call("cuStreamWaitEvent", ctypes.c_void_p(stream.handle), event.handle, 0)
        else:
            stream.wait_for_event(event)

    def context_event(self) -> Any:
        """Return an event that comes after all that is queued in the context."""
        return Event().record_context()

    def let_context_wait(self, stream: Any) -> None:
        """Let all that is queued from now on come after what a stream was given."""
        _call("cuCtxWaitEvent", _context(), Event().record(stream).handle)

    def wait_for_all(self) -> None:
        driver.Context.synchronize()

    def until(self, is_done: Callable[[], Any]) -> None:
        end = time.monotonic() + 30
        while not is_done():
            assert time.monotonic() < end
            time.sleep(0.001)


def found(case: str, image: bytes) -> str:
    context = driver.Device(0).make_context()
    try:
        device = Device(image)
        exec(case, device.words())
        device.wait_for_all()
    except driver.Error as error:
        return str(error)
    finally:
        context.pop()
    return ""


def main() -> None:
    driver.init()
    path = Path(__file__).with_suffix(".cu")
    context = driver.Device(0).make_context()
    image = compile_source(path.read_text(), no_extern_c=True, options=["-I", str(path.parent)])
    context.pop()
    print(json.dumps([found(case, image) for case in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
