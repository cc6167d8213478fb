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
from warpwatch.devices.compiler import CompileError, Image, Target, compile_file
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


@pytest.mark.parametrize("name", FILES)
def test_a_whole_file_computes_what_numpy_does(software: Worker, target: Target, name: str) -> None:
    entry, expected = FILES[name]
    values = np.random.default_rng(3).integers(-4, 5, 2048).astype(np.float32)
    image = compile_file(FOLDER / f"{name}.cu", {}, target)
    np.testing.assert_allclose(run(software, image, entry), expected(values), rtol=1e-6)


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
    image = compile_file(source, LETTERS, target)
    np.testing.assert_array_equal(run(software, image, "kernel"), np.maximum(values, 1) * 7 + 14)


def test_a_fault_is_on_its_own_line_behind_host_code(software: Worker, tmp_path: Path) -> None:
    text = (FOLDER / "course_matmul.cu").read_text().replace("c[element] = sum;", "c[element + 4000] = sum;")
    source = tmp_path / "course.cu"
    source.write_text(text)
    line = 1 + text[: text.index("c[element + 4000]")].count("\n")
    worker = Worker(PROJECT, Settings(kind="software"))
    image = compile_file(source, {}, worker.call(describe_device).target)
    said = worker.call(calls.run_on_arrays, image.path, "_Z6kernelPKfPfi", [np.zeros(2048, np.float32)], 8192, 2048)
    worker.stop()
    assert re.search(rf"out of bounds in \w+\n  \S*course\.cu:{line}: ", str(said)), said


