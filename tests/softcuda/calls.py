"""What tests of the software device's driver ask it, in the worker: calls of PyCUDA, and of the driver itself.

Each returns what came of it in words, so that a test can hold the driver's own error code against it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpwatch.devices.worker import gpu


def _driver() -> Any:
    gpu()
    from pycuda import driver  # noqa: PLC0415  # there is one only once a device is open

    return driver


def _said(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The error of a call, as PyCUDA puts it: 'LogicError: cuMemcpyHtoD failed: invalid argument'."""
    try:
        call(*args, **kwargs)
    except _driver().Error as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def _zeros(size: int) -> Any:
    memory = _driver().mem_alloc(size)
    _driver().memset_d8(memory, 0, size)
    return memory


def _bytes(memory: Any, size: int) -> bytes:
    result = np.zeros(size, np.uint8)
    _driver().memcpy_dtoh(result, memory)
    return result.tobytes()


def _function(image: Path, entry: str) -> Any:
    return _driver().module_from_buffer(image.read_bytes()).get_function(entry)


def state() -> dict[str, str]:
    """What the worker's tests share, and should leave as they found it: settings, and no fault in the first context."""
    device = gpu()
    shared = {name: value for name, value in os.environ.items() if value and name.startswith(("SOFTCUDA", "WARPWATCH"))}
    settings = ("finds_faults", "launch_timeout", "calls")
    fault = _said(_driver().Context.synchronize)
    return shared | {name: str(getattr(device, name)) for name in settings} | {"first context": fault}


def load_bytes(image: bytes) -> str:
    return _said(_driver().module_from_buffer, image)


def get_function(image: Path, entry: str) -> str:
    return _said(_driver().module_from_buffer(image.read_bytes()).get_function, entry)


def launch(
    image: Path, entry: str, block: tuple[int, ...], grid: tuple[int, ...], argument_bytes: int, shared: int
) -> str:
    """With an argument buffer of zeros."""
    function = _function(image, entry)
    function.prepare(f"{argument_bytes}s")
    return _said(function.prepared_async_call, grid, block, None, b"\0" * argument_bytes, shared_size=shared)


def copy_to(address: int) -> str:
    return _said(_driver().memcpy_htod, address, np.zeros(4, np.float32))


def copy_beyond(extra: int) -> str:
    """A copy of 16 + ``extra`` bytes into an allocation of 16."""
    memory = _driver().mem_alloc(16)
    return _said(_driver().memcpy_htod, memory, np.zeros(16 + extra, np.uint8))


def free_twice() -> list[int]:
    """The driver's codes: for an allocation, the same again, the middle of another, and null."""
    gpu()
    cuda = ctypes.CDLL("libcuda.so.1")
    first, second = ctypes.c_uint64(), ctypes.c_uint64()
    cuda.cuMemAlloc_v2(ctypes.byref(first), ctypes.c_size_t(64))
    cuda.cuMemAlloc_v2(ctypes.byref(second), ctypes.c_size_t(64))
    inside = ctypes.c_uint64(second.value + 4)
    return [cuda.cuMemFree_v2(address) for address in (first, first, inside, ctypes.c_uint64(0))]


def after_a_fault(image: Path, entry: str) -> list[str]:
    """What the calls after a null pointer's launch say, one of each kind."""
    driver = _driver()
    function = _function(image, entry)
    function.prepare("PPPiii")
    function.prepared_async_call((1, 1), (1, 1, 1), None, 0, 0, 0, 1, 1, 1)
    calls: list[Callable[..., Any]] = [gpu().context.synchronize, lambda: driver.mem_alloc(4), driver.Event]
    calls.append(lambda: function.prepared_async_call((1, 1), (1, 1, 1), None, 0, 0, 0, 1, 1, 1))
    return [_said(call) for call in calls]


def event_order() -> list[str]:
    """Elapsed time of events that were not recorded; then whether those that were are in the order of their stream."""
    driver = _driver()
    start, stop = driver.Event(), driver.Event()
    said = [_said(stop.time_since, start)]
    stream = driver.Stream()
    memory = driver.mem_alloc(1 << 22)
    start.record(stream)
    driver.memset_d32_async(memory, 7, 1 << 20, stream)
    stop.record(stream)
    stop.synchronize()
    said.append("in order" if stop.time_since(start) > 0 and start.query() else "out of order")
    return said


def stream_waits_for_event(image: Path, entry: str) -> int:
    """One stream counts to 1,000 slowly; another, which waits for its event, copies what is there: the end."""
    driver = _driver()
    function = _function(image, entry)
    function.prepare("P")
    first, second = driver.Stream(1), driver.Stream(1)
    memory, done = driver.mem_alloc(4), driver.Event()
    function.prepared_async_call((1, 1), (1, 1, 1), first, memory)
    done.record(first)
    second.wait_for_event(done)
    result = np.zeros(1, np.int32)
    driver.memcpy_dtoh_async(result, memory, second)
    second.synchronize()
    return int(result[0])


