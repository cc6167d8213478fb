"""What tests/softcuda/test_other_clients.py asks of the software device by way of cuda-bindings and cuda.core.

Run as a program, in a process of its own: it makes softcuda the process's CUDA device, and prints the answers as JSON.
An answer is what came of a case, or the client's own error in its own words.
"""

from __future__ import annotations

import ctypes
import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import softcuda

if __name__ == "__main__":
    softcuda.activate(checks=sys.argv[1] == "checked")

from cuda.bindings import driver, nvrtc
from cuda.core import Device, Kernel, LaunchConfig, ObjectCode, Program, ProgramOptions, launch

SOURCE = """
namespace my {
__constant__ float factor = 2;
template <class T>
__global__ void scale(T* to, const T* from, short n, unsigned char odd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + odd - 7)
        to[i] = from[i] * (T)factor;
}
}
extern "C" __global__ void beyond(float* to, int n)
{
    int i = threadIdx.x;
    if (i <= n)
        to[i] = 1;
}
"""
NAMES = ("my::scale<float>", "my::scale<double>")
CASES: dict[str, Callable[[], Any]] = {}


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    CASES[function.__name__] = function
    return function


@functools.cache
def program(kind: str = "cubin") -> ObjectCode:
    options = ProgramOptions(std="c++17", arch="sm_90", name="scale.cu")
    return Program(SOURCE, "c++", options=options).compile(kind, name_expressions=NAMES)


def done(answer: tuple[Any, ...]) -> Any:
    """What a call of the bindings gives, beside its code. Raises RuntimeError as cuda-python's examples do."""
    code, *rest = answer
    if code.value:
        raise RuntimeError(driver.cuGetErrorName(code)[1].decode())
    return rest[0] if len(rest) == 1 else rest


def uploaded(values: np.ndarray) -> Any:
    memory = done(driver.cuMemAlloc(values.nbytes))
    done(driver.cuMemcpyHtoD(memory, values.ctypes.data, values.nbytes))
    return memory


def downloaded(memory: Any, count: int) -> list[float]:
    values = np.zeros(count, np.float32)
    done(driver.cuMemcpyDtoH(values.ctypes.data, int(memory), values.nbytes))
    return values.tolist()


def handle(kernel: Kernel) -> Any:
    return driver.CUkernel(int(kernel.handle))


@case
def a_template_by_its_name() -> list[Any]:
    stream, kernel = Device().create_stream(), program().get_kernel(NAMES[0])
    a, b = uploaded(np.arange(4, dtype=np.float32)), uploaded(np.zeros(4, np.float32))
    launch(stream, LaunchConfig(grid=1, block=32), kernel, int(b), int(a), np.int16(4), np.uint8(7))
    stream.sync()
    sizes = [(each.offset, each.size) for each in kernel.arguments_info]
    return [downloaded(b, 4), sizes, kernel.attributes.max_threads_per_block]


@case
def ptx_is_the_same_image() -> list[str]:
    kernels = [program(kind).get_kernel(NAMES[1]) for kind in ("ptx", "cubin")]
    return [done(driver.cuKernelGetName(handle(kernel))).decode() for kernel in kernels]


@case
def out_of_bounds() -> str:
    stream, memory = Device().create_stream(), uploaded(np.zeros(100, np.float32))
    launch(stream, LaunchConfig(grid=1, block=128), program().get_kernel("beyond"), int(memory), np.int32(100))
    stream.sync()
    return "no error"


@case
def the_next_kernel_after_a_reset() -> list[float]:
    done(driver.cuDevicePrimaryCtxReset(0))
    module = done(driver.cuModuleLoadData(program().code))
    function = done(driver.cuModuleGetFunction(module, b"beyond"))
    memory = uploaded(np.zeros(4, np.float32))
    pointer, number = ctypes.c_uint64(int(memory)), ctypes.c_int32(2)
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(number))
    done(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, ctypes.addressof(arguments), 0))
    return downloaded(memory, 4)


