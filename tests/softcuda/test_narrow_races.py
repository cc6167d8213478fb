"""Races of accesses of 1 and 2 bytes: those of neighbours in one word are none, and what each of them did is known."""

from __future__ import annotations

import pytest

from tests.softcuda.device import Device
from warpwatch.devices.compile.compiler import compile_text

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


def answers(checked: Device, kind: str, name: str | tuple[str, str, bool], blocks: int = 1) -> list[bytes | str]:
    """The kernels of a type are compiled together."""
    image = compile_text(all_kernels(kind), "narrow.cu", checked.target)
    return checked.left(image, ENTRIES[name], 1024, 64, blocks, orders=(None, 1, 2, 3))


kinds = pytest.mark.parametrize("kind", [TYPES[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in TYPES[1:])])


@kinds
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", RACES)
def test_a_race_on_part_of_a_word_is_found_in_every_order(checked: Device, name: str, memory: str, kind: str) -> None:
    for said in answers(checked, kind, (memory, name, False)):
        # Before the write, an order may find a read of what nothing has written.
        assert "softcuda: race" in str(said) or "softcuda: uninitialised" in str(said), said


@pytest.mark.once
@kinds
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", RACES)
def test_with_a_barrier_it_is_none(checked: Device, name: str, memory: str, kind: str) -> None:
    for said in answers(checked, kind, (memory, name, True)):
        assert isinstance(said, bytes), said


@kinds
def test_blocks_that_read_neighbouring_parts_are_accused_writers_are_not(checked: Device, kind: str) -> None:
    """Elements 64, 63, 62 ... of blocks 0, 1, 2 share words; a block that reads another's element has a race."""
    for said in answers(checked, kind, "neighbours", 4):
        assert isinstance(said, bytes), said
    found = answers(checked, kind, "reads another's", 4)
    assert all("race between blocks" in str(said) for said in found), found


@kinds
def test_parts_that_nothing_wrote_are_known(checked: Device, kind: str) -> None:
    for said in answers(checked, kind, "never written"):
        assert "uninitialised memory" in str(said), said
