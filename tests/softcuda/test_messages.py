"""What the software device's findings say: the kernel's own lines, what is missing, and how big a copy is."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.softcuda import calls
from tests.softcuda.device import Device

COPIES = """
template <int bytes, class T> __device__ __forceinline__ void copy(T* to, const T* from, int there = bytes)
{
    const unsigned target = __cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(target), "l"(from), "n"(bytes), "r"(there));
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int later> __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(later)); }
__constant__ int factors[4];
"""
KERNEL = """#include "copies.h"
extern "C" __global__ void kernel(int* out)
{{
    __shared__ __align__(16) int tile[512], flag;
    const int t = threadIdx.x;
    {body}
}}
"""
FIRST_LINE = 6  # of the body


def said_of(device: Device, body: str, size: int = 4096) -> str:
    """What is found in a kernel of that body, or nothing."""
    return device.said(device.image(KERNEL.format(body=body), copies=COPIES), "kernel", size)


def lines(*rows: str) -> str:
    return "\n".join(rows)


BARRIER = r"barrier error in kernel\n  "
EARLY = r"uninitialised memory in kernel\n  kernel\.cu:7: "
LATER = r"which is written only later\n  "
NOT_WAITED = r"asynchronous copy not waited for in kernel\n  "
FIRST = r"thread \(0, 0\) of block \(0, 0\)"
# Each line of a body stands on a line of its own, from FIRST_LINE on.
SAID = {
    "a header of softcuda's is not the place": (
        lines("copy<4>(tile + t, out + t + 1024);", "commit();", "wait<0>();"),
        r"out of bounds in kernel\n  copies\.h:5 \(called at kernel\.cu:6\): thread \(0, 0\)",
    ),
    "nor for a warp function": (
        lines("if (t < 16)", "    out[t] = __shfl_down_sync(0xffffffffu, t, 1);"),
        BARRIER + r"kernel\.cu:7: ",
    ),
    "a copy has its own size": (
        lines("copy<16>(tile + 4 * t, out + 4 * t + 4);", "commit();", "wait<0>();"),
        r"reads 16 bytes \(asynchronous copy\) at 0x\w+, just past the end of out",
    ),
    "a copy across the end": (
        lines("copy<16>(tile + 4 * t, out + 4 * t);", "commit();", "wait<0>();"),
        r"thread \(31, 0\) .* reads 16 bytes \(asynchronous copy\) at 0x\w+, 8 bytes across the end of out",
    ),
    "a wait one stage short": (
        "for (int i = 0; i < 3; ++i) {\n    copy<4>(tile + 32 * i + t, out + t);\n    commit();\n}\n"
        "wait<2>();\n__syncthreads();\nout[64 + t] = tile[t] + tile[32 + t];",
        NOT_WAITED + rf"kernel\.cu:12: {FIRST} reads 4 bytes of shared tile at byte 128"
        rf"\n  copies\.h:5 \(called at kernel\.cu:7\): {FIRST} copies 4 bytes there, and has not waited for them:"
        r"\n  copies\.h:8 \(called at kernel\.cu:10\): this wait leaves the newest 2 groups open, and 1 group was"
        r" committed after that copy's: it has to leave at most 1",
    ),
    "no wait at all": (
        "copy<8>(tile + 2 * t, out + 2 * t);\ncommit();\n__syncthreads();\nout[64 + t] = tile[t + 2 & 31];",
        NOT_WAITED + r"kernel\.cu:9: .*\n  copies\.h:5 \(called at kernel\.cu:6\): "
        r"thread \(1, 0\) of block \(0, 0\) copies 8 bytes there, and has not waited since it committed them",
    ),
    "a copy that is not committed": (
        lines("copy<4>(tile + t, out + t);", "wait<0>();", "__syncthreads();", "out[64 + t] = tile[t];"),
        NOT_WAITED + r"kernel\.cu:9: .*copies 4 bytes there, which is not committed to a group",
    ),
    "a copy over a copy": (
        lines("copy<4>(tile + t, out + t);", "commit();", "copy<4>(tile + t, out + t);", "wait<0>();"),
        NOT_WAITED + r"copies\.h:5 \(called at kernel\.cu:8\): .* writes 4 bytes"
        r" \(asynchronous copy\) of shared tile",
    ),
    "a barrier is missing after the wait": (
        lines("copy<4>(tile + t, out + t);", "commit();", "wait<0>();", "out[64 + t] = tile[t / 2];"),
        r"race in kernel\n  kernel\.cu:9: thread \(1, 0\)",
    ),
    "read before it is written": (
        lines("if (t == 0)", "    out[64] = flag;", "__syncthreads();", "if (t == 1)", "    flag = 3;"),
        EARLY + r".* reads 4 bytes of shared flag at byte 0,"
        r" which is written only later\n  kernel\.cu:10: thread \(1, 0\) of block \(0, 0\) writes it: a barrier",
    ),
    "with no barrier between": (
        lines("if (t == 0)", "    out[64] = flag;", "if (t == 1)", "    flag = 3;"),
        EARLY + r".* which is written only later\n  kernel\.cu:9: thread \(1, 0\)",
    ),
    "by a copy": (
        "if (t == 0)\n    out[64] = tile[7];\nif (t == 7)\n    copy<4>(tile + t, out + t);\ncommit();\nwait<0>();",
        EARLY + r".* which is written only later\n  copies\.h:5 \(called at kernel\.cu:9\)",
    ),
    "by the same thread": (
        lines("if (t == 0) {", "    out[64] = flag;", "    flag = 3;", "}"),
        EARLY + r".*\n  kernel\.cu:8: .*: the same thread reads first",
    ),
    "never written": (
        lines("if (t == 0)", "    out[64] = flag;", "__syncthreads();", "out[t] = 1;"),
        EARLY + r".* of shared flag at byte 0, which nothing writes in this block$",
    ),
    "never written, and what comes of it is worse": (
        lines("if (t == 0)", "    out[100000 + flag] = 1;"),
        EARLY + r"[^\n]* of shared flag at byte 0, which nothing had written\nsoftcuda: out of bounds in kernel\n",
    ),
    "bytes past the end": (
        lines("if (t == 0)", "    memset(out, 0, 4097);"),
        r"softcuda: out of bounds .*\n  kernel\.cu:7: thread \(0, 0\) .* writes 1 byte at .*, just past the end of out",
    ),
    "a lane that returned": (
        lines("if (t > 20)", "    return;", "out[t] = __shfl_xor_sync(0xffffffffu, t, 16);"),
        BARRIER + r"kernel\.cu:8: .*lane.* has returned \(kernel\.cu:7\)",
    ),
    "threads that go around a barrier, and not those that returned": (
        lines("if (t > 20)", "    return;", "if (t < 18)", "    __syncthreads();"),
        BARRIER + r"kernel\.cu:9: .* and not by 3 threads \(first: \(18, 0\)\), the first of which has ended",
    ),
    "a lane that waits elsewhere": (
        lines("if (t > 20)", "    __syncthreads();", "else", "    __syncwarp();", "__syncwarp(1u << t);"),
        BARRIER + r"kernel\.cu:9: .* which never come: that thread waits at kernel\.cu:7",
    ),
}


def test_a_write_to_constant_memory_is_a_finding(checked: Device) -> None:
    heard = said_of(checked, "const_cast<int*>(factors)[t & 3] = 1;")
    assert re.search(r"write to constant memory in kernel\n  kernel\.cu:6: .* of factors", heard, re.DOTALL), heard


@pytest.mark.once
@pytest.mark.parametrize(("body", "said"), SAID.values(), ids=SAID)
def test_a_finding_says(checked: Device, body: str, said: str) -> None:
    size = 4 * (4 * 32 - 2) if "across" in said else 4 * 128 if "16 bytes" in said else 4096
    heard = said_of(checked, body, size)
    assert re.search(said, heard, re.DOTALL), heard
    assert "ptx.h" not in heard


GLOBAL = """
extern "C" __global__ void kernel(int* in, int* out)
{
    out[blockIdx.x] = in[0];
    if (blockIdx.x == WRITER)
        in[0] = 5;
}
"""


@pytest.mark.parametrize("name", ["two words", "c: d", "a (discriminator 3) b", "x:9"])
def test_a_place_may_lie_in_a_folder_of_any_name(checked: Device, name: str) -> None:
    (checked.folder / name).mkdir()
    said = said_of(replace(checked, folder=checked.folder / name), "out[t + 1024] = 1;")
    assert re.search(r"out of bounds in kernel\n  kernel\.cu:6: thread \(0, 0\)", said), said


DECLARED = """
__constant__ float filter[12];
extern "C" __global__ void kernel(float* out)
{
    __shared__ float row[20];
    row[threadIdx.x + int(out[40])] = 1;
    __syncthreads();
    out[threadIdx.x] = row[0] + filter[threadIdx.x / 2 + int(out[41])];
}
"""


def test_an_array_whose_end_is_passed_is_shown_with_its_declaration(checked: Device) -> None:
    said = checked.said(checked.image(DECLARED), "kernel", 256)
    for line, array in (6, r"shared row, 80 bytes \(declared at kernel\.cu:5"), (8, r"constant filter, 48 .*cu:2"):
        assert re.search(rf"kernel\.cu:{line}: .* past the end of {array}\)$", said, re.MULTILINE), said


SEVERAL = """
extern "C" __global__ void before(int* out) { __shared__ int tile[2048]; tile[threadIdx.x] = 1; out[0] = tile[0]; }
extern "C" __global__ void t(int* out) { __shared__ int row[32]; row[threadIdx.x * 200] = 1; out[0] = row[0]; }
extern "C" __global__ void after(int* out) { __shared__ int tile[2048]; tile[threadIdx.x] = 1; out[0] = tile[0]; }
extern "C" __global__ void dynamic(int* out) { extern __shared__ int all[]; all[threadIdx.x] = 1; out[0] = 1; }
"""


def test_shared_memory_of_other_kernels_is_none_of_this_one(checked: Device) -> None:
    image = checked.image(SEVERAL)
    sizes = {name: checked.worker.call(calls.shared_bytes, image.path, name) for name in ("before", "t", "dynamic")}
    assert sizes == {"before": 8192, "t": 128, "dynamic": 0}
    wanted = r"kernel\.cu:3: thread \(1, 0\) .* 672 bytes past the end of shared row, 128 bytes \(declared at kernel"
    assert re.search(wanted, checked.said(image, "t", 256))
    assert "in dynamic shared memory, of which the launch asks for 0 bytes" in checked.said(image, "dynamic", 256)


def test_an_array_in_which_two_threads_meet_in_one_line_is_shown_with_its_declaration(checked: Device) -> None:
    said = said_of(checked, lines("", "tile[t / 2] = t; __syncthreads();", "out[t] = tile[t];"))
    assert re.search(r"7: .* writes 4 bytes of shared tile at byte 0 \(declared at kernel\.cu:4\)\n", said), said
    said = said_of(checked, lines("tile[t] = 0; __syncthreads();", "tile[t] = t;", "out[t] = tile[t ^ 1];"))
    assert re.search(r"7: .* writes 4 bytes of shared tile at byte \d+\n", said), said


MISALIGNED = """
__constant__ float filter[12];
extern "C" __global__ void kernel(double* out)
{
    __shared__ float row[21];
    *reinterpret_cast<double*>(row + 2 * threadIdx.x + 1) = 1;
    __syncthreads();
    out[threadIdx.x] = *reinterpret_cast<const double*>(filter + 2 * threadIdx.x + 1);
    out[8] = *reinterpret_cast<double*>(reinterpret_cast<float*>(out) + 2 * threadIdx.x + 1);
}
"""


def test_an_array_whose_element_is_misaligned_is_shown_with_its_declaration(checked: Device) -> None:
    said = checked.said(checked.image(MISALIGNED), "kernel", 256, threads=4)
    shared, constant = r", in shared row, 84 bytes \(declared at kernel\.cu:5\)", r", in constant filter, 48 .*cu:2\)"
    for line, array in (6, shared), (8, constant), (9, ""):
        assert re.search(rf"kernel\.cu:{line}: .*, which is no multiple of 8{array}$", said, re.MULTILINE), said


@pytest.mark.once
@pytest.mark.parametrize(
    ("writer", "said"),
    [
        (2, r"kernel\.cu:4: .*" + LATER + r"\S*kernel\.cu:6: thread \(0, 0\) of block \(2, 0\)"
         r" writes there: blocks of a launch come in any order"),
        (7, r"kernel\.cu:4: .*which nothing writes in this launch$"),
    ],
)  # fmt: skip
def test_a_read_of_global_memory_before_it_is_written(checked: Device, writer: int, said: str) -> None:
    heard = checked.once(calls.run_on_fresh_memory, checked.image(GLOBAL, {"WRITER": writer}), "kernel", 4)
    assert re.search(r"uninitialised memory in kernel\n  \S*" + said, heard), heard


def test_a_finding_does_not_speak_of_the_copy_that_ended_an_earlier_launch(checked: Device) -> None:
    assert "4 bytes (asynchronous copy)" in said_of(checked, "copy<4>(tile + 600 + t, out + t); wait<0>();")
    said = said_of(checked, "flag = t; out[t] = flag;")
    assert "race in kernel" in said, said
    assert "asynchronous" not in said, said


@pytest.mark.once
@pytest.mark.parametrize(
    "line", ["out[t] = missing; // gr\xf6\xdfe", "#error gr\xf6\xdfe", 'static_assert(1 > 2, "gr\xf6\xdfe");']
)
def test_an_error_in_a_line_that_is_not_utf_8_is_the_compilers_own(checked: Device, line: str) -> None:
    source = checked.folder / "kernel.cu"
    text = KERNEL.partition("\n")[2].format(body=f'printf("%d gr\xf6\xdfe", t);\n{line}')
    source.write_text(text, encoding="latin-1")
    message = checked.refusal(source)
    assert re.search(r"^kernel\.cu:6:\S* error: ", message, re.MULTILINE), message
    assert "Traceback" not in message
    source.write_text(text.replace(line, ""), encoding="latin-1")
    checked.image(source)
