"""An image has the instances of kernel templates that host code launches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.project import ROOT
from tests.softcuda import calls
from tests.softcuda.device import Device

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


def loads(device: Device, text: str, names: Iterable[str]) -> bool:
    """Whether an image has kernels of these names."""
    image = device.image(text)
    return {device.worker.call(calls.get_function, image.path, name) for name in names} == {"no error"}


def test_an_instance_whose_words_are_not_known_where_it_is_made_leaves_the_others(either: Device) -> None:
    text = (
        "namespace inner { template <typename T> __global__ void hidden(T* out) { *out = 1; } }\n"
        "template <typename T> __global__ void seen(T* out) { *out = 2; }\n"
        "void in_scope(int* out) { using namespace inner; hidden<int><<<1, 1>>>(out); }\n"
        "void here(float* out) { seen<float><<<1, 1>>>(out); }\n"
        'extern "C" __global__ void last(int* out) { *out = __LINE__; }\n'
    )
    assert loads(either, text, ["_Z4seenIfEvPT_", "last"])


def test_an_image_has_the_instances_that_host_code_launches(either: Device) -> None:
    assert loads(either, LAUNCHES, INSTANCES)


READ = """#include <type_traits>
#include <utility>
#include <nowhere/tensors.h>
#ifndef __VECTOR_TYPES_H__
struct double2 { double x, y; };
#endif
template <int N> __global__ void scale(float* p) { p[threadIdx.x] *= N; }
namespace outer::inner {
namespace c::d { __global__ void nested(float* p) { p[threadIdx.x] = 1; } }
cudaError_t of_namespace(float* p) { c::d::nested<<<1, 1>>>(p); return cudaDeviceSynchronize(); }
}
template <int N> struct Launch { static void run(float* p) { scale<N><<<1, N>>>(p); } };
void of_class(float* p) { Launch<4>::run(p); }
template <typename T> __global__ void put(T* p, int n) { if (threadIdx.x < n) p[threadIdx.x] = T(1); }
struct Launcher {
    template <typename T, typename... A> void operator()(A&&... a) { put<T> << <1, 32>> >(std::forward<A>(a)...); }
};
template <typename F, typename... A> void by(F& f, A&&... a) { f.template operator()<short>(std::forward<A>(a)...); }
void of_functor(short* p) { Launcher launcher; by(launcher, p, 5); }
void of_lambda(void* p)
{
    auto const call = [&](auto tag) { using T = decltype(tag); put<T><<<1, 1>>>((T*)p, 1); };
    call(1.0);
}
template <typename T> void unknown(tensors::Tensor x)
{
    if (x.empty()) return;
    else put<T><<<1, 32, x.stream()>>>(x.data<T>(), 1);
}
void of_unknown(tensors::Tensor x) { unknown<char>(x); put<long><<<1, 1>>>(x.data<long>(), 1); }
template <typename T, int N> __global__ std::enable_if_t<(sizeof(T) == 4 && N > 0)> filled(T* p) { p[threadIdx.x] = N; }
template <typename... T> __global__ void several(T*... p) { (void(*p = 1), ...); }
void of_packs(int* p, float* q) { filled<int, 8><<<1, 1>>>(p); several<<<1, 1>>>(p, q); }
struct Flow {
    int v;
    __host__ __device__ Flow(int* s) { if (cudaMemcpyFromSymbol(&v, s, sizeof(int)) != cudaSuccess) v = 0; }
};
__global__ void flows(Flow* f) { f->v += threadIdx.x; }
template <typename T> struct Surface {
    cudaChannelFormatDesc desc{cudaCreateChannelDesc<T>()};
    int flags{cudaArraySurfaceLoadStore};
    struct Accessor { T* p; __device__ void put(int x) { p[x] = T(1); } };
};
__global__ void accesses(Surface<float>::Accessor a) { a.put(threadIdx.x); }
namespace widths { typedef unsigned int uint32_t; }
__global__ void counts(uint32_t* p, double2) { p[threadIdx.x] = 1u; }
int printed(const char* file) { return printf(">>> no <%s> in <%s> <<<", file, file); };
template <typename T> __global__ void called(T* p) { *p = T(); }
template <typename T> void calls(T* p, void*) { called<T><<<1, 1>>>(p); };
template <typename T> void asked(T* p) { called<T*><<<1, 1>>>(&p); }
template void asked(float*);;
template void asked(char*);
template <int N, int M> __global__ void handed(long* p) { *p = N + M; }
void of_config(tensors::Config how, long* p) { constexpr int M = 4; cudaLaunchKernelEx(&how, (handed<256, M>), p); }
void of_attribute() { cudaFuncSetAttribute(called<double>, tensors::largest, 65536); }
void of_calls(tensors::Tensor x, short* p) { if (x.defined()) calls<short>(p, x.nowhere().value()); }
template <typename T> using unread = tensors::Unknown<T>;
struct Held { unread<int>* several; };
__constant__ const int first[2] = {1, 2};
__constant__ int second[2];
__global__ void constants(int* p) { *p = first[threadIdx.x] + second[threadIdx.x]; }
"""
READ_NAMES = ["_Z5scaleILi4EEvPf", "_ZN5outer5inner1c1d6nestedEPf", "_Z3putIsEvPT_i", "_Z3putIdEvPT_i",
              "_Z3putIcEvPT_i", "_Z3putIlEvPT_i", "_Z6filledIiLi8EENSt9enable_ifIXaaeqstT_Li4EgtT0_Li0EEvE4typeEPS1_",
              "_Z7severalIJifEEvDpPT_", "_Z5flowsP4Flow", "_Z8accessesN7SurfaceIfE8AccessorE",
              "_Z6countsPj7double2", "_Z6calledIsEvPT_", "_Z6calledIPfEvPT_", "_Z6calledIPcEvPT_",
              "_Z6handedILi256ELi4EEvPl", "_Z6calledIdEvPT_",
              "_Z9constantsPi"]  # fmt: skip


def test_launches_are_found_wherever_the_language_allows_them(either: Device) -> None:
    assert loads(either, READ, READ_NAMES)


LOST = """template <typename T> __global__ void lost(T* out) { *out = 1; }
template <typename T> __global__ void made(T* out) { *out = 1; }
template <typename T> __global__ void unused(T* out) { *out = 1; }
template <typename T> __global__ void handed(T* out) { *out = 1; }
void host(Tensors& all) { lost<<<1, 1>>>(all.first().pointer()); made<float><<<1, 1>>>(all.second()); }
void hands(Tensors& all) { cudaFuncSetAttribute(handed<Tensors::type>, all.largest(), 1); }
"""


TEMPLATE_AS_ARGUMENT = """
template <int N> __device__ float times(float x) { return x * N; }
template <int N, float (*F)(float)> __global__ void applied(float* p) { p[threadIdx.x] = F(p[threadIdx.x]) + N; }
template <int N> void dependent(float* p) { applied<N, &times<N>><<<1, 32>>>(p); }
void host(float* p) { applied<64, &times<3>><<<1, 32>>>(p); }
"""


def test_an_instance_that_clang_names_without_arguments_is_made_as_it_is_written(either: Device) -> None:
    assert loads(either, TEMPLATE_AS_ARGUMENT, ["_Z7appliedILi64EXadL_Z5timesILi3EEffEEEvPf"])


def test_a_kernel_without_instances_is_not_lost_in_silence(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(LOST)
    command = [
        sys.executable,
        str(ROOT / "softcuda/compiling/nvcc"),
        "-cubin",
        "-o",
        str(tmp_path / "made"),
        source.name,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    launched, named = done.stderr.splitlines()
    assert launched.startswith("k.cu:5:27: warning: no instance of the kernel template lost is made here")
    assert named.startswith("k.cu:6:49: warning: no instance of the kernel template handed is made here")


CLASHES = """namespace at { struct Half { int bits; }; template <typename T> struct Tensor { T* first; }; }
template <typename T> __global__ void put(at::Tensor<T> a) { *a.first = T(); }
void host(at::Tensor<at::Half> a) { put<<<1, 1>>>(a); }
"""


def test_a_file_declares_what_headers_do_that_it_does_not_include(either: Device) -> None:
    assert loads(either, CLASHES, ["_Z3putIN2at4HalfEEvNS0_6TensorIT_EE"])


STATIC = """static __global__ void alone(int* out) { *out = 1; }
namespace outer { namespace inner { static __global__ void L2(int* out, float) { *out = 2; } } }
template <typename T> static __global__ void many(T* out) { *out = 3; }
static inline __global__ void twice(int* out) { *out = 4; }
__global__ void plain(int* out) { *out = 5; }
void launch(int* out) { many<int><<<1, 1>>>(out); }
"""
# By nvcc 13, where a host function launches each.
NVCC_NAMES = ["_Z5alonePi", "_ZN5outer5inner2L2EPif", "_Z4manyIiEvPT_", "_Z5twicePi", "_Z5plainPi"]


def test_static_kernels_have_the_names_that_nvcc_gives_them(either: Device) -> None:
    assert loads(either, STATIC, NVCC_NAMES)