def run_here(
    driver: Any, image: Path, entry: str, block: tuple[int, ...], grid: tuple[int, ...], size: int, shared: int = 0
) -> bytes:
    """What a kernel that takes one pointer, to ``size`` bytes of zeros, leaves there; on the device of this process."""
    function = driver.module_from_buffer(image.read_bytes()).get_function(entry)
    function.prepare("P")
    memory = driver.mem_alloc(size)
    driver.memset_d8(memory, 0, size)
    function.prepared_call(grid, block, memory, shared_size=shared)
    result = np.zeros(size, np.uint8)
    driver.memcpy_dtoh(result, memory)
    return result.tobytes()


def left_here(image: Path, entry: str, block: tuple[int, ...], grid: tuple[int, ...], size: int) -> str:
    """As ``run_here``, in hexadecimal, or what the driver says of the launch."""
    from pycuda import driver  # noqa: PLC0415  # there is one only once a device is open

    try:
        return run_here(driver, image, entry, block, grid, size).hex()
    except driver.Error as error:
        return str(error)


def run_on_bytes(*arguments: Any) -> bytes:
    """As ``run_here``, in the worker."""
    return run_here(_driver(), *arguments)


def run_or_say(*arguments: Any) -> bytes | str:
    """As ``run_here``; or what PyCUDA says of the launch, as text, because its exceptions need a driver."""
    try:
        return run_on_bytes(*arguments)
    except _driver().Error as error:
        return str(error)


def in_orders(seeds: tuple[int | None, ...], run: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What a function here answers in each order of threads and blocks, each time in a context of its own."""
    answers = []
    for seed in seeds:
        os.environ["SOFTCUDA_SEED"] = "" if seed is None else str(seed)
        context = _driver().Device(0).make_context()
        try:
            answers.append(run(*arguments))
        finally:
            context.pop()
    os.environ["SOFTCUDA_SEED"] = ""
    return answers


def set_constant(image: Path, entry: str, name: str, values: bytes, size: int) -> bytes:
    """A constant variable filled from the host, then a kernel that has a thread for each 4 bytes of its result."""
    driver = _driver()
    module = driver.module_from_buffer(image.read_bytes())
    address, _ = module.get_global(name)
    driver.memcpy_htod(address, values)
    function = module.get_function(entry)
    function.prepare("P")
    memory = driver.mem_alloc(size)
    function.prepared_call((1, 1), (size // 4, 1, 1), memory)
    return _bytes(memory, size)


def product_seconds(images: Sequence[Path], entry: str, m: int, block: int) -> list[float]:
    """Processor time of one product of m×m float32 matrices by each image: the least of five, taken in turns."""
    device = gpu()
    driver = _driver()
    arrays = [driver.mem_alloc(4 * m * m) for _ in range(3)]
    for array in arrays[:2]:
        driver.memcpy_htod(array, np.ones(m * m, np.float32))
    functions = [_function(image, entry).prepare("PPPiii") for image in images]
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(5):
        for function, taken in zip(functions, times, strict=True):
            begin = time.process_time()
            function.prepared_call((m // block, m // block), (block, block, 1), *arrays, m, m, m)
            device.context.synchronize()
            taken.append(time.process_time() - begin)
    return [min(taken) for taken in times]


def peak_of_run(*arguments: Any) -> tuple[int, int, bytes | str]:
    """As ``run_or_say``, with the most memory that this process has had before and after."""
    _driver()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    left = run_or_say(*arguments)
    return before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, left[:1000]


def peak_bytes(size: int) -> tuple[int, int]:
    """The most memory that this process has had: before it opened a device, and after it filled such an array."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    driver = _driver()
    memory = driver.mem_alloc(size)
    driver.memset_d32(memory, 5, size // 4)
    return before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def most_threads(image: Path, entry: str) -> int:
    """CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK of a kernel."""
    return int(_function(image, entry).get_attribute(_driver().function_attribute.MAX_THREADS_PER_BLOCK))


def shared_bytes(image: Path, entry: str) -> int:
    return int(_function(image, entry).shared_size_bytes)


def run_on_fresh_memory(image: Path, entry: str, blocks: int) -> str:
    """What comes of a kernel that takes two arrays of 4 KiB that nothing has written."""
    driver = _driver()
    function = _function(image, entry)
    function.prepare("PP")
    arrays = [driver.mem_alloc(4096) for _ in range(2)]
    function.prepared_call((blocks, 1), (1, 1, 1), *arrays)
    return _said(gpu().context.synchronize)


def run_with_zeros(image: Path, entry: str, size: int) -> bytes | str:
    """What 32 threads leave in ``size`` bytes of zeros, where each further argument is zero too; or what is said."""
    driver = _driver()
    function = _function(image, entry)
    memory = _zeros(size)
    try:
        for extra in range(0, 32, 4):  # the driver says of a buffer of another length that it is none
            try:
                function.prepare(f"P{extra}s")
                function.prepared_call((1, 1), (32, 1, 1), memory, bytes(extra))
                break
            except driver.LogicError:
                continue
        return _bytes(memory, size)
    except driver.Error as error:
        return str(error)


def run_on_arrays(
    image: Path, entry: str, arrays: list[Any], size: int, count: int | None, threads: int = 32
) -> bytes | str:
    """What a kernel leaves in ``size`` bytes, which it takes after the arrays, and then their length unless None."""
    driver = _driver()
    function = _function(image, entry)
    try:
        given = [driver.mem_alloc(max(each.nbytes, 4)) for each in arrays]
        for address, each in zip(given, arrays, strict=True):
            driver.memcpy_htod(address, each.view(np.uint8))
        left = _zeros(size)
        more = () if count is None else (np.int32(count),)
        function(*given, left, *more, block=(threads, 1, 1), grid=(1 if count is None else 64, 1))
        return _bytes(left, size)
    except driver.Error as error:
        return str(error)


def run_with_a_name(image: Path, length: int) -> list[int]:
    """What 32 threads of by_value leave that take an object of 16 bytes, an int and a null pointer, and add to it."""
    driver = _driver()
    function = _function(image, "by_value")
    function.prepare("16sP")
    memory = driver.mem_alloc(128)
    function.prepared_call((1, 1), (32, 1, 1), np.array([length, 0, 0, 0], np.int32).tobytes(), memory)
    result = np.zeros(32, np.int32)
    driver.memcpy_dtoh(result, memory)
    return [int(value) for value in result]


def run_groups(image: Path, entry: str, shape: tuple[int, int, int, int], given: Any, together: bool = False) -> Any:
    """What a kernel makes of an array, or what is said of the launch.

    ``shape``: of a block, and how many there are; ``together``: whether the launch is a cooperative one, for which
    PyCUDA has no call for this, so the driver's own are used.
    """
    driver, cuda = _driver(), ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoad(ctypes.byref(module), str(image).encode()) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, entry.encode()) == 0
    memory = driver.mem_alloc(given.nbytes)
    driver.memcpy_htod(memory, given)
    address = ctypes.c_uint64(int(memory))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(address))
    x, y, z, blocks = shape
    call, more = (cuda.cuLaunchCooperativeKernel, ()) if together else (cuda.cuLaunchKernel, (None,))
    if code := call(function, blocks, 1, 1, x, y, z, 0, None, arguments, *more):
        return f"code {code}"
    left = np.empty_like(given)
    try:
        driver.memcpy_dtoh(left, memory)
    except driver.Error as error:
        return str(error)
    return left


