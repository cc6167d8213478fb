"""What a finding names beside the access: what its address depends on, the calls that led there, who wrote beside."""

from __future__ import annotations

import re

import pytest

from tests.softcuda.device import Device

HEADER = """
struct View {
    int* data;
    int first, stride;
};
__device__ __forceinline__ void set(const View& view, int i)
{
    view.data[view.first + i * view.stride] = i;
}
__device__ __forceinline__ void fill(const View& view, int count)
{
    for (int i = 0; i < count; ++i)
        set(view, i);
}
__device__ __forceinline__ int first_of(const int4& four) { return four.x; }
template <class T> __device__ __forceinline__ void copy(T* to, const T* from)
{
    const unsigned target = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
}
"""
KERNEL = """#include "view.h"
extern "C" __global__ void kernel(int* __restrict__ out)
{{
    __shared__ __align__(16) int tile[96];
    {body}
}}
"""  # the body begins in line 5
THREADS, BLOCKS, SIZE = 32, 2, 4 * 64


def said_of(device: Device, *rows: str) -> str:
    return device.said(device.image(KERNEL.format(body="\n".join(rows)), view=HEADER), "kernel", SIZE, THREADS, BLOCKS)


END = r".* past the end of out .*"
DEPENDS = r"\n    the address depends on "
# Each row of a body stands in a line of its own, from 5 on. What a finding says, and what it must not say.
CASES = {
    "a member of a struct that is named as a member of blockIdx": (
        (
            "float4 v;",
            "v.x = v.y = v.z = v.w = threadIdx.x;",
            "for (int i = blockIdx.x * 64 + threadIdx.x; i < 96; i += 32)",
            "    out[i] = (&v.x)[i % 4];",
        ),
        r"\n    condition before the access: kernel\.cu:7$",
        "depends on",
    ),
    "variables where a thread's own part is chosen come first": (
        (
            "const int length = 32;",
            "const int first = blockIdx.x * length + 1;",
            "const int half = (first + length) / 2;",
            "out[2 * half + threadIdx.x] = 1;",
        ),
        DEPENDS + r"first \(kernel\.cu:6\), half \(kernel\.cu:7\)$",
        "length",
    ),
    "a race between blocks": (
        ("const int first = blockIdx.x * 16;", "const int i = first + threadIdx.x;", "", "out[i] = first;"),
        r"race between blocks .*\n.*kernel\.cu:8: .*\n.*kernel\.cu:8: .*nothing orders the blocks"
        + DEPENDS
        + r"i \(kernel\.cu:6\), first \(kernel\.cu:5\)$",
        "condition",
    ),
    "the condition that let the thread come so far": (
        (
            "const int end = gridDim.x * 32 + 1;",
            "for (int i = threadIdx.x; i < 3; i += 32)",
            "    tile[i] = i;",
            "const int i = blockIdx.x * 32 + threadIdx.x + 1;",
            "if (i >= end)",
            "    return;",
            "",
            "out[i] = 7;",
        ),
        DEPENDS + r"i \(kernel\.cu:8\); condition before it: kernel\.cu:9$",
        r"kernel\.cu:6",
    ),
    "for a condition beside the access, a variable of it that is not named yet": (
        (
            "const int i = blockIdx.x * 32 + threadIdx.x + 1;",
            "const int end = gridDim.x * 32 + 1;",
            "",
            "if (i < end)",
            "    out[i] = 7;",
        ),
        DEPENDS + r"i \(kernel\.cu:5\); condition before it: end \(kernel\.cu:6\)$",
        r"kernel\.cu:8",
    ),
    "where an asynchronous copy in PTX reads": (
        (
            "const int mine = 4 * threadIdx.x;",
            "const int first = 32 * blockIdx.x + 64;",
            "if (threadIdx.x < 24)",
            "    copy(tile + mine, out + first);",
            "__pipeline_commit(); __pipeline_wait_prior(0);",
        ),
        r"view\.h:\d+ \(called at kernel\.cu:8\): .* reads 16 bytes \(asynchronous copy\)"
        + END
        + DEPENDS
        + r"first \(kernel\.cu:6\)",
        "mine",
    ),
    "where an asynchronous copy in PTX writes": (
        (
            "const int mine = 4 * threadIdx.x + 128;",
            "const int first = 4 * blockIdx.x;",
            "",
            "copy(tile + mine, out + first);",
        ),
        r"view\.h:\d+ \(called at kernel\.cu:8\): .* writes 16 bytes \(asynchronous copy\).*"
        + DEPENDS
        + r"mine \(kernel\.cu:5\)",
        "first",
    ),
    "the side of an asynchronous copy that is misaligned": (
        (
            "const int mine = 4 * threadIdx.x;",
            "const int first = 2 * blockIdx.x + 1;",
            "",
            "copy(tile + mine, out + first);",
        ),
        r"copies 16 bytes from an address that is no multiple of that" + DEPENDS + r"first \(kernel\.cu:6\)$",
        "mine",
    ),
    "the shared array that an asynchronous copy is misaligned in": (
        ("const int mine = 3 * threadIdx.x + 1;", "", "", "copy(tile + mine, out);"),
        r"16 bytes to an address that is no multiple of that, in shared tile, 384 bytes \(declared at kernel\.cu:4\)"
        + DEPENDS
        + r"mine \(kernel\.cu:5\)$",
        "copies 16 bytes from",
    ),
    "what a reference depends on that is misaligned": (
        (
            "const int mine = threadIdx.x + blockIdx.x + 1;",
            "",
            "",
            "out[0] = first_of(reinterpret_cast<int4&>(out[mine]));",
        ),
        r"misaligned access in kernel\n  kernel\.cu:8: .*" + DEPENDS + r"mine \(kernel\.cu:5\)$",
        "in shared",
    ),
    "variables that a lambda function captured": (
        (
            "const int end = gridDim.x * 32 + 1;",
            "const int first = blockIdx.x * 32 + 1;",
            "int last = first; last += end;",
            "const auto put = [&](int i) __attribute__((noinline)) {",
            "    if (i < end)",
            "        out[first + i] = last;",
            "};",
            "put(threadIdx.x);",
        ),
        r"kernel\.cu:10: .*" + DEPENDS + r"first \(kernel\.cu:6\); condition before it: end \(kernel\.cu:5\)$",
        r"last|kernel\.cu:11",
    ),
    "members of another variable, and of threadIdx, are not its own": (
        (
            "float4 other, own;",
            "own.y = 64 * blockIdx.x;",
            "other.x = tile[threadIdx.x] = 3;",
            "other.y = other.x + 2;",
            "tile[1] = other.y;",
            "out[(int)own.y + threadIdx.x] = 1;",
        ),
        DEPENDS + r"y \(kernel\.cu:6\)$",
        r"kernel\.cu:[78]",
    ),
    "conditions of constants alone are not named": (
        ("int* to = out + threadIdx.x;", "for (int i = 0; i < 4; ++i) {", "    to += 32;", "    *to = 3;", "}"),
        DEPENDS + r"(to \(kernel\.cu:[57]\)(, |$)){2}",
        "condition",
    ),
    "through the fields of a struct, and all calls that led there": (
        ("View view;", "view.data = out;", "view.stride = 2;", "view.first = 32 * blockIdx.x;", "", "fill(view, 33);"),
        r"\n  view\.h:8 \(called at view\.h:13, kernel\.cu:10\): .*"
        + DEPENDS
        + r"first \(kernel\.cu:8\), data \(kernel\.cu:6\)$",
        "ptx",
    ),
    "a flag in a local array": (
        (
            "bool there[2];",
            "for (int i = 0; i < 2; ++i)",
            "    there[i] = 32 * i + threadIdx.x <= 32;",
            "for (int i = 0; i < 2; ++i)",
            "    if (there[i]) out[64 * i + threadIdx.x] = 1;",
        ),
        r"condition before (?:it|the access): there \(kernel\.cu:7\)",
        "tile",
    ),
    "a vote is no address": (
        ("out[__ballot_sync(0xffffffffu, 1) ? 64 : 0] = threadIdx.x;",),
        r"just past the end of out \(argument 1\), 256 bytes$",
        "depends",
    ),
    "both accesses of a race": (
        (
            "const int mine = threadIdx.x + 1;",
            "tile[threadIdx.x] = tile[threadIdx.x + 32] = 0; __syncthreads();",
            "tile[mine] = 1;",
            "const int other = threadIdx.x ^ 1;",
            "",
            "out[32 * blockIdx.x + threadIdx.x] = tile[other + 2];",
        ),
        r"race in .*\n.*kernel\.cu:7: .* writes .*\n.*kernel\.cu:10: .* read them, with no barrier between"
        r"\n    the first address depends on mine \(kernel\.cu:5\)"
        r"\n    the second address depends on other \(kernel\.cu:8\)$",
        "condition",
    ),
    "who wrote beside what nobody wrote": (
        (
            "const int last = 30;",
            "for (int i = threadIdx.x; i <= last; i += 32)",
            "    tile[i] = 1;",
            "__syncthreads();",
            "",
            "out[32 * blockIdx.x + threadIdx.x] = tile[threadIdx.x];",
        ),
        r"uninitialised memory in .*\n  kernel\.cu:10: thread \(31, 0\) .* of shared tile at byte 124, which nothing "
        r"writes in this block\n  kernel\.cu:7: thread \(30, 0\) of block \(0, 0\) wrote the nearest that is written, "
        r"tile at byte 120\n    condition before the access: kernel\.cu:6$",
        "last",
    ),
    "nobody wrote any of it": (
        ("out[32 * blockIdx.x + threadIdx.x] = tile[threadIdx.x];",),
        r"of shared tile at byte 0, which nothing writes in this block$",
        "nearest",
    ),
}


