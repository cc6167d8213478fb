"""Work of several streams, with and without what orders it, for tests/softcuda/test_streams.py.

Run as a program, in a process of its own: it makes softcuda the process's CUDA device, and prints what was found in
each case as JSON; an empty text where nothing was. Each case has a context of its own.
"""

from __future__ import annotations

import ctypes
import functools
import json
import sys
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

COUNT = 256
BYTES = 4 * COUNT
LARGE = 32 << 20  # bytes, twice what the checker remembers in full
BLOCKING, NON_BLOCKING = 0, 1
PER_THREAD = 2  # CU_STREAM_PER_THREAD
HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

Case = Callable[["Device"], Any]
WRONG: dict[str, Case] = {}
RIGHT: dict[str, Case] = {}


def wrong(case: Case) -> Case:
    WRONG[case.__name__] = case
    return case


def right(case: Case) -> Case:
    RIGHT[case.__name__] = case
    return case


class Device:
    """Three streams, arrays that have been written, and calls that PyCUDA does not have."""

    def __init__(self, image: bytes) -> None:
        self.image, self.module = image, driver.module_from_buffer(image)
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.a, self.b, self.c = (driver.Stream(NON_BLOCKING) for _ in range(3))
        self.p, self.q, self.r = (self.array() for _ in range(3))
        self.functions: list[Any] = []  # of the host, kept for as long as they may be called
        driver.Context.synchronize()

    def array(self, size: int = BYTES) -> Any:
        memory = driver.mem_alloc(size)
        driver.memset_d8(memory, 0, size)
        driver.Context.synchronize()
        return memory

    def pinned(self) -> Any:
        return driver.pagelocked_zeros(COUNT, np.int32)

    def run(self, name: str, stream: Any, *arguments: Any, blocks: int = 1) -> None:
        kernel = self.module.get_function(name)
        kernel.prepare(
            "".join("i" if isinstance(argument, int) and argument < 1 << 31 else "P" for argument in arguments)
        )
        kernel.prepared_async_call((blocks, 1), (COUNT, 1, 1), stream, *arguments)

    def write(self, stream: Any, to: Any, first: int = 0) -> None:
        self.run("produce", stream, to, first)

    def copy(self, stream: Any, to: Any, source: Any) -> None:
        self.run("consume", stream, to, source)

    def event(self, stream: Any) -> Any:
        event = driver.Event()
        event.record(stream)
        return event

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.cuda, name)(*arguments)
        assert code == 0, f"{name} failed: {code}"

    def host(self, stream: Any, function: Callable[[], Any]) -> None:
        self.functions.append(HostFunction(lambda _: function() and None))
        self.call("cuLaunchHostFunc", ctypes.c_void_p(stream.handle), self.functions[-1], None)

    def taken(self, stream: Any) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(BYTES), ctypes.c_void_p(stream.handle))
        return address.value

    def give(self, address: int, stream: Any) -> None:
        self.call("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream.handle))

    def graph(self, stream: Any, queue: Callable[[], None]) -> Any:
        """Return what launches on a stream what ``queue`` queues in this one."""
        handle, graph, executable = ctypes.c_void_p(stream.handle), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", handle, 0)
        queue()
        self.call("cuStreamEndCapture", handle, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
        return lambda on: self.call("cuGraphLaunch", executable, ctypes.c_void_p(on.handle))

    def symbol(self, name: str) -> int:
        return int(self.module.get_global(name)[0])


def until(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.001)


# Kernels of two streams.


@wrong
def kernel_reads_what_another_stream_writes(d: Device) -> None:
    d.write(d.a, d.p)
    d.copy(d.b, d.q, d.p)


@right
def kernel_waits_for_the_event_of_the_writer(d: Device) -> None:
    d.write(d.a, d.p)
    d.b.wait_for_event(d.event(d.a))
    d.copy(d.b, d.q, d.p)


@right
def kernels_of_one_stream(d: Device) -> None:
    d.write(d.a, d.p)
    d.copy(d.a, d.q, d.p)
    d.write(d.a, d.p)


@wrong
def kernel_writes_what_another_stream_reads(d: Device) -> None:
    d.copy(d.a, d.q, d.p)
    d.write(d.b, d.p)


@wrong
def two_streams_write(d: Device) -> None:
    d.write(d.a, d.p)
    d.write(d.b, d.p)


@right
def two_streams_read(d: Device) -> None:
    d.copy(d.a, d.q, d.p)
    d.copy(d.b, d.r, d.p)


@right
def two_streams_count_atomically(d: Device) -> None:
    d.run("count", d.a, d.p)
    d.run("count", d.b, d.p)


@wrong
def counter_is_read_beside_its_atomics(d: Device) -> None:
    d.run("count", d.a, d.p)
    d.copy(d.b, d.q, d.p)


@right
def halves_of_one_array(d: Device) -> None:
    both = d.array(2 * BYTES)
    d.write(d.a, both)
    d.write(d.b, both, COUNT)


@wrong
def halves_that_share_an_element(d: Device) -> None:
    both = d.array(2 * BYTES)
    d.write(d.a, both)
    d.write(d.b, both, COUNT - 1)


@right
def bytes_of_one_word(d: Device) -> None:
    d.run("fill_bytes", d.a, d.p, 0, 101)
    d.run("fill_bytes", d.b, d.p, 101, 101)


@wrong
def one_byte_of_a_word(d: Device) -> None:
    d.run("fill_bytes", d.a, d.p, 0, 102)
    d.run("fill_bytes", d.b, d.p, 101, 101)


@wrong
def large_array_of_two_streams(d: Device) -> None:
    array = d.array(LARGE)
    d.run("fill_large", d.a, array, blocks=LARGE // BYTES)
    d.run("produce", d.b, array, LARGE // 4 - COUNT)


@right
def large_arrays_of_two_streams(d: Device) -> None:
    one, other = d.array(LARGE), d.array(LARGE)
    d.run("fill_large", d.a, one, blocks=LARGE // BYTES)
    d.run("fill_large", d.b, other, blocks=LARGE // BYTES)


@wrong
def constant_is_set_beside_its_reader(d: Device) -> None:
    d.run("scale", d.a, d.p)
    driver.memcpy_htod_async(d.symbol("step"), np.ones(2, np.int32), d.b)


@right
def constant_is_set_where_nobody_reads(d: Device) -> None:
    d.run("scale", d.a, d.p)
    driver.memcpy_htod_async(d.symbol("step") + 8, np.ones(2, np.int32), d.b)


@wrong
def variable_of_two_streams(d: Device) -> None:
    d.run("add_up", d.a)
    d.run("add_up", d.b)


# Events.


@wrong
def event_recorded_before_the_write(d: Device) -> None:
    event = d.event(d.a)
    d.write(d.a, d.p)
    d.b.wait_for_event(event)
    d.copy(d.b, d.q, d.p)


@wrong
def event_of_the_wrong_stream(d: Device) -> None:
    d.write(d.a, d.p)
    d.b.wait_for_event(d.event(d.c))
    d.copy(d.b, d.q, d.p)


@wrong
def event_that_was_never_recorded(d: Device) -> None:
    d.write(d.a, d.p)
    d.b.wait_for_event(driver.Event())
    d.copy(d.b, d.q, d.p)


@wrong
def event_recorded_anew_elsewhere(d: Device) -> None:
    d.write(d.a, d.p)
    event = d.event(d.a)
    event.record(d.c)
    d.b.wait_for_event(event)
    d.copy(d.b, d.q, d.p)


@right
def event_recorded_anew_after_the_wait(d: Device) -> None:
    d.write(d.a, d.p)
    event = d.event(d.a)
    d.b.wait_for_event(event)
    event.record(d.c)
    d.copy(d.b, d.q, d.p)


@right
def three_streams_in_a_row(d: Device) -> None:
    d.write(d.a, d.p)
    d.b.wait_for_event(d.event(d.a))
    d.c.wait_for_event(d.event(d.b))
    d.copy(d.c, d.q, d.p)


@wrong
def second_of_three_does_not_wait(d: Device) -> None:
    d.write(d.a, d.p)
    event = d.event(d.b)
    d.b.wait_for_event(d.event(d.a))
    d.c.wait_for_event(event)
    d.copy(d.c, d.q, d.p)


@right
def two_streams_hand_it_to_and_fro(d: Device) -> None:
    for _ in range(20):
        d.write(d.a, d.p)
        d.b.wait_for_event(d.event(d.a))
        d.copy(d.b, d.q, d.p)
        d.a.wait_for_event(d.event(d.b))


# The host waits.


@right
def host_waits_for_the_stream(d: Device) -> None:
    d.write(d.a, d.p)
    d.a.synchronize()
    d.copy(d.b, d.q, d.p)


@wrong
def host_waits_for_another_stream(d: Device) -> None:
    d.write(d.a, d.p)
    d.c.synchronize()
    d.copy(d.b, d.q, d.p)


@wrong
def host_waits_for_one_of_two_that_were_queued(d: Device) -> None:
    d.write(d.a, d.p)
    d.copy(d.b, d.q, d.p)
    d.a.synchronize()


@right
def host_waits_for_the_context(d: Device) -> None:
    d.write(d.a, d.p)
    driver.Context.synchronize()
    d.copy(d.b, d.q, d.p)


@right
def host_waits_for_the_event(d: Device) -> None:
    d.write(d.a, d.p)
    d.event(d.a).synchronize()
    d.copy(d.b, d.q, d.p)


@right
def host_asks_the_event(d: Device) -> None:
    d.write(d.a, d.p)
    until(d.event(d.a).query)
    d.copy(d.b, d.q, d.p)


@right
def host_asks_the_stream(d: Device) -> None:
    d.write(d.a, d.p)
    until(d.a.is_done)
    d.copy(d.b, d.q, d.p)


@right
def array_is_freed_between(d: Device) -> None:
    other = d.array()
    d.write(d.a, d.p)
    other.free()
    d.copy(d.b, d.q, d.p)


@right
def function_of_the_host_says_so(d: Device) -> None:
    called: list[int] = []
    d.write(d.a, d.p)
    d.host(d.a, lambda: called.append(1))
    until(lambda: bool(called))
    d.copy(d.b, d.q, d.p)


@right
def plain_copy_between(d: Device) -> None:
    stream = driver.Stream(BLOCKING)
    d.write(stream, d.p)
    driver.memcpy_dtoh(np.zeros(COUNT, np.int32), d.p)
    d.copy(d.b, d.q, d.p)


# Default streams, and streams that wait for them.


@wrong
def non_blocking_stream_beside_the_default_stream(d: Device) -> None:
    d.write(None, d.p)
    d.copy(d.b, d.q, d.p)


@right
def blocking_stream_after_the_default_stream(d: Device) -> None:
    d.write(None, d.p)
    d.copy(driver.Stream(BLOCKING), d.q, d.p)


@right
def default_stream_after_a_blocking_stream(d: Device) -> None:
    stream = driver.Stream(BLOCKING)
    d.write(stream, d.p)
    d.copy(None, d.q, d.p)
    d.write(stream, d.p)


@right
def default_stream_between_blocking_streams(d: Device) -> None:
    d.write(driver.Stream(BLOCKING), d.p)
    d.write(None, d.r)
    d.copy(driver.Stream(BLOCKING), d.q, d.p)


@wrong
def two_blocking_streams(d: Device) -> None:
    d.write(driver.Stream(BLOCKING), d.p)
    d.copy(driver.Stream(BLOCKING), d.q, d.p)


def per_thread(d: Device, to: Any) -> None:
    word = ctypes.c_uint64
    values = (word(int(to)), ctypes.c_int(0))
    pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    d.call("cuModuleLoadData", ctypes.byref(module), d.image)
    d.call("cuModuleGetFunction", ctypes.byref(function), module, b"produce")
    d.call("cuLaunchKernel", function, 1, 1, 1, COUNT, 1, 1, 0, ctypes.c_void_p(PER_THREAD), pointers, None)


@wrong
def default_stream_of_the_thread_beside_a_blocking_one(d: Device) -> None:
    per_thread(d, d.p)
    d.copy(driver.Stream(BLOCKING), d.q, d.p)


@right
def default_stream_of_the_thread_before_the_default_stream(d: Device) -> None:
    per_thread(d, d.p)
    d.copy(None, d.q, d.p)
    per_thread(d, d.p)


@wrong
def fill_without_stream_does_not_wait(d: Device) -> None:
    driver.memset_d32(d.p, 1, COUNT)
    d.copy(d.b, d.q, d.p)


@right
def copy_without_stream_waits(d: Device) -> None:
    driver.memcpy_htod(d.p, np.ones(COUNT, np.int32))
    d.copy(d.b, d.q, d.p)


@wrong
def copy_on_the_device_without_stream_does_not_wait(d: Device) -> None:
    driver.memcpy_dtod(d.p, d.r, BYTES)
    d.copy(d.b, d.q, d.p)


@wrong
def stream_destroyed_before_its_kernel_was_waited_for(d: Device) -> None:
    stream = driver.Stream(NON_BLOCKING)
    d.write(stream, d.p)
    del stream
    d.copy(d.b, d.q, d.p)


@right
def stream_destroyed_after_its_event(d: Device) -> None:
    stream = driver.Stream(NON_BLOCKING)
    d.write(stream, d.p)
    event = d.event(stream)
    del stream
    d.b.wait_for_event(event)
    d.copy(d.b, d.q, d.p)


@right
def many_streams_one_after_another(d: Device) -> None:
    for _ in range(100):
        stream = driver.Stream(NON_BLOCKING)
        d.write(stream, d.p)
        stream.synchronize()


# Copies, fills and graphs.


@wrong
def fill_of_another_stream(d: Device) -> None:
    d.copy(d.a, d.q, d.p)
    driver.memset_d32_async(d.p, 1, COUNT, d.b)


@right
def fill_of_the_next_element(d: Device) -> None:
    both = d.array(2 * BYTES)
    d.write(d.a, both)
    driver.memset_d32_async(int(both) + BYTES, 1, COUNT, d.b)


@wrong
def copy_on_the_device_of_another_stream(d: Device) -> None:
    d.write(d.a, d.p)
    driver.memcpy_dtod_async(d.q, d.p, BYTES, d.b)


@wrong
def copy_to_the_host_of_another_stream(d: Device) -> None:
    d.write(d.a, d.p)
    driver.memcpy_dtoh_async(d.pinned(), d.p, d.b)


@wrong
def copy_to_the_device_of_another_stream(d: Device) -> None:
    driver.memcpy_htod_async(d.p, np.ones(COUNT, np.int32), d.a)
    d.copy(d.b, d.q, d.p)


@wrong
def two_copies_of_one_buffer(d: Device) -> None:
    buffer = d.pinned()
    driver.memcpy_dtoh_async(buffer, d.p, d.a)
    driver.memcpy_htod_async(d.q, buffer, d.b)
    driver.Context.synchronize()


@right
def copy_of_a_buffer_that_another_stream_has_read(d: Device) -> None:
    buffer = d.pinned()
    driver.memcpy_htod_async(d.q, buffer, d.a)
    driver.memcpy_htod_async(d.p, buffer, d.b)
    driver.Context.synchronize()


@wrong
def graph_of_another_stream(d: Device) -> None:
    launch = d.graph(d.c, lambda: d.write(d.c, d.p))
    launch(d.a)
    d.copy(d.b, d.q, d.p)


@right
def graph_waited_for(d: Device) -> None:
    launch = d.graph(d.c, lambda: d.write(d.c, d.p))
    launch(d.a)
    d.b.wait_for_event(d.event(d.a))
    d.copy(d.b, d.q, d.p)
    d.a.wait_for_event(d.event(d.b))
    launch(d.a)


# Memory in the order of a stream.


@wrong
def memory_used_before_its_stream_has_it(d: Device) -> None:
    d.write(d.b, d.taken(d.a))


@right
def memory_used_after_its_stream_has_it(d: Device) -> None:
    memory = d.taken(d.a)
    d.b.wait_for_event(d.event(d.a))
    d.write(d.b, memory)
    d.a.wait_for_event(d.event(d.b))
    d.give(memory, d.a)


@wrong
def memory_freed_while_another_stream_uses_it(d: Device) -> None:
    memory = d.taken(d.a)
    d.b.wait_for_event(d.event(d.a))
    d.write(d.b, memory)
    d.give(memory, d.a)


@wrong
def memory_copied_after_another_stream_frees_it(d: Device) -> None:
    memory = d.taken(d.a)
    driver.memset_d32_async(memory, 1, COUNT, d.a)
    d.b.wait_for_event(d.event(d.a))
    is_freed: list[int] = []
    d.host(d.b, lambda: until(lambda: bool(is_freed)))
    driver.memcpy_dtod_async(d.q, memory, BYTES, d.b)
    d.give(memory, d.a)
    d.a.synchronize()
    is_freed.append(1)


# Page-locked memory that the host changes.


@wrong
def buffer_changed_under_a_copy(d: Device) -> None:
    buffer = d.pinned()
    driver.memcpy_htod_async(d.p, buffer, d.a)
    buffer[7] = 5
    d.a.synchronize()


@wrong
def buffer_changed_after_waiting_for_another_stream(d: Device) -> None:
    buffer = d.pinned()
    driver.memcpy_htod_async(d.p, buffer, d.a)
    d.b.synchronize()
    buffer[7] = 5
    d.event(d.a).synchronize()


@right
def buffer_changed_after_waiting(d: Device) -> None:
    buffer = d.pinned()
    for _ in range(3):
        driver.memcpy_htod_async(d.p, buffer, d.a)
        d.a.synchronize()
        buffer[7] += 1


@right
def buffer_changed_after_its_event(d: Device) -> None:
    buffer = d.pinned()
    driver.memcpy_htod_async(d.p, buffer, d.a)
    event = d.event(d.a)
    d.write(d.a, d.q)
    until(event.query)
    buffer[7] = 5
    d.a.synchronize()


@right
def ordinary_memory_changed_after_the_call(d: Device) -> None:
    values = np.ones(COUNT, np.int32)
    driver.memcpy_htod_async(d.p, values, d.a)
    values[7] = 5
    d.a.synchronize()


@right
def result_comes_back_into_the_same_buffer(d: Device) -> None:
    buffer = d.pinned()
    driver.memcpy_htod_async(d.p, buffer, d.a)
    d.write(d.a, d.p)
    driver.memcpy_dtoh_async(buffer, d.p, d.a)
    driver.memcpy_htod_async(d.q, buffer, d.a)
    d.a.synchronize()
    buffer[:] = 5


@right
def function_of_the_host_fills_the_buffer(d: Device) -> None:
    buffer = d.pinned()
    for number in range(3):
        d.host(d.a, functools.partial(buffer.fill, number))
        driver.memcpy_htod_async(d.p, buffer, d.a)
    d.a.synchronize()


@right
def held_stream_whose_buffer_is_filled_meanwhile(d: Device) -> None:
    buffer = d.pinned()
    filled: list[int] = []
    d.host(d.a, lambda: until(lambda: bool(filled)))
    driver.memcpy_htod_async(d.p, buffer, d.a)
    d.write(d.b, d.q)  # is not held
    d.b.synchronize()
    buffer[:] = 5
    filled.append(1)
    d.a.synchronize()


@right
def kernel_writes_the_buffer_itself(d: Device) -> None:
    buffer = driver.pagelocked_zeros(COUNT, np.int32, mem_flags=driver.host_alloc_flags.DEVICEMAP)
    address = np.intp(buffer.base.get_device_pointer())
    driver.memcpy_htod_async(d.p, buffer, d.a)
    d.write(d.a, address)
    driver.memcpy_htod_async(d.q, buffer, d.a)
    d.a.synchronize()


@wrong
def kernel_writes_a_buffer_that_another_stream_copies(d: Device) -> None:
    buffer = driver.pagelocked_zeros(COUNT, np.int32, mem_flags=driver.host_alloc_flags.DEVICEMAP)
    d.write(d.a, np.intp(buffer.base.get_device_pointer()))
    driver.memcpy_htod_async(d.q, buffer, d.b)
    d.a.synchronize()


def found(case: Case, image: bytes) -> str:
    context = driver.Device(0).make_context()
    try:
        device = Device(image)
        case(device)
        driver.Context.synchronize()
    except driver.Error as error:
        return str(error)
    finally:
        context.pop()
    return ""


def main(names: list[str]) -> None:
    driver.init()
    path = Path(__file__).with_suffix(".cu")
    context = driver.Device(0).make_context()
    image = compile_source(path.read_text(), no_extern_c=True, options=["-I", str(path.parent)])
    context.pop()
    cases = {**WRONG, **RIGHT}
    print(json.dumps({name: found(cases[name], image) for name in names or cases}))


if __name__ == "__main__":
    main(sys.argv[1:])
