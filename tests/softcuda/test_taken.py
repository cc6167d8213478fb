"""What nvcc takes of whole files, a construct each, is taken and computes what it must."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.softcuda import calls
from tests.softcuda.device import Device

KERNEL = 'extern "C" __global__ void kernel(float* out) { out[threadIdx.x] = '
# Declarations of whole files that are taken, and what a kernel that uses them computes.
TAKEN = {
    "a byte order mark": ("\ufeff#define TWO 2", "TWO;"),
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
    "a table of host functions": (
        "__global__ void other(int* out) { *out = 1; }\nvoid host(const int* x) { elsewhere(x); }\n"
        "void (*table[])(const int* x) = { host, host };",
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
    "a constant of a class that is no integer": (
        "template <typename T> struct Sum { static const T first = T(2); };\n"
        "template <typename T> __device__ T two() { return Sum<T>::first; }",
        "two<float>();",
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
    "a tensor's map": ("#include <cuda.h>\nCUtensorMap_st map();\nusing Map = CUtensorMap;\n", "sizeof(Map) / 64;"),
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


@pytest.mark.once
@pytest.mark.parametrize(("before", "code"), TAKEN.values(), ids=TAKEN)
def test_what_whole_files_declare_is_taken(either: Device, before: str, code: str) -> None:
    left = either.once(calls.run_with_zeros, either.image(f"{before}\n{KERNEL}{code} }}\n"), "kernel", 128)
    assert isinstance(left, bytes), left
    assert np.frombuffer(left, np.float32)[0] == 2


# What nvcc takes beside a kernel, and would be refused in it or by g++'s own rules.
UNUSED = {
    "PTX that no kernel uses": '__device__ inline void unused() { asm volatile("wgmma.fence.sync.aligned;"); }',
    "a name that changes its meaning": "template <class T> struct Box { T v; };\n"
    "template <class T> struct Uses { Box<T> b; typedef Box<int> Box; };\ntemplate struct Uses<int>;",
    "what only host code may use": "float factor() { return 2; }\n"
    "void of_host() { cudaDeviceSynchronize(); cudaTextureObject_t wmma; kernel<<<1, int(factor())>>>(nullptr); }",
}


@pytest.mark.parametrize("declared", UNUSED.values(), ids=UNUSED)
def test_what_nvcc_takes_beside_a_kernel_is_taken(either: Device, declared: str) -> None:
    either.image(f"{KERNEL}1; }}\n{declared}\n")


@pytest.mark.once
def test_a_kernel_that_needs_host_code_by_a_function_of_both_sides_stops(either: Device) -> None:
    image = either.image(
        "int of_host(int);\n__host__ __device__ int both(int x) { return x > 3 ? of_host(x) : 2; }\n"
        f"{KERNEL}both(out[0] == 0 ? 4 : 1); }}\n"
    )
    said = str(either.once(calls.run_with_zeros, image, "kernel", 128))
    assert re.search(r"a call of a function that needs host code in kernel\n  \S*kernel\.cu:2 ", said), said
