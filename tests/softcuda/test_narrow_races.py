"""Races of accesses of 1 and 2 bytes: those of neighbours in one word are none, and what each of them did is known."""

from __future__ import annotations

import pytest

from tests.softcuda import calls
from warpwatch.devices.compile.compiler import Image, compile_text
from warpwatch.devices.worker import Worker, describe_device

ORDERS = (None, 1, 2, 3)
MEMORY = {
    "shared": "__shared__ __align__(16) T x[128]; if (t < 64) x[t + 64] = 0; __syncthreads();",
    "global": "T* x = reinterpret_cast<T*>(out) + 128 * blockIdx.x;",
}
# What 64 threads do with x[0] to x[63], without and with a barrier where BARRIER stands; the others hold zeros.
RACES = {
    "the first of a pair is read by a third thread": "if (t < 2) x[t] = 1; BARRIER if (t == 40) x[70] = x[0];",
    "the second of a pair is read by a third thread": "if (t < 2) x[t] = 1; BARRIER if (t == 40) x[70] = x[1];",
    "all write and others read the even ones": "x[t] = t; BARRIER if (t & 1) x[64 + t] = x[(t + 33) % 64 & ~1];",
    "all write and others read the odd ones": "x[t] = t; BARRIER if (t & 1) x[64 + t] = x[(t + 34) % 64 | 1];",
    "two write one element": "if (t < 4) x[t] = 1; BARRIER if (t == 50) x[0] = 2;",
    "read by neighbours and then written": "SET if (x[t] + x[t ^ 1] == 99) return; BARRIER if (t == 45) x[0] = 2;",
    "read one by one and then written": "SET if (x[t] == 99) return; BARRIER if (t == 45) x[0] = 2;",
    "a word is written and a part is read": "if (t == 0) *(int*)x = 5; BARRIER if (t == 40) x[70] = x[1];",
    "parts are written and the word is read": "if (t < 4) x[t] = 1; BARRIER if (t == 40) *(int*)(x + 72) = *(int*)x;",
    "a part is read, the word is written": "SET if (t < 4 && x[t] == 9) return; BARRIER if (t == 40) *(int*)x = 5;",
}
BARRIER = "__syncthreads();"
TYPES = ("half", "unsigned char", "__nv_bfloat16", "short")


# What each kernel does, by its name; for the races also by its memory, and by whether it has the barrier.
BODIES: dict[str | tuple[str, str, bool], str] = {
    (memory, name, barrier): f"{MEMORY[memory]}\n    {RACES[name].replace('BARRIER', BARRIER if barrier else chr(10))}"
    for memory in MEMORY
    for name in RACES
    for barrier in (False, True)
}
OF_BLOCKS = "T* x = reinterpret_cast<T*>(out); const int i = t * gridDim.x + blockIdx.x; x[i] = T(1);"
BODIES["neighbours"] = OF_BLOCKS
BODIES["reads another's"] = f"{OF_BLOCKS} if (blockIdx.x == 3) x[i] = x[i - 3];"
BODIES["never written"] = (
    "__shared__ T x[128]; if (t & 1) x[t] = T(1); __syncthreads(); if (t == 5) out[0] = int(float(x[6]));"
)
ENTRIES = {name: f"narrow_{number}" for number, name in enumerate(BODIES)}


@pytest.fixture(scope="module")
def images(software: Worker) -> dict[str, Image]:
    """The kernels of each type, compiled together."""
    target = software.call(describe_device).target
    return {kind: compile_text(all_kernels(kind), "narrow.cu", target) for kind in TYPES}


def all_kernels(kind: str) -> str:
    header = {"half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h"}.get(kind, "cuda_runtime.h")
    kernels = []
    for name, entry in ENTRIES.items():
        body = BODIES[name].replace("SET", "x[t] = 1; __syncthreads();")
        if header != "cuda_runtime.h":
            body = body.replace("= t;", "= T(float(t));").replace("== 99", "== T(99)").replace("== 9)", "== T(9))")
        kernels.append(
            f'extern "C" __global__ void {entry}(int* out)\n{{\n    const int t = threadIdx.x;\n    {body}\n'
            "    if (blockDim.x == 7) out[t] = int(x[t]); // so that g++ keeps what is written\n}\n"
        )
    return f"#include <{header}>\ntypedef {kind} T;\n" + "\n".join(kernels)


def answers(software: Worker, image: Image, name: str | tuple[str, str, bool], blocks: int = 1) -> list[bytes | str]:
    return software.call(calls.run_in_orders, ORDERS, image.path, ENTRIES[name], (64, 1, 1), (blocks, 1), 1024, 0)


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", RACES)
def test_a_race_on_part_of_a_word_is_found_in_every_order(
    software: Worker, images: dict[str, Image], name: str, memory: str
) -> None:
    for kind in TYPES[: 4 if name.startswith("all") else 2]:
        for said in answers(software, images[kind], (memory, name, False)):
            # Before the write, an order may find a read of what nothing has written.
            assert isinstance(said, str), f"{kind}: nothing was found"
            assert "softcuda: race" in said or "softcuda: uninitialised" in said, said


@pytest.mark.once
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", RACES)
def test_with_a_barrier_it_is_none(software: Worker, images: dict[str, Image], name: str, memory: str) -> None:
    for kind in TYPES[: 4 if name.startswith("all") else 2]:
        for said in answers(software, images[kind], (memory, name, True)):
            assert isinstance(said, bytes), said


@pytest.mark.parametrize("kind", TYPES)
def test_blocks_that_read_neighbouring_parts_are_accused_writers_are_not(
    software: Worker, images: dict[str, Image], kind: str
) -> None:
    """Elements 64, 63, 62 ... of blocks 0, 1, 2 share words; a block that reads another's element has a race."""
    for said in answers(software, images[kind], "neighbours", 4):
        assert isinstance(said, bytes), said
    found = answers(software, images[kind], "reads another's", 4)
    assert all("race between blocks" in str(said) for said in found), found


def test_parts_that_nothing_wrote_are_known(software: Worker, images: dict[str, Image]) -> None:
    for kind in TYPES[:2]:
        for said in answers(software, images[kind], "never written"):
            assert "uninitialised memory" in str(said), said
