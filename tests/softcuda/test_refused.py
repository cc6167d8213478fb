"""What the compiler of the software device does not take is an error that names it, with its line."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.softcuda.device import Device

GROUPS = "".join(f"#include <cooperative_groups{part}.h>\n" for part in ("", "/reduce", "/scan", "/memcpy_async"))
GROUPS += "namespace cg = cooperative_groups;\n"
BARRIER = r"does not support a reduction at a barrier other than 0"
# Lines of a kernel that has an unsigned r, behind headers, and what is said of each.
LINES = {
    ("", 'asm volatile("wgmma.fence.sync.aligned;");'): r"wgmma\.fence\.sync\.aligned$",
    ("", 'asm("add.u32 %0, %0, %1;\\n\\taddc.sat.u32 %0, %0, 1;" : "+r"(r) : "r"(1));'): r"addc\.sat\.u32 %0, %0, 1$",
    ("", 'asm("mov.u32 %0, %%nosuch;" : "=r"(r));'): r"mov\.u32 %0, %%nosuch \(it has no .* %%nosuch\)$",
    ("", 'asm("mov.u32 %0, %3;" : "=r"(r) : "r"(1));'): r"mov\.u32 %0, %3 \(it has no .* %3\)$",
    ("", 'asm("{ .reg .v4 .b32 x; mov.u32 %0, 1; }" : "=r"(r));'): r"\.reg \.v4 \.b32 x$",
    ("", 'asm("add.u32 %0, %1;" : "=r"(r) : "r"(1));'): r"add\.u32 %0, %1$",
    ("", 'asm("mov.u32 %0, x;" : "=r"(r));'): r"mov\.u32 %0, x \(it has no .* x\)$",
    ("", 'asm volatile("{ .reg .pred p; setp.lt.u32 p, %0, 7; bar.red.popc.u32 %0, 1, p; }" : "+r"(r));'): BARRIER,
    ("", "r = __vadd3(1, 2);"): r"error: .__vadd3. was not declared",
    (GROUPS, "cg::this_cluster();"): r"softcuda does not support this_cluster \(thread block clusters\)",
    (GROUPS, "cg::multi_grid_group grid;"): r"softcuda does not support multi_grid_group \(several devices\)",
    (GROUPS, "cg::tiled_partition<64>(cg::this_thread_block());"): r"tiles of more than a warp: at most 32 threads",
    (GROUPS, "cg::tiled_partition<24>(cg::this_thread_block());"): r"the size of a tile is a power of two",
    (GROUPS, "cg::reduce(cg::this_thread_block(), 1, cg::plus<int>());"): r"no matching function for call to 'reduce",
    (GROUPS, "cg::coalesced_threads().shfl_xor(1, 1);"): r"has no member named 'shfl_xor'",
}
OF_CUB = {"BlockMergeSort": "<int, 32, 1>", "BlockHistogram": "<int, 32, 1, 8>", "WarpMergeSort": "<int, 4>"}
LINES |= {
    ("#include <cub/cub.cuh>\n", f"cub::{name}{arguments} x;"): rf"does not support cub::{name} \(collectives of cub"
    for name, arguments in OF_CUB.items()
}


@pytest.mark.once
@pytest.mark.parametrize(("head", "line"), LINES, ids=[line for _, line in LINES])
def test_what_is_not_there_is_an_error_that_names_it(either: Device, head: str, line: str) -> None:
    begin = f'{head}extern "C" __global__ void sample(unsigned* out)\n{{\n    unsigned r = out[0];\n'
    message = either.refusal(f"{begin}    {line}\n    out[1] = r;\n}}\n")
    number = 1 + begin.count("\n")
    lines = re.findall(rf"^.*kernel\.cu:{number}:\d+: (error: .*)", message, re.MULTILINE)
    assert any(re.search(LINES[head, line], each) for each in lines), message


KERNEL = 'extern "C" __global__ void kernel(float* out) { out[threadIdx.x] = '
# Whole files, the line of each that is refused, and what is said.
FILES = {
    "a call of a host function": (
        f"float helper(float x) {{ return x; }}\n{KERNEL}helper(1); }}",
        r":2:.*helper.*\n(.*\n)*?\S*:2:\S* note: helper is host code, .* mark it __device__",
    ),
    "a variable of the host": (
        f"float factor = 2;\n{KERNEL}factor; }}",
        r":2:.*factor.*\n(.*\n)*?\S*:2:\S* note: factor is host code",
    ),
    "a constant that only code can compute": (
        f"#include <cstdlib>\nconst int count = atoi(getenv(\"COUNT\"));\n{KERNEL}count; }}",
        r":3:.*note: count is host code",
    ),
    "a device's variable that only code can set": (
        f"__device__ float roots[2] = {{ rsqrtf(threadIdx.x), 1 }};\n{KERNEL}roots[0]; }}",
        r":1:\S* error: .*roots.*constant initializer",
    ),
    "a launch from a kernel": (
        f"__global__ void other() {{ }}\n{KERNEL}1;\n    other<<<1, 1>>>(); }}",
        r":3:.*<<<\.\.\.>>> \(launches from kernels\)",
    ),
    "a warp function without a mask in a template": (
        f"template <typename T> __device__ T all(T x)\n{{ return __all(x); }}\n{KERNEL}all(2); }}",
        r":2:\S* error: softcuda does not support __all \(warp functions without a mask\)",
    ),
    "synchronising from a kernel": (
        f"#include <vector>\n\n{KERNEL}1;\n    cudaDeviceSynchronize(); }}",
        r":4:5: error: softcuda does not support cudaDeviceSynchronize",
    ),
    "a header that is not there": (
        "#include <nowhere.h>\n__global__ void k(float* x) { x[0] = HERE; }",
        r":1:10: note: nowhere\.h is missing, and was left out: give its folder",
    ),
    "a header of CUDA's that softcuda has not": (
        "#include <cuda/std/nowhere>\n#ifdef FAST\n#endif\n__global__ void k(float* x) { x[0] = HERE; }",
        r":1:10: note: cuda/std/nowhere is missing, and was left out: of cuda/ softcuda has a part",
    ),
    "a header that may choose device code": (
        "#include <nowhere.h>\n#ifdef FAST\n#endif\n#if WIDE\n#endif",
        r":1:10: error: nowhere\.h is missing, and may define FAST, which .*\.cu:2 asks for: give its folder with -I"
        r" \(include=\), or say -DFAST or -UFAST \(flags=\); so for WIDE \(.*\.cu:4\)",
    ),
    "a texture reference": (
        "texture<float, 1> old;\n__global__ void kernel(float* out) { out[0] = tex1Dfetch(old, 3); }",
        r"kernel\.cu:1: error: softcuda does not support texture<\.\.\.> \(texture references, .*: give the kernel a"
        r" cudaTextureObject_t",
    ),
    "elements that a texture has not": (
        "__global__ void kernel(cudaTextureObject_t t, float3* out)\n{\n    out[0] = tex2D<float3>(t, 1, 2);\n}",
        r"a texture has elements of 1, 2 or 4 char, short, int",
    ),
    "an instance with what softcuda has not": (
        "template <int N> __global__ void k(int* out)\n{ *out = N; asm volatile(\"wgmma.fence.sync.aligned;\"); }\n"
        "void launch() { k<3><<<1, 1>>>(nullptr); }",
        r":2:\d+: error: softcuda does not support .*wgmma",
    ),
    "an instance within which g++ finds an error": (
        "template <typename T> __global__ void good(T* out) { *out = 1; }\n"
        "template <typename T> __global__ void wrong(T* out) { out->first = 1; }\n"
        "void launch() { good<int><<<1, 1>>>(nullptr); wrong<int><<<1, 1>>>(nullptr); }",
        r":2:\d+: error: request for member .*first",
    ),
    "what g++ said first, where setting functions aside does not help": (
        f"constexpr int helper(int x) {{ return x + undeclared; }}\n{KERNEL}helper(2); }}",
        r":1:\d+: error: .undeclared. was not declared",
    ),
}  # fmt: skip


def test_a_macro_that_the_command_line_undefines_is_of_no_missing_header(checked: Device) -> None:
    undefines = replace(checked, flags=("-UFAST",))
    undefines.image("#include <nowhere.h>\n#ifdef FAST\n#error fast\n#endif\n__global__ void k(int* x) { *x = 1; }\n")


@pytest.mark.parametrize("guard", ["NOWHERE_AT_ALL_H", "NOWHERE_AT_ALL_H_"])
def test_a_missing_header_has_the_guard_of_its_name(checked: Device, guard: str) -> None:
    checked.image(f"#include <nowhere/at-all.h>\n#ifndef {guard}\n#error other\n#endif\n__global__ void k() {{ }}\n")


def test_an_error_comes_without_what_is_no_error(either: Device) -> None:
    template = "template <typename T> __global__ void k(T* x) { static int unused; *x = HERE; }"
    message = either.refusal(f"{template}\ntemplate __global__ void k<float>(float*);\n")
    assert "HERE" in message
    assert not re.search("instantiation|warning", message), message


# `make test` runs these, and of the others none.
FAST = {"a call of a host function", "a header that may choose device code", "an instance with what softcuda has not"}
PARAMS = [pytest.param(*each, id=name, marks=[] if name in FAST else pytest.mark.slow) for name, each in FILES.items()]


@pytest.mark.parametrize(("text", "said"), PARAMS)
def test_what_is_refused_is_named_with_its_line(either: Device, text: str, said: str) -> None:
    message = either.refusal(f"{text}\nint main() {{ return 0; }}\n")
    assert re.search(said, message), message
