"""What the software device does with unset variables, launch bounds and sizes of asynchronous copies."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kernels import FAMILIES
from tests.project import PROJECT, ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device
from warpwatch.catalogue.cases import find_case
from warpwatch.catalogue.inputs import exact_inputs
from warpwatch.devices.kernel import Kernel
from warpwatch.devices.machine import DeviceError
from warpwatch.devices.opening import Settings
from warpwatch.devices.worker import Worker

ENTRY = 'extern "C" __global__ void'


# Bodies of a kernel with one thread and an array `out` of 32 ones of that type. Right with an initialiser in the place
# of @.
UNSET = {
    "an accumulator": ("float", "float sum@; for (int i = 0; i < 4; ++i) sum += out[i]; out[9] = sum;"),
    "a factor of zero": ("float", "float left@; if (blockDim.x == 7) left = 1; out[9] = left * (out[0] - 1);"),
    "an array in registers": ("float", "float s[4]@; for (int i = 0; i < 4; ++i) s[i] += 1; out[9] = s[3];"),
    "an array in memory": ("float", "float left[40]@; left[int(out[1]) + 1] = 1; out[9] = left[int(out[2]) + 7] + 1;"),
    "a large array": ("float", "float left[9000]@; left[0] = 1; out[9] = left[int(out[1]) + 5] * 2;"),
    "a struct": ("float", "struct alignas(16) Pack { float v[4]; } left@; left.v[int(out[0])] = 1;"
                 " out[9] = 2 * left.v[1 + int(out[1])];"),
    "a double": ("float", "double sum@; for (int i = 0; i < 4; ++i) sum += out[i]; out[9] = float(sum * out[0]);"),
    "doubles": ("float", "double s[6]@; s[int(out[0])] = 1; out[9] = float(2 * s[1 + int(out[1])]);"),
    "in one turn of a loop": ("float", "for (int i = 0; i < 8; ++i) { float sum@; if (i != 5) sum = 0; sum += 1;"
                              " out[i == 5 ? 9 : i] = sum; }"),
    "a sum of integers": ("int", "int sum@; for (int i = 0; i < 4; ++i) sum += out[i]; out[9] = sum;"),
    "a product": ("unsigned", "unsigned p@; for (int i = 0; i < 4; ++i) p *= out[i] + 2; out[9] = p;"),
    "a greatest": ("int", "int most@; for (int i = 0; i < 4; ++i) most = max(most, out[i]); out[9] = most;"),
    "a sign that decides": ("int", "int v@; if (out[0] > 5) v = 3; if (v > 0) out[9] = 5;"),
    "a flag that decides": ("int", "int found@; for (int i = 0; i < 4; ++i) if (out[i] == 7) found = 1;"
                            " if (found) out[9] = 5;"),
    "a number of turns": ("int", "int n@; if (out[0] > 5) n = 3; for (int i = 0; i < n; ++i) out[9] = i;"),
    "an index of its own": ("int", "int own[4] = {1, 2, 3, 4}, i@; if (out[0] > 5) i = 3; out[9] = own[i & 3];"),
    "a choice": ("int", "int v@; if (out[0] > 5) v = 3; out[9] = v < 0 ? 4 : 5;"),
    "long": ("int", "long long v@; if (out[0] > 5) v = 3; out[9] = int(v * out[1] >> 3);"),
    "short": ("int", "short v@; if (out[0] > 5) v = 3; out[9] = v * 3;"),
    "integers in registers": ("int", "int s[4]@; for (int i = 0; i < 4; ++i) s[i] += out[i]; out[9] = s[3];"),
    "integers in memory": ("int", "int left[40]@; left[out[1] + 1] = 1; out[9] = left[out[2] + 7] + 1;"),
    "a member": ("int", "struct { int a, b; float c; } s@; s.a = out[0]; if (out[1] > 5) s.b = 1; out[9] = s.a + s.b;"),
    "a half": ("float", "__half s@; for (int i = 0; i < 4; ++i) s = __hadd(s, __float2half(out[i]));"
               " out[9] = __half2float(s);"),
}  # fmt: skip
# What nothing sets, and changes nothing.
HARMLESS = {
    "a member that is copied": "struct S { int a, b; } s; s.a = out[0]; *reinterpret_cast<S*>(out + 8) = s;",
    "not used where it is unset": "int v; if (out[0] > 5) v = 3; out[9] = out[0] > 5 ? v : 4;",
    "a part that is not used": "int s[8]; for (int i = 0; i < out[3] + 3; ++i) s[i] = i; out[9] = s[out[4] + 1];",
    "a clock beside it": "int s[8]; for (int i = 0; i < out[3] + 3; ++i) s[i] = i; out[9] = s[1] + int(clock64());",
}
# The same with a part of a clock, in nanoseconds, that is seldom another one from one process to the next.
BESIDE = "if (threadIdx.x) return; int s[8]; for (int i = 0; i < out[3] + 3; ++i) s[i] = i; out[9] = s[1] + {};"
CLOCKS = ("int(clock64() >> 20 & 1)", "int(clock64() >> 21 & 1)")


def value_of(checked: Device, body: str, kind: str) -> np.generic:
    """What one thread leaves in out[9]."""
    return left_by(checked, body, kind)[9]  # type: ignore[no-any-return]


def left_by(checked: Device, body: str, kind: str) -> np.ndarray:
    """What one thread leaves of 32 zeros."""
    image = checked.image(f"{ENTRY} sample({kind}* out)\n{{\n    {body}\n}}\n")
    (left,) = checked.left(image, "sample", 4 * 32, 1, orders=(None,))
    assert isinstance(left, bytes), left
    return np.frombuffer(left, "f4" if kind == "float" else "u4")


def kernel_of(entry: str, kind: str, body: str) -> str:
    """Return a kernel that does this where out is ones."""
    ones = "for (int i = 0; i < 32; ++i) out[i] = 1;"
    return f"{ENTRY} {entry}({kind}* out)\n{{\n    {ones}\n    {body}\n}}\n"


# All of them in one text, which is compiled once: each as it is, and with an initialiser.
TEXT = "#include <cuda_fp16.h>\n" + "".join(
    kernel_of(f"unset_{number}", kind, body.replace("@", ""))
    + kernel_of(f"set_{number}", kind, body.replace("@", " = {}"))
    for number, (kind, body) in enumerate(UNSET.values())
)


@pytest.mark.parametrize("name", UNSET)
def test_what_depends_on_an_unset_variable_is_found(checked: Device, name: str) -> None:
    variable, number = re.search(r"(\w+)(?:\[\d+\])?@", UNSET[name][1]), [*UNSET].index(name)
    assert variable
    image = checked.image(TEXT)
    said = checked.said(image, f"unset_{number}", 4 * 32, 1)
    assert re.search(
        rf"unset variable in unset_{number}\n  .*out \(argument 1\), 128 bytes at byte 36 depends on a value that "
        rf"nothing has set, of {variable[1]} \(.*kernel\.cu:\d+\): give it one where it is declared",
        said,
    ), said
    assert checked.said(image, f"set_{number}", 4 * 32, 1) == ""


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_what_depends_on_no_unset_variable_is_not_accused(checked: Device, body: str) -> None:
    assert checked.said(checked.image(kernel_of("sample", "int", body)), "sample", 4 * 32, 1) == ""


def test_of_kernels_with_the_same_variables_six_launches_are_tried_and_the_first_of_each(checked: Device) -> None:
    body = "int seldom; if (threadIdx.x < {}) seldom = out[0]; if (threadIdx.x + 1 == blockDim.x) out[9] = seldom * {};"
    kernel = f"{ENTRY} sample(int* out)\n{{{{\n    {body}\n}}}}\n"
    images = [checked.image(kernel.format(1, factor)) for factor in (3, 4, 5, 6)]
    found = [[bool(checked.said(image, "sample", 4 * 32, threads)) for threads in (1, 2)] for image in images]
    assert found == [*[[False, True]] * 3, [False, False]]
    assert "of seldom" in checked.said(checked.image(kernel.format(0, 7)), "sample", 4 * 32, 1)


@pytest.mark.parametrize("clock", CLOCKS)
def test_what_reads_a_clock_is_not_judged_by_two_launches_that_agree(checked: Device, clock: str) -> None:
    image = checked.image(f"{ENTRY} sample(int* out)\n{{\n    {BESIDE.format(clock)}\n}}\n")
    assert {checked.said(image, "sample", 4 * 32, threads) for threads in (1, 2, 3)} == {""}


def test_an_unset_integer_leads_out_of_every_array(tmp_path: Path) -> None:
    """In a process of its own: among other large arrays, the address may lie in one of them."""
    worker = Worker(PROJECT, Settings(kind="software"))
    device = Device(worker, tmp_path)
    image = device.image(f"{ENTRY} unset(int* out)\n{{\n    int i; if (out[0]) i = 3; out[i] = 1;\n}}\n")
    assert "out of bounds in unset" in device.said(image, "unset", 128, 1)
    worker.stop()


# A kernel's own constants, and what they make of zeros.
OWN_CONSTANTS = {
    "out[9] = (out[0] + 0x12345678u) & 0xfefefefeu;": 0x12345678 & 0xFEFEFEFE,
    "out[9] = ~0x01010101u + out[0];": 0xFEFEFEFE,
    "unsigned long long x = out[0] ? 1 : 0xfefefefefefefefeull; out[9] = unsigned(x >> 32);": 0xFEFEFEFE,
    "unsigned char c[64]; memset(c, 254, 64); out[9] = c[out[0] + 7];": 254,
    "unsigned char c[9000]; memset(c, 254, 9000 - out[0]); out[9] = c[out[1] + 99];": 254,
}


@pytest.mark.parametrize(("body", "wanted"), OWN_CONSTANTS.items())
def test_constants_that_look_like_what_is_unset_stay(checked: Device, body: str, wanted: int) -> None:
    assert value_of(checked, body, "unsigned") == wanted


@pytest.mark.once
@pytest.mark.parametrize(
    ("file", "right", "wrong", "variable"),
    [
        ("vectorised.cu", "scalar_t sums[side][side] = {};", "scalar_t sums[side][side];", "sums"),
        ("microtile.h", "Pack loaded = {};", "Pack loaded;", "loaded"),
    ],
)
def test_an_unset_sum_of_a_register_tile_is_found(
    checked: Device, file: str, right: str, wrong: str, variable: str
) -> None:
    case = find_case(FAMILIES, "matmul-vectorised-64x64-65x67x66-float32")
    for name in ("vectorised.cu", "microtile.h"):
        text = (ROOT / "kernels/matmul" / name).read_text()
        if name == file:
            assert right in text
            text = text.replace(right, wrong)
        (checked.folder / name).write_text(text)
    image = checked.image(checked.folder / "vectorised.cu", case.build.all_macros)
    with pytest.raises(DeviceError, match=rf"unset variable in matmul_vectorised\n  .* depends on .*{variable}"):
        Kernel(checked.worker, case.build, image).run(case.shape, exact_inputs(case, 0))


OVERFLOWS = {  # every operation that g++ watches; the array is full of zeros
    "(out[0] + 46341) * (out[1] + 46342)": "46341 * 46342",
    "(out[0] + 2147483647) + (out[1] + 1)": "2147483647 + 1",
    "(out[0] - 2147483647) - (out[1] + 2)": "-2147483647 - 2",
    "(out[0] - 2147483647 - 1) / (out[1] - 1)": "-2147483648 / -1",
    "-(out[0] - 2147483647 - 1)": "-(-2147483648)",
}


@pytest.mark.once
@pytest.mark.parametrize(("expression", "computed"), OVERFLOWS.items())
def test_signed_overflow_is_found(checked: Device, expression: str, computed: str) -> None:
    image = checked.image(f"{ENTRY} one(int* out)\n{{\n    out[9] = {expression};\n}}\n")
    said = checked.said(image, "one", 128, 1)
    assert "softcuda: signed overflow in one\n" in said
    assert f"kernel.cu:3: thread (0, 0) of block (0, 0) computes {computed}, which does not fit in 'int'" in said


def test_what_cuda_wraps_is_no_overflow(checked: Device) -> None:
    """Atomics and intrinsics wrap, and so do unsigned numbers."""
    left_by(
        checked,
        "out[1] = 2147483647; atomicAdd(out + 1, 2); atomicSub(out + 1, 5); out[2] = __dp4a(1 << 24, 1 << 24, out[1]);"
        " out[9] = int(unsigned(out[1]) * 65537u) + out[1] * 0;",
        "int",
    )


BOUNDED = """
#define HALF(n) ((n) / 2)
#define AT_MOST(n) __launch_bounds__(n)
constexpr int threads = 128;
extern "C" __global__ void __launch_bounds__(HALF(threads)) by_macro(int* out) { out[threadIdx.x] = 1; }
template <class T, int n> __global__ __launch_bounds__(n * 32, 2) void instance(T* out) { out[threadIdx.x] = n; }
template __global__ void instance<float, 3>(float*);
template __global__ void instance<double, 2>(double*);
__launch_bounds__(17) extern "C" __global__ void before(float* out) { out[threadIdx.x] = 1; }
extern "C" __global__ void __launch_bounds__(40) declared(float* out);
extern "C" __global__ void declared(float* out) { out[threadIdx.x] = 1; }
extern "C" __global__ void AT_MOST(48) hidden(float* out) { out[threadIdx.x] = 1; }
extern "C" __global__ void free_of_bounds(float* out) { out[threadIdx.x] = 1; }
extern "C" __global__ void __launch_bounds__(4096) too_many(float* out) { out[threadIdx.x] = 1; }
"""
BOUNDS = {
    "by_macro": 64,
    "_Z8instanceIfLi3EEvPT_": 96,
    "_Z8instanceIdLi2EEvPT_": 64,
    "before": 17,
    "declared": 40,
    "hidden": 48,
    "free_of_bounds": 1024,
    "too_many": 1024,
}


def test_a_block_larger_than_launch_bounds_is_refused(checked: Device) -> None:
    """As the driver does (13.0, H100): invalid argument, and the attribute says how many there may be."""
    image = checked.image(BOUNDED)
    for name, most in BOUNDS.items():
        assert checked.worker.call(calls.most_threads, image.path, name) == most, name
        assert checked.said(image, name, 8 * 1024, most) == "", name
        assert checked.said(image, name, 8 * 1025, most + 1) == "cuLaunchKernel failed: invalid argument", name


COPY = """
template <int bytes> __device__ __forceinline__ void copy(void* to, const void* from)
{
    asm volatile("cp.async.KIND.shared.global [%0], [%1], %2;" ::"r"(unsigned(__cvta_generic_to_shared(to))),
        "l"(from), "n"(bytes));
}
template <int bytes> __device__ __forceinline__ void copy_some(void* to, const void* from, int there)
{
    if (bytes > 0)
        asm volatile("cp.async.KIND.shared.global [%0], [%1], %3, %2;" ::"r"(unsigned(__cvta_generic_to_shared(to))),
            "l"(from), "r"(there), "n"(bytes));
}
"""
TILE = "__shared__ __align__(16) int tile[64]; "


@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "line", "said"),
    [
        ("cg", TILE + "copy<16>(tile, out); copy_some<16>(tile, out, out[0]);", ""),
        ("ca", TILE + "copy<4>(tile, out); copy<8>(tile, out); copy_some<16>(tile, out, out[0]);", ""),
        ("cg", TILE + "if (false) copy<4>(tile, out);", ""),
        ("cg", TILE + "copy<8>(tile, out);", r"cp\.async\.cg copies 16 bytes"),
        ("cg", TILE + "copy_some<4>(tile, out, out[0]);", r"cp\.async\.cg copies 16 bytes"),
        ("ca", TILE + "copy<2>(tile, out);", r"cp\.async\.ca copies 4, 8 or 16 bytes"),
        ("ca", TILE + "copy_some<12>(tile, out, out[0]);", r"cp\.async\.ca copies 4, 8 or 16 bytes"),
    ],
)
def test_a_size_that_cp_async_has_not_is_a_compile_error(checked: Device, kind: str, line: str, said: str) -> None:
    text = f'#include "copy.h"\n{ENTRY} kernel(int* out)\n{{\n    {line}\n}}\n'
    if not said:
        checked.image(text, copy=COPY.replace("KIND", kind))
        return
    message = checked.refusal(text, copy=COPY.replace("KIND", kind))
    assert re.search(rf"copy\.h:\d+:\d+: error: .*{said}", message), message
    assert "kernel.cu:4" in message
