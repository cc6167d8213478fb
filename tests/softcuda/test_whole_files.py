"""Whole .cu files load on the software device: host code is set aside, and lines stay where they are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device
from warpwatch.devices.compile.compiler import Image

FOLDER = ROOT / "tests/softcuda/whole"


def neighbours(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 2)[:, ::-1].ravel()


def product(values: np.ndarray) -> np.ndarray:
    a = values[:256].reshape(16, 16)
    return np.concatenate([(a @ a).ravel(), np.zeros(len(values) - 256, np.float32)])


# Of each file: its kernel, as the driver names it, and what it computes of one array.
FILES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "course_matmul": ("_Z6kernelPKfPfi", product),
    "modern_host": ("_Z6scaledIfEvPKT_PS0_i", lambda values: 3 * values + 2),
    "classes": (
        "kernel",
        lambda values: 2 * np.sqrt(values * values + 1) + np.resize(np.arange(1, 5), len(values)),
    ),
    "letters": ("_Z6kernelPKfPfi", lambda values: 2 * neighbours(values) + 3 + 5 + 6 + 1),
}


VALUES = np.random.default_rng(3).integers(-4, 5, 2048).astype(np.float32)


def run(device: Device, image: Image, entry: str) -> np.ndarray:
    left = device.once(calls.run_on_arrays, image, entry, [VALUES], VALUES.nbytes, len(VALUES))
    assert isinstance(left, bytes), left
    return np.frombuffer(left, np.float32)


@pytest.mark.once
@pytest.mark.parametrize("name", FILES)
def test_a_whole_file_computes_what_numpy_does(either: Device, name: str) -> None:
    entry, expected = FILES[name]
    left = run(either, either.image(FOLDER / f"{name}.cu"), entry)
    np.testing.assert_allclose(left, expected(VALUES), rtol=1e-6)


@pytest.mark.once
def test_macros_of_the_command_line_do_not_change_softcudas_headers(either: Device) -> None:
    text = (
        "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n#include <cuda_runtime.h>\n"
        'extern "C" __global__ void kernel(const float* in, float* out, int n)\n'
        "{ const int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = max(in[i], 1.f) * N + A + S; }\n"
        "int main() { kernel<<<B, I>>>(nullptr, nullptr, M); }\n"
    )
    left = run(either, either.image(text, dict.fromkeys("NABIVTMKS", 7)), "kernel")
    np.testing.assert_array_equal(left, np.maximum(VALUES, 1) * 7 + 14)


@pytest.mark.slow
def test_a_fault_is_on_its_own_line_behind_host_code(checked: Device) -> None:
    text = (FOLDER / "course_matmul.cu").read_text().replace("c[element] = sum;", "c[element + 4000] = sum;")
    line = 1 + text[: text.index("c[element + 4000]")].count("\n")
    given = [np.zeros(2048, np.float32)]
    said = str(checked.once(calls.run_on_arrays, checked.image(text), "_Z6kernelPKfPfi", given, 8192, 2048))
    assert re.search(rf"out of bounds in \w+\n  \S*kernel\.cu:{line}: ", said), said


def test_assert_of_a_header_names_condition_and_line(checked: Device) -> None:
    image = checked.image(
        '#include <assert.h>\nextern "C" __global__ void kernel(int* out)\n{\n    assert(out[0] == 1);\n}\n'
    )
    said = str(checked.once(calls.run_with_zeros, image, "kernel", 128))
    assert re.search(r"assert\(out\[0\] == 1\) in kernel\n  \S*kernel\.cu:4: ", said), said


KERNEL = 'extern "C" __global__ void kernel(float* out) { out[threadIdx.x] = '
# Headers of the standard library.
HEADERS = ["algorithm", "atomic", "chrono", "complex", "ctime", "fstream", "functional", "iomanip", "iostream", "map",
           "memory", "mutex", "numeric", "optional", "random", "set", "sstream", "string", "thread", "time.h", "tuple",
           "type_traits", "unordered_map", "valarray", "vector", "cassert", "cmath", "stdlib.h", "unistd.h",
           "sys/time.h"]  # fmt: skip
OWN = sorted(path.name for path in (ROOT / "softcuda" / "include" / "softcuda").glob("*.h"))
NARROW = (
    '#include "types.h"\nextern "C" __global__ void kernel(float* out)\n'
    "{ half2 two = {half(3), half(4)}; out[threadIdx.x] = float(narrow(257.0f)) + float(two.y); }\n"
)
# Of each: a text, what the first thread leaves, and headers beside it.
TEXTS: dict[str, tuple[str, float, dict[str, str]]] = {
    "functions of a class that only their types are asked of": (
        "struct Pair { __device__ void twice(float*); };\n"
        "template <typename T> struct HasTwice {\n"
        "    template <typename C> static char test(decltype(&C::twice));\n"
        "    template <typename C> static double test(...);\n"
        "    void print(const std::string& text);\n"
        "    enum { value = sizeof(test<T>(nullptr)) == 1 };\n};\n"
        f"{KERNEL}HasTwice<Pair>::value + 2 * HasTwice<int>::value; }}\n",
        1, {},
    ),
    "host code of a header that a header with the pragma includes": (
        f'#include "outer.h"\n{KERNEL}std::size_t(2); }}\n',
        2, {"outer": '#pragma GCC system_header\n#include <cctype>\nclass Writer { int x; };\n#include "inner.h"\n',
            "inner": "inline void written(Writer& w, int) { }\n"},
    ),
    "cublas_v2.h brings the narrow types, of which 257 is 256": (
        NARROW, 260, {"types": "#include <cublas_v2.h>\ntypedef __nv_bfloat16 narrow;\n"},
    ),
    "cublasLt.h": (NARROW, 260, {"types": "#include <cublasLt.h>\ntypedef __nv_bfloat16 narrow;\n"}),
    "headers beside it with the names of softcuda's": (
        "#include <cuda_fp16.h>\n" + "".join(f'#include "{name}"\n' for name in OWN) + "\n"
        'extern "C" __global__ void kernel(float* out)\n{ unsigned one; asm("mov.u32 %0, 1;" : "=r"(one)); '
        f"out[threadIdx.x] = {''.join(f'own{n}(' for n in range(len(OWN)))}__brev(one) >> 31{')' * len(OWN)}"
        " + float(half(2)); }\n",
        sum(range(len(OWN))) + 3,
        {name.removesuffix(".h"): f"#pragma once\n__device__ int own{number}(int x) {{ return x + {number}; }}\n"
         for number, name in enumerate(OWN)},
    ),
    "no macro of softcuda's breaks a standard header": (
        "".join(f"#include <{header}>\n" for header in HEADERS)
        + "__host__ __device__ std::size_t size(const std::pair<int, float>* given) { return sizeof *given; }\n"
        + f"{KERNEL}size(nullptr) + std::is_same<int, int>::value; }}\n"
        "int main() { return int(clock()) + int(time(nullptr)); }\n",
        9, {},
    ),
}  # fmt: skip
SLOW = "no macro of softcuda's breaks a standard header"


@pytest.mark.once
@pytest.mark.parametrize(
    "name", [*(name for name in TEXTS if name != SLOW), pytest.param(SLOW, marks=pytest.mark.slow)]
)
def test_a_text_is_taken_and_computes_what_it_must(either: Device, name: str) -> None:
    text, first, beside = TEXTS[name]
    left = either.once(calls.run_with_zeros, either.image(text, {}, **beside), "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == first


def test_a_source_in_this_folder_may_be_named_by_its_whole_path(tmp_path: Path) -> None:
    source = tmp_path / "here.cu"
    source.write_text("__global__ void kernel(int* out) { *out = undeclared; }\n")
    command = [sys.executable, str(ROOT / "softcuda/compiling/nvcc"), "-cubin", str(source), "-o", "image"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stderr
    assert re.search(r"^here\.cu:1:\d+: error: .undeclared. was not declared", said, re.MULTILINE), said


@pytest.mark.slow
def test_an_object_that_only_the_host_can_copy_comes_as_bytes(either: Device) -> None:
    assert either.once(calls.run_with_a_name, either.image(FOLDER / "classes.cu"), 5) == list(range(5, 37))