def run_snippets(image: Path, count: int, size: int, shared: int) -> list[bytes | str]:
    """What 32 threads of each kernel snippet_0, snippet_1, ... leave in so many bytes of zeros; or what is said."""
    driver = _driver()
    module = driver.module_from_buffer(image.read_bytes())
    memory, result = driver.mem_alloc(size), np.zeros(size, np.uint8)
    left: list[bytes | str] = []
    for number in range(count):
        try:
            driver.memset_d8(memory, 0, size)
            module.get_function(f"snippet_{number}")(memory, block=(32, 1, 1), shared=shared)
            driver.memcpy_dtoh(result, memory)
            left.append(result.tobytes())
        except driver.Error as error:
            left.append(str(error))
            break  # nothing more can be done in this context
    return left


def run_with_first(image: Path, entry: str, first: int) -> bytes | str:
    """What 32 threads leave in 64 ints of which the first is given and the others are zero; or what is said."""
    driver = _driver()
    values = np.zeros(64, np.int32)
    values[0] = first
    try:
        memory = driver.to_device(values)
        _function(image, entry)(memory, block=(32, 1, 1), grid=(1, 1))
        return bytes(driver.from_device(memory, values.shape, values.dtype).tobytes())
    except driver.Error as error:
        return str(error)


def through_an_array(matrix: np.ndarray) -> str:
    """What comes back of a matrix that PyCUDA's own functions put into an array, and the array's size."""
    driver = _driver()
    array = driver.matrix_to_array(matrix, "C")
    back = np.zeros_like(matrix)
    copy = driver.Memcpy2D()
    copy.set_src_array(array)
    copy.set_dst_host(back)
    copy.width_in_bytes = copy.dst_pitch = matrix.strides[0]
    copy.height = matrix.shape[0]
    copy(aligned=True)
    told = array.get_descriptor()
    return f"{'the same' if (back == matrix).all() else 'other'}, {told.width} by {told.height}"
