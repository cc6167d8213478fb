"""Whole .cu files load on the software device: host code is set aside, and lines stay where they are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.project import PROJECT, ROOT
from tests.softcuda import calls
from tests.written import compile_written
from warpwatch.devices.compile.compiler import CompileError, Image, Target, compile_file
from warpwatch.devices.gpu import Settings
from warpwatch.devices.worker import Worker, describe_device

FOLDER = ROOT / "tests/softcuda/whole"
LETTERS = dict.fromkeys("NABIVTMKS", "7")


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


def run(software: Worker, image: Image, entry: str) -> np.ndarray:
    values = np.random.default_rng(3).integers(-4, 5, 2048).astype(np.float32)
    left = software.call(calls.run_on_arrays, image.path, entry, [values], values.nbytes, len(values))
    assert isinstance(left, bytes), left
    return np.frombuffer(left, np.float32)


@pytest.mark.once
@pytest.mark.parametrize("name", FILES)
def test_a_whole_file_computes_what_numpy_does(software: Worker, target: Target, name: str) -> None:
    entry, expected = FILES[name]
    values = np.random.default_rng(3).integers(-4, 5, 2048).astype(np.float32)
    image = compile_file(FOLDER / f"{name}.cu", {}, target)
    np.testing.assert_allclose(run(software, image, entry), expected(values), rtol=1e-6)


@pytest.mark.once
def test_macros_of_the_command_line_do_not_change_softcudas_headers(
    software: Worker, target: Target, tmp_path: Path
) -> None:
    source = tmp_path / "letters.cu"
    source.write_text(
        "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n#include <cuda_runtime.h>\n"
        'extern "C" __global__ void kernel(const float* in, float* out, int n)\n'
        "{ const int i = threadIdx.x + blockIdx.x * blockDim.x; out[i] = max(in[i], 1.f) * N + A + S; }\n"
        "int main() { kernel<<<B, I>>>(nullptr, nullptr, M); }\n"
    )
    values = np.random.default_rng(3).integers(-4, 5, 2048).astype(np.float32)
    image = compile_written(source, LETTERS, target)
    np.testing.assert_array_equal(run(software, image, "kernel"), np.maximum(values, 1) * 7 + 14)


@pytest.mark.slow
def test_a_fault_is_on_its_own_line_behind_host_code(software: Worker, tmp_path: Path) -> None:
    text = (FOLDER / "course_matmul.cu").read_text().replace("c[element] = sum;", "c[element + 4000] = sum;")
    source = tmp_path / "course.cu"
    source.write_text(text)
    line = 1 + text[: text.index("c[element + 4000]")].count("\n")
    worker = Worker(PROJECT, Settings(kind="software"))
    image = compile_written(source, {}, worker.call(describe_device).target)
    said = worker.call(calls.run_on_arrays, image.path, "_Z6kernelPKfPfi", [np.zeros(2048, np.float32)], 8192, 2048)
    worker.stop()
    assert re.search(rf"out of bounds in \w+\n  \S*course\.cu:{line}: ", str(said)), said


def test_assert_of_a_header_names_condition_and_line(tmp_path: Path) -> None:
    source = tmp_path / "asserts.cu"
    source.write_text(
        '#include <assert.h>\nextern "C" __global__ void kernel(int* out)\n{\n    assert(out[0] == 1);\n}\n'
    )
    worker = Worker(PROJECT, Settings(kind="software"))
    image = compile_written(source, {}, worker.call(describe_device).target)
    said = worker.call(calls.run_with_zeros, image.path, "kernel", 128)
    worker.stop()
    assert re.search(r"assert\(out\[0\] == 1\) in kernel\n  \S*asserts\.cu:4: ", str(said)), said


STATIC = """static __global__ void alone(int* out) { *out = 1; }
namespace outer { namespace inner { static __global__ void L2(int* out, float) { *out = 2; } } }
template <typename T> static __global__ void many(T* out) { *out = 3; }
static inline __global__ void twice(int* out) { *out = 4; }
__global__ void plain(int* out) { *out = 5; }
void launch(int* out) { many<int><<<1, 1>>>(out); }
"""
# By nvcc 13, where a host function launches each.
NVCC_NAMES = ["_Z5alonePi", "_ZN5outer5inner2L2EPif", "_Z4manyIiEvPT_", "_Z5twicePi", "_Z5plainPi"]


@pytest.mark.parametrize("name", NVCC_NAMES)
def test_static_kernels_have_the_names_that_nvcc_gives_them(
    software: Worker, target: Target, tmp_path: Path, name: str
) -> None:
    source = tmp_path / "static.cu"
    source.write_text(STATIC)
    assert software.call(calls.get_function, compile_written(source, {}, target).path, name) == "no error"


@pytest.mark.once
@pytest.mark.parametrize("header", ["cublas_v2.h", "cublasLt.h"])
def test_headers_of_cublas_bring_the_narrow_types_as_nvidias_do(
    software: Worker, target: Target, tmp_path: Path, header: str
) -> None:
    (tmp_path / "types.h").write_text(f"#include <{header}>\ntypedef __nv_bfloat16 narrow;\n")
    source = tmp_path / "narrow.cu"
    source.write_text(
        '#include "types.h"\nextern "C" __global__ void kernel(float* out)\n'
        "{ half2 two = {half(3), half(4)}; out[threadIdx.x] = float(narrow(257.0f)) + float(two.y); }\n"
    )
    left = software.call(calls.run_with_zeros, compile_written(source, {}, target).path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 260  # the sum of 256 and 4


@pytest.mark.once
def test_headers_beside_a_source_may_have_the_names_of_softcudas(
    software: Worker, target: Target, tmp_path: Path
) -> None:
    names = sorted(path.name for path in (ROOT / "softcuda" / "include" / "softcuda").glob("*.h"))
    for number, name in enumerate(names):
        (tmp_path / name).write_text(f"#pragma once\n__device__ int own{number}(int x) {{ return x + {number}; }}\n")
    chain = "".join(f"own{number}(" for number in range(len(names)))
    source = tmp_path / "clash.cu"
    source.write_text(
        "#include <cuda_fp16.h>\n" + "".join(f'#include "{name}"\n' for name in names) + "\n"
        'extern "C" __global__ void kernel(float* out)\n{ unsigned one; asm("mov.u32 %0, 1;" : "=r"(one)); '
        f"out[threadIdx.x] = {chain}__brev(one) >> 31{')' * len(names)} + float(half(2)); }}\n"
    )
    left = software.call(calls.run_with_zeros, compile_written(source, {}, target).path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == sum(range(len(names))) + 3


def test_a_source_in_this_folder_may_be_named_by_its_whole_path(tmp_path: Path) -> None:
    source = tmp_path / "here.cu"
    source.write_text("__global__ void kernel(int* out) { *out = undeclared; }\n")
    nvcc, image = ROOT / "softcuda/compiling/nvcc", tmp_path / "image"
    command = [sys.executable, str(nvcc), "-cubin", str(source), "-o", str(image)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stderr
    assert re.search(r"^here\.cu:1:\d+: error: .undeclared. was not declared", said, re.MULTILINE), said


def test_functions_of_a_class_that_only_their_types_are_asked_of_stay(
    software: Worker, target: Target, tmp_path: Path
) -> None:
    source = tmp_path / "traits.cu"
    source.write_text(
        "struct Pair { __device__ void twice(float*); };\n"
        "template <typename T> struct HasTwice {\n"
        "    template <typename C> static char test(decltype(&C::twice));\n"
        "    template <typename C> static double test(...);\n"
        "    void print(const std::string& text);\n"
        "    enum { value = sizeof(test<T>(nullptr)) == 1 };\n};\n"
        f"{KERNEL}HasTwice<Pair>::value + 2 * HasTwice<int>::value; }}\n"
    )
    left = software.call(calls.run_with_zeros, compile_written(source, {}, target).path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 1


KERNEL = 'extern "C" __global__ void kernel(float* out) { out[threadIdx.x] = '
# Headers of the standard library, each with a kernel that uses none of it and one that does.
HEADERS = ["algorithm", "atomic", "chrono", "complex", "ctime", "fstream", "functional", "iomanip", "iostream", "map",
           "memory", "mutex", "numeric", "optional", "random", "set", "sstream", "string", "thread", "time.h", "tuple",
           "type_traits", "unordered_map", "valarray", "vector", "cassert", "cmath", "stdlib.h", "unistd.h",
           "sys/time.h"]  # fmt: skip


@pytest.mark.once
def test_no_macro_of_softcudas_breaks_a_standard_header(software: Worker, target: Target, tmp_path: Path) -> None:
    source = tmp_path / "headers.cu"
    source.write_text(
        "".join(f"#include <{header}>\n" for header in HEADERS)
        + "__host__ __device__ std::size_t size(const std::pair<int, float>* given) { return sizeof *given; }\n"
        + f"{KERNEL}size(nullptr) + std::is_same<int, int>::value; }}\n"
        "int main() { return int(clock()) + int(time(nullptr)); }\n"
    )
    image = compile_written(source, {}, target)
    left = software.call(calls.run_with_zeros, image.path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 9


def test_host_code_goes_of_a_header_that_a_header_with_the_pragma_includes(
    software: Worker, target: Target, tmp_path: Path
) -> None:
    (tmp_path / "outer.h").write_text(
        '#pragma GCC system_header\n#include <cctype>\nclass Writer { int x; };\n#include "inner.h"\n'
    )
    (tmp_path / "inner.h").write_text("inline void written(Writer& w, int) { }\n")
    source = tmp_path / "pragma.cu"
    source.write_text(f'#include "outer.h"\n{KERNEL}std::size_t(2); }}\n')
    left = software.call(calls.run_with_zeros, compile_written(source, {}, target).path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 2


# What is refused: a file, the line of it, and what is said.
REFUSED = {
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
    "a header that is not there": ("#include <nowhere.h>\n", r":1:10: note: softcuda has no nowhere\.h: give"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_named_with_its_line(target: Target, tmp_path: Path, text: str, said: str) -> None:
    source = tmp_path / "refused.cu"
    source.write_text(text + "\nint main() { return 0; }\n")
    with pytest.raises(CompileError) as error:
        compile_written(source, {}, target)
    assert re.search(said, str(error.value)), error.value


def test_host_code_may_use_what_a_kernel_may_not(target: Target, tmp_path: Path) -> None:
    source = tmp_path / "fine.cu"
    source.write_text(
        f"{KERNEL}1; }}\nfloat factor() {{ return 2; }}\n"
        "int main() { cudaDeviceSynchronize(); cudaTextureObject_t wmma; kernel<<<1, int(factor())>>>(nullptr); }\n"
    )
    compile_written(source, {}, target)


def test_an_object_that_only_the_host_can_copy_comes_as_bytes(software: Worker, target: Target) -> None:
    image = compile_file(FOLDER / "classes.cu", {}, target)
    assert software.call(calls.run_with_a_name, image.path, 5) == list(range(5, 37))
