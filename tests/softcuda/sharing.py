"""Shares memory of the software device between two processes, for tests/softcuda/test_sharing.py.

Run as a program, in a process of its own, which starts the second one; it prints what came of each case as JSON. The
second process, which is started with the word `other`, answers questions of one line each: a case's name, and a handle.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import softcuda

if __name__ == "__main__":
    softcuda.activate(checks=True)

from pycuda import driver
from pycuda.compiler import compile as compile_source

SOURCE = """
extern "C" __global__ void add_one(int* a, int n)
{
    if (threadIdx.x < n)
        a[threadIdx.x] += 1;
}
"""
COUNT = 100
LAZY = ctypes.c_uint(1)  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
CUDA = ctypes.CDLL("libcuda.so.1")
KEPT: list[Any] = []  # PyCUDA frees what nobody holds


class Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


def handle_of(memory: int) -> tuple[int, str]:
    handle = Handle()
    return CUDA.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(memory)), bytes(handle.bytes).hex()


def opened(handle: str, flags: ctypes.c_uint = LAZY) -> tuple[int, int]:
    address = ctypes.c_uint64()
    given = Handle((ctypes.c_ubyte * 64)(*bytes.fromhex(handle)))
    return CUDA.cuIpcOpenMemHandle_v2(ctypes.byref(address), given, flags), address.value


def close(address: int) -> int:
    return int(CUDA.cuIpcCloseMemHandle(ctypes.c_uint64(address)))


def zeros(count: int = COUNT) -> Any:
    memory = driver.mem_alloc(4 * count)
    driver.memset_d32(memory, 0, count)
    KEPT.append(memory)
    return memory


def first(address: int) -> int:
    values = np.empty(COUNT, np.int32)
    driver.memcpy_dtoh(values, address)
    assert (values == values[0]).all()
    return int(values[0])


def add_one(address: int, threads: int, count: int) -> str:
    function = driver.module_from_buffer(IMAGE).get_function("add_one")
    try:
        function(np.uint64(address), np.int32(count), block=(threads, 1, 1))
        driver.Context.synchronize()
    except driver.Error as error:
        return str(error)
    return ""


@contextlib.contextmanager
def second_process() -> Iterator[Callable[..., Any]]:
    """Yield a function that asks a second process."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.softcuda.sharing", "other"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout

        def ask(*question: Any) -> Any:
            process.stdin.write(json.dumps(question) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return json.loads(process.stdout.readline())  # type: ignore[union-attr]

        yield ask
        process.stdin.close()


# The second process


def serve() -> None:
    addresses: dict[str, int] = {}
    for line in sys.stdin:
        name, *given = json.loads(line)
        if name == "open":
            code, addresses[given[0]] = opened(given[0])
            answer: Any = code
        elif name == "first":
            answer = first(addresses[given[0]])
        elif name == "add":
            answer = add_one(addresses[given[0]], *given[1:])
        elif name == "close":
            answer = close(addresses[given[0]])
        elif name == "free":
            answer = CUDA.cuMemFree_v2(ctypes.c_uint64(addresses[given[0]]))
        elif name == "same":
            answer = opened(given[0])[1] == addresses[given[0]]
        elif name == "handle":
            answer = handle_of(addresses[given[0]])[0]
        else:
            sharing_that_is_killed()
        print(json.dumps(answer), flush=True)


def share_once() -> None:
    handle_of(int(zeros()))


def sharing_that_is_killed() -> None:
    handle_of(int(zeros()))
    print(json.dumps(os.getpid()), flush=True)
    os.kill(os.getpid(), 9)


# Cases


def both_write(ask: Callable[..., Any]) -> list[Any]:
    memory = zeros()
    driver.memset_d32(memory, 40, COUNT)
    _, handle = handle_of(int(memory))
    answers = [ask("open", handle), ask("first", handle), ask("add", handle, COUNT, COUNT), first(int(memory))]
    add_one(int(memory), COUNT, COUNT)
    return [*answers, ask("first", handle)]


def out_of_bounds(ask: Callable[..., Any]) -> str:
    _, handle = handle_of(int(zeros()))
    ask("open", handle)
    return str(ask("add", handle, 128, COUNT + 1))


def freed_while_open(ask: Callable[..., Any]) -> list[Any]:
    memory = zeros()
    _, handle = handle_of(int(memory))
    ask("open", handle)
    memory.free()
    with second_process() as third:
        return [ask("add", handle, COUNT, COUNT), ask("first", handle), third("open", handle)]


def wrong_handles(ask: Callable[..., Any]) -> list[int]:
    _, handle = handle_of(int(zeros()))
    whole = bytes.fromhex(handle)
    size = int.from_bytes(whole[8:16], "little")
    larger = whole[:8] + (size + 2**20).to_bytes(8, "little") + whole[16:]
    elsewhere = whole[:16] + b"../" + whole[19:]
    return [ask("open", each.hex()) for each in (bytes(64), larger, elsewhere, whole[:16] + b"0" * 32 + whole[48:])]


def opened_twice(ask: Callable[..., Any]) -> list[Any]:
    _, handle = handle_of(int(zeros()))
    ask("open", handle)
    return [ask("same", handle), ask("free", handle), ask("handle", handle), *(ask("close", handle) for _ in range(3))]


def in_the_same_process(ask: Callable[..., Any]) -> list[int]:
    _, handle = handle_of(int(zeros()))
    return [opened(handle)[0], opened(handle, ctypes.c_uint(0))[0]]


def without_a_handle(ask: Callable[..., Any]) -> list[int]:
    freed, pooled = zeros(), ctypes.c_uint64()
    address = int(freed)
    freed.free()
    CUDA.cuMemAllocAsync(ctypes.byref(pooled), ctypes.c_size_t(64), None)
    host = driver.pagelocked_empty(4, np.int32)
    return [handle_of(each)[0] for each in (address, pooled.value, host.ctypes.data, 0)]


def files(ask: Callable[..., Any]) -> list[int]:
    """How many files there are: with one of a process that was killed, before and after the next sharing process."""
    folder, before = Path("/dev/shm"), {path.name for path in Path("/dev/shm").glob("softcuda-*")}

    def new() -> int:
        return len({path.name for path in folder.glob("softcuda-*")} - before)

    with second_process() as killed:
        killed("killed")
    left = new()
    with second_process() as next_one:
        memory = zeros()
        _, handle = handle_of(int(memory))
        next_one("open", handle)
    subprocess.run([sys.executable, "-m", "tests.softcuda.sharing", "once"], check=True)
    shared = new()
    memory.free()
    return [left, shared, new()]


CASES = (both_write, out_of_bounds, freed_while_open, wrong_handles, opened_twice, in_the_same_process,
         without_a_handle, files)  # fmt: skip


def main() -> None:
    answers = {}
    for case in CASES:
        with second_process() as ask:
            answers[case.__name__] = case(ask)
    print(json.dumps(answers))


if __name__ == "__main__":
    driver.init()
    context = driver.Device(0).retain_primary_context()
    context.push()
    IMAGE = compile_source(SOURCE, no_extern_c=True, arch="sm_90")
    {"main": main, "other": serve, "once": share_once}[sys.argv[1]]()
    sys.stdout.flush()
    CUDA.cuDevicePrimaryCtxReset_v2(0)  # with all memory
    os._exit(0)  # without the end of PyCUDA's objects