# All of them in one text, which is compiled once.
HEAD, _, REST = KERNEL.partition("\n")
KERNELS = [
    REST.replace("kernel(", f"kernel_{i}(").format(body="\n".join(rows)) for i, (rows, *_) in enumerate(CASES.values())
]
TEXT = "\n".join([HEAD, *KERNELS])


@pytest.mark.parametrize("case", CASES)
def test_a_finding_names(checked: Device, case: str) -> None:
    (_, said, unsaid), number = CASES[case], [*CASES].index(case)
    heard = checked.said(checked.image(TEXT, view=HEADER), f"kernel_{number}", SIZE, THREADS, BLOCKS)
    before = "\n".join(KERNELS[:number]).count("\n") + (number > 0)
    alone = re.sub(r"(?<=kernel\.cu:)\d+", lambda line: str(int(line[0]) - before), heard).replace(
        f"kernel_{number}", "kernel"
    )
    assert re.search(said, alone), alone
    assert not re.search(unsaid, alone), alone


def test_a_finding_names_at_most_three_lines_that_an_address_depends_on(checked: Device) -> None:
    names = [f"v{i}" for i in range(8)]
    rows = [f"const int {name} = blockIdx.x * {i} + out[{i}];" for i, name in enumerate(names)]
    rows += [f"if ({name} < 100)" for name in names]
    heard = said_of(checked, *rows, f"    out[64 + {' + '.join(names)}] = 1;")
    depends = [line for line in heard.split("\n") if line.startswith("    ")]
    assert len(depends) == 1, heard
    variables, conditions = depends[0].split("; condition before it: ")
    assert (variables.count("kernel.cu:"), conditions.count("kernel.cu:")) == (2, 1), heard


def test_what_is_not_checked_carries_no_table(checked: Device) -> None:
    text = 'extern "C" __global__ void kernel(int* out) { const int i = threadIdx.x;\n out[i] = i; }\n'
    with_table, plain = (device.image(text).path.read_bytes() for device in (checked, checked.unchecked))
    assert b"kernel.cu:2\tw\ti=" in with_table
    assert b"kernel.cu:2\tw\t" not in plain