@case
def a_captured_graph_launched_twice() -> list[float]:
    device, kernel = Device(), program().get_kernel(NAMES[0])
    a, b = uploaded(np.arange(4, dtype=np.float32)), uploaded(np.zeros(4, np.float32))
    builder, config = device.create_graph_builder().begin_building(), LaunchConfig(grid=1, block=32)
    launch(builder, config, kernel, int(b), int(a), np.int16(4), np.uint8(7))
    launch(builder, config, kernel, int(a), int(b), np.int16(4), np.uint8(7))
    graph, stream = builder.end_building().complete(), device.create_stream()
    before = downloaded(a, 4)
    graph.launch(stream)
    graph.launch(stream)
    stream.sync()
    return [*before, *downloaded(a, 4)]


@case
def nodes_in_the_order_of_their_edges() -> list[float]:
    """A fill that is made first and has to come second."""
    graph, memory = done(driver.cuGraphCreate(0)), uploaded(np.zeros(2, np.float32))
    context = done(driver.cuCtxGetCurrent())
    nodes = []
    for address, count, value in ((int(memory), 1, 0x40000000), (int(memory), 2, 0x3F800000)):
        fill = driver.CUDA_MEMSET_NODE_PARAMS()
        fill.dst, fill.value, fill.elementSize, fill.width, fill.height = address, value, 4, count, 1
        nodes.append(done(driver.cuGraphAddMemsetNode(graph, None, 0, fill, context)))
    done(driver.cuGraphAddDependencies(graph, nodes[1:], nodes[:1], None, 1))
    instance = done(driver.cuGraphInstantiate(graph, 0))
    done(driver.cuGraphLaunch(instance, 0))
    done(driver.cuCtxSynchronize())
    return downloaded(memory, 2)


@case
def used_after_it_was_freed_in_its_stream() -> str:
    device = Device()
    stream, kernel = device.create_stream(), program().get_kernel("beyond")
    memory = done(driver.cuMemAllocAsync(400, int(stream.handle)))
    config = LaunchConfig(grid=1, block=32)
    launch(stream, config, kernel, int(memory), np.int32(99))
    done(driver.cuMemFreeAsync(memory, int(stream.handle)))
    stream.sync()
    launch(stream, config, kernel, int(memory), np.int32(99))
    try:
        stream.sync()
    finally:
        done(driver.cuDevicePrimaryCtxReset(0))
    return "no error"


@case
def bytes_of_a_pool() -> list[int]:
    pool, stream = done(driver.cuDeviceGetDefaultMemPool(0)), done(driver.cuStreamCreate(0))
    used = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT

    def now() -> int:
        return int(done(driver.cuMemPoolGetAttribute(pool, used)))

    before = now()
    memory = done(driver.cuMemAllocAsync(1000, stream))
    held = now()
    done(driver.cuMemFreeAsync(memory, stream))
    done(driver.cuStreamSynchronize(stream))
    return [held - before, now() - before]


@case
def a_host_function_in_its_place() -> list[float]:
    """It comes after a fill and before another, though it takes longer than both."""
    memory, seen = uploaded(np.zeros(1, np.float32)), np.zeros(1, np.float32)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def called(_: Any) -> None:
        time.sleep(0.05)
        ctypes.memmove(seen.ctypes.data, int(memory), 4)

    function, stream = kind(called), done(driver.cuStreamCreateWithPriority(1, -2))
    done(driver.cuMemsetD32Async(memory, 0x3F800000, 1, stream))
    address = ctypes.cast(function, ctypes.c_void_p).value
    done(driver.cuLaunchHostFunc(stream, driver.CUhostFn(address), 0))
    done(driver.cuMemsetD32Async(memory, 0x40000000, 1, stream))
    done(driver.cuStreamSynchronize(stream))
    return [*seen.tolist(), *downloaded(memory, 1), done(driver.cuStreamGetPriority(stream))]


@case
def what_a_pointer_is() -> list[int]:
    memory = uploaded(np.zeros(3, np.float32))
    wanted = driver.CUpointer_attribute
    numbers = (wanted.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, wanted.CU_POINTER_ATTRIBUTE_RANGE_SIZE)
    found = [int(done(driver.cuPointerGetAttribute(number, int(memory) + 4))) for number in numbers]
    return [*found, driver.cuPointerGetAttribute(numbers[0], id(found))[0].value]