def test_assert_of_a_header_names_condition_and_line(tmp_path: Path) -> None:
    source = tmp_path / "asserts.cu"
    source.write_text(
        '#include <assert.h>\nextern "C" __global__ void kernel(int* out)\n{\n    assert(out[0] == 1);\n}\n'
    )
    worker = Worker(PROJECT, Settings(kind="software"))
    image = compile_file(source, {}, worker.call(describe_device).target)
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
    assert software.call(calls.get_function, compile_file(source, {}, target).path, name) == "no error"


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
    left = software.call(calls.run_with_zeros, compile_file(source, {}, target).path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 260  # the sum of 256 and 4


def test_headers_beside_a_source_may_have_the_names_of_softcudas(
    software: Worker, target: Target, tmp_path: Path
) -> None:
    names = sorted(path.name for path in (ROOT / "softcuda").glob("*.h"))
    for number, name in enumerate(names):
        (tmp_path / name).write_text(f"#pragma once\n__device__ int own{number}(int x) {{ return x + {number}; }}\n")
    chain = "".join(f"own{number}(" for number in range(len(names)))
    source = tmp_path / "clash.cu"
    source.write_text(
        "#include <cuda_fp16.h>\n" + "".join(f'#include "{name}"\n' for name in names) + "\n"
        'extern "C" __global__ void kernel(float* out)\n{ unsigned one; asm("mov.u32 %0, 1;" : "=r"(one)); '
        f"out[threadIdx.x] = {chain}__brev(one) >> 31{')' * len(names)} + float(half(2)); }}\n"
    )
    left = software.call(calls.run_with_zeros, compile_file(source, {}, target).path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == sum(range(len(names))) + 3


def test_a_source_in_this_folder_may_be_named_by_its_whole_path(tmp_path: Path) -> None:
    source = tmp_path / "here.cu"
    source.write_text("__global__ void kernel(int* out) { *out = undeclared; }\n")
    command = [sys.executable, str(ROOT / "softcuda/nvcc"), "-cubin", str(source), "-o", str(tmp_path / "image")]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stderr
    assert re.search(r"^here\.cu:1:\d+: error: .undeclared. was not declared", said, re.MULTILINE), said


LAUNCHES = """#include <cuda_fp16.h>
template <typename T> __global__ void shifted(T* a, int s) { a[threadIdx.x + s] += 1; }
template <typename T, int N = 4> __global__ void both(const T* __restrict__ a, T *b, T c)
{ b[threadIdx.x] = a[threadIdx.x] + c * T(N); }
template <typename T, size_t X, size_t Y> __global__ void tile(T const* a, T* b, T s) { b[threadIdx.x * X] = *a + Y; }
template <typename T> void launch(T const* a, T* b, T const* s)
{
    constexpr unsigned int X { 16U };
    const int Y = X / 2U * 3;
    tile<T, X, Y><<<1, X>>>(a, b, *s);
}
template void launch<float>(float const*, float*, float const*);
template void launch<double>(double const*, double*, double const*);
template <typename T> void run(int n)
{ T *in, *out, one = 1; shifted<<<n / 2, 3>>>(in, 0); both<T, 2><<<dim3(n), 3>>>(out + 4, in, one); }
void cast(double* values) { float *x, y = 2; both<<<1, 2>>>(x, x, y); both<<<1, 2>>>((int*)values, (int*)nullptr, 1); }
template <typename T> void third(T* values) { shifted<<<1, 1>>>(values, 3); }
namespace outer { template <typename T> __global__ void within(T* a, double by) { a[threadIdx.x] *= by; } }
void scoped(unsigned char* bytes) { outer::within<<<1, 1>>>(bytes, 2); }
template <typename T> __global__ void scaled(T* out, int by) { out[threadIdx.x] *= by; }
template <typename T> struct Parts { T* first; int count; };
template <typename T> void signature(T* out, const Parts<T> parts, const unsigned int n) { scaled<<<1, n>>>(out, 2); }
template void signature(short* out, const Parts<short> parts, const unsigned int n);
template void signature<long>(long*, Parts<long>, unsigned);
typedef float (*Function)(float);
template <Function function> __global__ void mapped(float* out) { *out = function(*out); }
template <Function function> void map(float* out) { mapped<function><<<1, 1>>>(out); }
__device__ float squared(float x) { return x * x; }
void square(float* out) { map<squared>(out); }
template <typename T, int N> __global__ void sized(T* out, int) { *out = N; }
template <int N> __global__ void sized(char* out) { *out = N; }
template <typename T> void special(T*);
template <> void special<double>(double* out) { sized<double, 3><<<1, 1>>>(out, 1); }
template <int N, bool B> __global__ void inner(float* out) { *out = N + B; }
template <int N, bool B = true> void middle(float* out) { constexpr int twice = 2 * N; inner<twice, B><<<1, 1>>>(out); }
template <bool B> void outer_one(float* out, int n) { n > 3 ? middle<8, B>(out) : middle<4>(out); }
void outermost(float* out) { outer_one<false>(out, 1); }
template <typename T> __global__ void pointed(T* out) { *out = 1; }
template <typename... Ts> void launch_by(void (*)(Ts...), Ts...);
void by_pointer(float* out) { launch_by(pointed<float>, out); }
template <typename T, int N> __global__ void turned(T* out, int) { *out = N; }
template <int N, typename T> __global__ void turned(int, T* out) { *out = N; }
void listed(float* out) { const int One = 20, Two = One / sizeof(int); inner<Two, false><<<1, 1>>>(out); }
namespace traits { template <typename T> using device_type = T; }
template <typename T> void by_trait(T* out) { pointed<traits::device_type<T>><<<1, 1>>>(out); }
template void by_trait<int>(int*);
template <bool B, typename T> void partly(T* out, int n) { inner<21, B><<<n, 1>>>(out); }
template void partly<true>(float* out, int n);
class Plugin {
    void enqueue(void** outputs) const { sized<unsigned, 5><<<1, 1>>>(static_cast<unsigned*>(outputs[0]), 1); }
};
template <typename T> class Attention { void infer(float* out, int n); };
template <typename T> void Attention<T>::infer(float* out, int n) { n ? inner<64, true><<<1, 1>>>(out) : void(); }
template void Attention<float>::infer(float* out, int n);
#define BY_TYPE(kind, ...) [&] { switch (kind) { \\
    case 0: { using number_t = short; return __VA_ARGS__(); } \\
    case 1: { using number_t = unsigned char; return __VA_ARGS__(); } \\
    default: { using number_t = double; constexpr bool is_wide = true; return __VA_ARGS__(); } } }()
struct Tensor { template <typename T> T* data_ptr() const; int kind; };
void dispatched(const Tensor& tensor)
{
    BY_TYPE(tensor.kind, [&] { pointed<number_t><<<1, 1>>>(tensor.data_ptr<number_t>()); });
    BY_TYPE(tensor.kind, [&] { scaled<<<1, 1>>>(tensor.data_ptr<number_t>(), 3); });
}
void not_found(short* out) { turned<4><<<1, 1>>>(1, out); }  // and leaves the others
int main() { unsigned char* bytes = nullptr; run<float>(1); run<half>(3); third(bytes); }
"""
# By nvcc 13 of the same text.
INSTANCES = ["_Z4bothI6__halfLi2EEvPKT_PS1_S1_", "_Z4bothIfLi2EEvPKT_PS0_S0_", "_Z4bothIfLi4EEvPKT_PS0_S0_",
             "_Z4bothIiLi4EEvPKT_PS0_S0_", "_Z4tileIdLm16ELm24EEvPKT_PS0_S0_", "_Z4tileIfLm16ELm24EEvPKT_PS0_S0_",
             "_Z5sizedIdLi3EEvPT_i", "_Z5innerILi16ELb0EEvPf", "_Z5innerILi8ELb1EEvPf",
             "_Z5innerILi5ELb0EEvPf", "_Z5innerILi21ELb1EEvPf", "_Z5innerILi64ELb1EEvPf", "_Z5sizedIjLi5EEvPT_i",
             "_Z7pointedIiEvPT_", "_Z7pointedIsEvPT_", "_Z7pointedIhEvPT_", "_Z7pointedIdEvPT_", "_Z6scaledIhEvPT_i",
             "_Z6scaledIdEvPT_i",
             "_Z6mappedIXadL_Z7squaredfEEEvPf", "_Z7pointedIfEvPT_", "_Z6scaledIlEvPT_i", "_Z6scaledIsEvPT_i",
             "_Z7shiftedI6__halfEvPT_i", "_Z7shiftedIfEvPT_i", "_Z7shiftedIhEvPT_i",
             "_ZN5outer6withinIhEEvPT_d"]  # fmt: skip


def test_an_instance_with_what_softcuda_has_not_is_a_compile_error(target: Target, tmp_path: Path) -> None:
    source = tmp_path / "refused.cu"
    source.write_text(
        'template <int N> __global__ void kernel(int* out)\n{ *out = N; asm volatile("wgmma.fence.sync.aligned;"); }\n'
        "int main() { kernel<3><<<1, 1>>>(nullptr); }\n"
    )
    with pytest.raises(CompileError, match=r"refused\.cu:2:\d+: error: softcuda does not support .*wgmma"):
        compile_file(source, {}, target)


def test_an_image_has_the_instances_that_host_code_launches(software: Worker, target: Target, tmp_path: Path) -> None:
    source = tmp_path / "launches.cu"
    source.write_text(LAUNCHES)
    image = compile_file(source, {}, target)
    assert {name: software.call(calls.get_function, image.path, name) for name in INSTANCES} == dict.fromkeys(
        INSTANCES, "no error"
    )


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
    left = software.call(calls.run_with_zeros, compile_file(source, {}, target).path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 1


KERNEL = 'extern "C" __global__ void kernel(float* out) { out[threadIdx.x] = '
# Headers of the standard library, each with a kernel that uses none of it and one that does.
HEADERS = ["algorithm", "atomic", "chrono", "complex", "ctime", "fstream", "functional", "iomanip", "iostream", "map",
           "memory", "mutex", "numeric", "optional", "random", "set", "sstream", "string", "thread", "time.h", "tuple",
           "type_traits", "unordered_map", "valarray", "vector", "cassert", "cmath", "stdlib.h", "unistd.h",
           "sys/time.h"]  # fmt: skip


def test_no_macro_of_softcudas_breaks_a_standard_header(software: Worker, target: Target, tmp_path: Path) -> None:
    source = tmp_path / "headers.cu"
    source.write_text(
        "".join(f"#include <{header}>\n" for header in HEADERS)
        + "__host__ __device__ std::size_t size(const std::pair<int, float>* given) { return sizeof *given; }\n"
        + f"{KERNEL}size(nullptr) + std::is_same<int, int>::value; }}\n"
        "int main() { return int(clock()) + int(time(nullptr)); }\n"
    )
    image = compile_file(source, {}, target)
    left = software.call(calls.run_with_zeros, image.path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 9


# Declarations of whole files that are taken, and what a kernel that uses them computes.
TAKEN = {
    "CUDA's own declarations again": (
        "extern __device__ __device_builtin__ void __syncthreads(void);\n"
        "extern __device__ __device_builtin__ void __threadfence(void);",
        "2; __syncthreads(); __threadfence();",
    ),
    "a shuffle of the file's own under an old name": (
        "__device__ float __shfl_down(float x, int by) { return __shfl_down_sync(0xffffffffu, x, by); }",
        "__shfl_down(2, 1);",
    ),
    "the version of cuda.h": ("#include <cuda.h>\n#if CUDA_VERSION < 8000\n#error old\n#endif", "CUDA_VERSION / 6500;"),
    "complex numbers of cuFFT": (
        "#include <cufft.h>\n__device__ cufftReal real(cufftComplex x, cufftDoubleComplex y) { return x.x + y.y; }",
        "real({1, 3}, {3, 1});",
    ),
    "a waiting launch": (
        "#include <cuda_fp16.h>",
        "2; cudaGridDependencySynchronize(); cudaTriggerProgrammaticLaunchCompletion();",
    ),
    "launch bounds that compare": (
        "constexpr int size = 16;\n"
        "__global__ void __launch_bounds__((32 < size ? 32 : size) * 4, 2) other(int* out) { *out = 1; }",
        "2;",
    ),
    "a header in a header's own folder": (
        "#include <cooperative_groups/details/partitioning.h>\n#include <cooperative_groups/details/reduce.h>",
        "2 + 0 * cooperative_groups::this_thread_block().size();",
    ),
    "a header of types of the driver's functions": ("#include <cudaTypedefs.h>", "2;"),
    "traits without a header": (
        "template <typename T, std::enable_if_t<std::is_same_v<std::decay_t<T>, float>>* = nullptr>\n"
        "__device__ T two(T x) { return 2 * x; }",
        "two(1.0f);",
    ),
    "types of fixed width once more": (
        "typedef unsigned int uint32_t;\ntypedef unsigned long long uint64_t;\n"
        "struct __align__(16) Wide { uint64_t parts[2]; uint64_t first() { return 0; } };",
        "uint64_t(sizeof(Wide)) / uint32_t(8);",
    ),
    "a friend that is a constant": (
        "class Hidden {\n    friend constexpr bool operator==(Hidden, Hidden);\n    unsigned bits;\npublic:\n"
        "    __host__ __device__ constexpr explicit Hidden(unsigned given) : bits(given) { }\n};\n"
        "inline constexpr bool operator==(Hidden a, Hidden b) { return a.bits == b.bits; }",
        "1 + (Hidden(3) == Hidden(3));",
    ),
    "the smaller and the larger of cuda/functional": (
        "#include <cuda/functional>",
        "cuda::minimum<>()(2.0f, 3) * cuda::maximum<float>()(0, 1) * cuda::minimum()(1, 5);",
    ),
    "the same by cub": ("#include <cub/cub.cuh>", "cuda::minimum<>()(2.0f, 3) * cuda::maximum<float>()(0, 1);"),
    "a pragma out of a macro": (
        "#define UNROLLED #pragma unroll\n#define FOUR_TIMES #pragma unroll 4\n"
        "__device__ float two(float x)\n{\n    UNROLLED\n    for (int i = 0; i < 1; ++i)\n        x += 1;\n"
        "    FOUR_TIMES for (int i = 0; i < 1; ++i) x -= \"#pragma unroll 4\"[8] == '4';\n    return x;\n}",
        "two(1);",
    ),
    "a default of a template that compares": (
        "template <int N, bool Wide = sizeof(int)>=N> struct Chosen;\n"
        "template <int N> struct Chosen<N, true> { static constexpr int value = 2; };",
        "Chosen<3>::value;",
    ),
    "functions that are asked for their types": (
        "std::true_type known(int);\nstd::false_type known(...);\n"
        "template <typename T> struct Known : decltype(known(T())) { };",
        "Known<int>::value + !Known<float*>::value;",
    ),
    "a tensor's map": ("#include <cuda.h>\nusing Map = CUtensorMap;\n", "sizeof(Map) / 64;"),
    "an operator of the host's beside one of the device's": (
        "struct Pair { int a, b; };\nstruct Log { Log& operator+(const char*); void* sink; };\n"
        "__device__ Pair operator+(Pair x, Pair y) { return {x.a + y.a, x.b + y.b}; }\n"
        "inline Log& Log::operator+(const char* text) { sink = open_sink(text); return *this; }\n"
        "class Half {\n    friend Half operator+(Half, Half);\n    int bits;\n};\n"
        "inline Half operator+(Half x, Half y) { x.bits += y.bits; return x; }",
        "(Pair{1, 2} + Pair{1, 3}).a + 0 * sizeof(Log) * sizeof(Half);",
    ),
    "a function of the host's that a class has from another": (
        "struct Base { int given(int x) { return sink(x); } };\nstruct Derived : Base { using Base::given; int two; };",
        "Derived{{}, 2}.two;",
    ),
    "a function of both sides with host code": (
        "int of_host(int);\ntemplate <typename T> __host__ __device__ T both(T x) { return of_host(3) + x; }\n"
        "struct Both { __host__ __device__ int value() const { return of_host(1); } int two; };",
        "Both{2}.two;",
    ),
    "a constant that g++ computes in no way": (
        "struct Table { int first; constexpr Table(int x) : first(x) { }\n"
        "    constexpr int checked() const { if (first < 0) throw first; return first; } };",
        "Table(2).first;",
    ),
    "variables in managed memory": (
        "__managed__ float there = 2;\n__device__ __managed__ int other[2];",
        "there + other[1];",
    ),
    "a warp function without a mask that no kernel calls": (
        "template <typename T> __device__ T all(T x) { return __all(x); }",
        "2;",
    ),
    "a narrowing constant": ("__device__ int narrow[2] = {2.0, 1.0};", "narrow[0];"),
    "a template without an instance that g++ refuses": (
        "template <int N> __global__ void other(int* out) { const int n = 1; n += N; *out = n; }",
        "2;",
    ),
    "a name of the standard library's without its header": ("constexpr int two = std::min(2, 3);", "two;"),
    "a name of Thrust's behind another header of it": (
        "#include <thrust/sort.h>\n__device__ int second(thrust::tuple<int, int> x) { return thrust::get<1>(x); }",
        "second(thrust::make_tuple(1, 2));",
    ),
    "an instance by names that are known elsewhere": (
        "template <typename T, typename U> __global__ void other(T* out, U by) { *out = by; }\n"
        "struct Outer { typedef int data_t; };\nusing data_u = int;\n"
        "struct data_t;\n__device__ data_t* unknown;\n"
        "template <typename data_t, typename traits> void launch(data_t* out)\n"
        "{ other<data_t, typename traits::type><<<1, 1>>>(out, 1); }",
        "2;",
    ),
    "a pointer of Thrust's": (
        "#include <thrust/device_ptr.h>\n"
        "__device__ float* bare(thrust::device_ptr<float> x) { return thrust::raw_pointer_cast(x); }",
        "2 + 0 * (thrust::raw_pointer_cast(out) == bare(thrust::device_pointer_cast(out)) && bare({}) == nullptr);",
    ),
}


def test_a_kernel_that_needs_host_code_by_a_function_of_both_sides_stops(
    software: Worker, target: Target, tmp_path: Path
) -> None:
    source = tmp_path / "both.cu"
    source.write_text(
        "int of_host(int);\n__host__ __device__ int both(int x) { return x > 3 ? of_host(x) : 2; }\n"
        f"{KERNEL}both(out[0] == 0 ? 4 : 1); }}\n"
    )
    worker = Worker(PROJECT, Settings(kind="software"))
    said = worker.call(calls.run_with_zeros, compile_file(source, {}, target).path, "kernel", 128)
    worker.stop()
    assert re.search(r"a call of a function that needs host code in kernel\n  \S*both\.cu:2 ", str(said)), said


def test_what_g_said_first_is_told_where_setting_functions_aside_does_not_help(target: Target, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    source.write_text(f"constexpr int helper(int x) {{ return x + undeclared; }}\n{KERNEL}helper(2); }}\n")
    with pytest.raises(CompileError, match=r"wrong\.cu:1:\d+: error: .undeclared. was not declared"):
        compile_file(source, {}, target)


@pytest.mark.parametrize(("before", "code"), TAKEN.values(), ids=TAKEN)
def test_what_whole_files_declare_is_taken(
    software: Worker, target: Target, tmp_path: Path, before: str, code: str
) -> None:
    source = tmp_path / "taken.cu"
    source.write_text(f"{before}\n{KERNEL}{code} }}\n")
    left = software.call(calls.run_with_zeros, compile_file(source, {}, target).path, "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 2


def test_host_code_goes_of_a_header_that_one_with_the_pragma_of_system_headers_includes(
    software: Worker, target: Target, tmp_path: Path
) -> None:
    (tmp_path / "outer.h").write_text(
        '#pragma GCC system_header\n#include <cctype>\nclass Writer { int x; };\n#include "inner.h"\n'
    )
    (tmp_path / "inner.h").write_text("inline void written(Writer& w, int) { }\n")
    source = tmp_path / "pragma.cu"
    source.write_text(f'#include "outer.h"\n{KERNEL}std::size_t(2); }}\n')
    left = software.call(calls.run_with_zeros, compile_file(source, {}, target).path, "kernel", 128)
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
        compile_file(source, {}, target)
    assert re.search(said, str(error.value)), error.value


def test_host_code_may_use_what_a_kernel_may_not(target: Target, tmp_path: Path) -> None:
    source = tmp_path / "fine.cu"
    source.write_text(
        f"{KERNEL}1; }}\nfloat factor() {{ return 2; }}\n"
        "int main() { cudaDeviceSynchronize(); cudaTextureObject_t wmma; kernel<<<1, int(factor())>>>(nullptr); }\n"
    )
    compile_file(source, {}, target)


def test_an_object_that_only_the_host_can_copy_comes_as_bytes(software: Worker, target: Target) -> None:
    image = compile_file(FOLDER / "classes.cu", {}, target)
    assert software.call(calls.run_with_a_name, image.path, 5) == list(range(5, 37))