@case
def most_threads_at_once() -> list[int]:
    kernel = program().get_kernel("beyond")
    function = done(driver.cuKernelGetFunction(handle(kernel)))
    blocks = [
        done(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 256, shared)) for shared in (0, 100_000)
    ]
    return [*blocks, *done(driver.cuOccupancyMaxPotentialBlockSize(function, None, 0, 0))]


@case
def ptx_of_others() -> str:
    ObjectCode.from_ptx(b".version 8.0\n.target sm_90\n.address_size 64\n").get_kernel("k")
    return "no error"


@case
def a_cubin_of_others() -> str:
    done(driver.cuModuleLoadData(b"\x7fELF\x02\x01\x01" + b"\0" * 200))
    return "no error"


def linked(image: bytes) -> Any:
    """A kernel of an image that the linker of the driver was given."""
    state = done(driver.cuLinkCreate(0, [], []))
    kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
    done(driver.cuLinkAddData(state, kind, image, len(image), b"mine", 0, [], []))
    address, _ = done(driver.cuLinkComplete(state))
    return done(driver.cuModuleGetFunction(done(driver.cuModuleLoadData(address)), b"beyond"))


@case
def an_image_of_its_own_linked() -> str:
    return done(driver.cuFuncGetName(linked(program().code))).decode()  # type: ignore[no-any-return]


@case
def ptx_of_others_linked() -> str:
    return str(linked(b".version 8.0\n.target sm_90\n.address_size 64\n"))


@case
def what_it_does_not_have() -> str:
    done(driver.cuMipmappedArrayDestroy(driver.CUmipmappedArray(1)))
    return "no error"


@case
def of_which_version() -> list[bool]:
    """Whether three ages of one call differ; whether it has one of CUDA 12, one asked for as of 13.5, and none."""

    def at(name: bytes, version: int) -> int:
        code, address, _ = driver.cuGetProcAddress(name, version, 0)
        return 0 if code.value else int(address)

    created = [at(b"cuCtxCreate", version) for version in (3020, 11040, 12050)]
    return [len({*created}) == 3, at(b"cuLibraryLoadData", 12000) != 0, at(b"cuLibraryLoadData", 13050) != 0,
            at(b"brilliant", 13000) != 0]  # fmt: skip


def compiled(source: bytes, *options: bytes, headers: dict[bytes, bytes] | None = None, name: bytes = b"") -> list[str]:
    """What NVRTC says of a program: its code, its log, and the assembler's name of an expression."""
    headers = headers or {}
    made = nvrtc.nvrtcCreateProgram(source, b"mine.cu", len(headers), [*headers.values()], [*headers])[1]
    if name:
        nvrtc.nvrtcAddNameExpression(made, name)
    code = nvrtc.nvrtcCompileProgram(made, len(options), [*options])[0]
    log = b" " * nvrtc.nvrtcGetProgramLogSize(made)[1]
    nvrtc.nvrtcGetProgramLog(made, log)
    lowered = nvrtc.nvrtcGetLoweredName(made, name)[1] if name and not code.value else b""
    return [code.name, log.rstrip(b"\0 ").decode(), (lowered or b"").decode()]


@case
def nvrtc_says_where_an_error_is() -> list[str]:
    return compiled(b"// a line\n__global__ void k(float* x) { y = 1; }\n")


@case
def nvrtc_takes_headers_and_macros() -> list[str]:
    source = b'#include "sizes/tile.h"\nnamespace n { __device__ int tiles[TILE + MORE]; }\n__global__ void k() {}\n'
    options = (b"--define-macro=MORE=2", b"--gpu-architecture=sm_90")
    return compiled(source, *options, headers={b"sizes/tile.h": b"#define TILE 3\n"}, name=b"&n::tiles")


@case
def nvrtc_names_an_expression_that_is_not_there() -> list[str]:
    return compiled(b"template <class T> __global__ void k(T* x) {}\n", name=b"j<float>")


@case
def nvrtc_refuses_lto() -> list[str]:
    return compiled(b"__global__ void k() {}\n", b"-dlto")


def main(names: list[str]) -> None:
    Device(0).set_current()
    answers = {}
    for name in names or CASES:
        try:
            answers[name] = CASES[name]()
        except Exception as error:
            answers[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[2:])
