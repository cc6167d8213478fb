// CUDA C++ as a C++ header: what a .cu file finds when softcuda's `nvcc` compiles it for the host.
//
// A kernel becomes an ordinary function that is called once for each thread. threadIdx and its like are
// constants of that call. Barriers and warp functions are calls into the executor, which goes on with another
// thread. What is not here (managed memory, most PTX) is a compile error that names it.
#pragma once

// C++17's <cmath> brings elliptic integrals and their like, which no kernel calls: they took half the time of a compile.
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <cassert>
#include <climits>
#include <math.h> // not <cmath>: sqrt(float) is a float, without std:: too
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "image.h"
#include "vector_types.h"

// As nvcc 13.0 for compute capability 9.0.
#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 0
#define CUDART_VERSION 13000
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_LIST__ 900
#define __SOFTCUDA__ 1

// These stay as they are, for reader.py to find them behind macros; they are macros, as nvcc has them.
#define __global__ __global__
#define __launch_bounds__(...) __launch_bounds__(__VA_ARGS__)
#define __shared__ __shared__
#define __device__ __device__
#define __host__ __host__
#define __constant__ __constant__
#define __noinline__ __noinline__
#define __forceinline__ inline __attribute__((always_inline))
#define __grid_constant__
#define __device_builtin__
#define __cudart_builtin__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict

// What the kernel reads as constants, the executor writes: so to the compiler, and to its instrumentation,
// they are constants, and only the assembler knows that they are not.
__asm__(".pushsection .data.softcuda_context, \"aw\"\n"
        ".balign 64\n"
        ".hidden softcuda_context\n"
        ".globl softcuda_context\n"
        "softcuda_context:\n"
        "softcuda_threadIdx: .zero 12\n"
        "softcuda_blockIdx: .zero 12\n"
        "softcuda_blockDim: .zero 12\n"
        "softcuda_gridDim: .zero 12\n"
        ".popsection\n");
#define SOFTCUDA_HIDDEN __attribute__((visibility("hidden")))
extern SOFTCUDA_HIDDEN const uint3 threadIdx __asm__("softcuda_threadIdx");
extern SOFTCUDA_HIDDEN const uint3 blockIdx __asm__("softcuda_blockIdx");
extern SOFTCUDA_HIDDEN const uint3 blockDim __asm__("softcuda_blockDim");
extern SOFTCUDA_HIDDEN const uint3 gridDim __asm__("softcuda_gridDim");
static const int warpSize = 32;

// Calls into the driver library.
extern "C" {
void softcuda_syncthreads();
int softcuda_syncthreads_reduce(int kind, int predicate); // 0 count, 1 and, 2 or
unsigned long softcuda_warp(int kind, unsigned mask, unsigned long value, int source, int width);
softcuda::Lanes softcuda_gather(unsigned mask, unsigned long value); // what all of these lanes have
unsigned softcuda_activemask();
void softcuda_sync_grid();
int softcuda_is_cooperative(); // whether all blocks of the launch are alive at once
char* softcuda_dynamic_shared();
extern SOFTCUDA_HIDDEN char softcuda_dynamic_area[] __attribute__((aligned(128))); // the same
void softcuda_atomic(const void* address, unsigned size, unsigned traits); // tells the checker; traits: of image.h
void softcuda_read_only(const void* address, unsigned size);
void softcuda_fence(int whole_device);
void softcuda_waits_for_grid();
long long softcuda_clock();
void softcuda_copy_async(void* to, const void* from, size_t size, size_t zeros);
void softcuda_commit_copies();
void softcuda_wait_copies(size_t later);
void softcuda_restricts(const char* record); // of a kernel that has __restrict__ parameters: restricted.py writes it
unsigned softcuda_enters_restrict();
void softcuda_leaves_restrict(const char* record, unsigned entered, const void* const* pointers, unsigned count);
void softcuda_returns(int number); // a kernel's thread, from where it is called; the number keeps calls apart
[[noreturn]] void softcuda_trap(const char* why);
}

// Functions of which CUDA says that their result wraps.
#define SOFTCUDA_WRAPS __attribute__((no_sanitize("signed-integer-overflow")))
// Long work of softcuda's own: with the passes that kernels go without, for what they leave unset to be seen, and without a
// report of each comparison.
#define SOFTCUDA_QUICK \
    __attribute__((optimize("O2", "tree-ccp", "tree-fre", "tree-pre", "tree-loop-im", "code-hoisting", "tree-loop-vectorize"), \
                   no_sanitize_coverage))
// Functions that must not be seen by the checker as the kernel's own accesses.
#define SOFTCUDA_RAW static inline __attribute__((no_sanitize("thread"), no_sanitize("alignment")))

#define __syncthreads_count(p) softcuda_syncthreads_reduce(0, (p))
#define __syncthreads_and(p) softcuda_syncthreads_reduce(1, (p))
#define __syncthreads_or(p) softcuda_syncthreads_reduce(2, (p))
static inline void __threadfence() { softcuda_fence(1); }
static inline void __threadfence_block() { softcuda_fence(0); }
static inline void __threadfence_system() { softcuda_fence(1); }
static inline void __threadfence_cluster() { softcuda_fence(1); }
// Of a launch that may begin before the one it follows has ended: here none does, and a race is told (stream_races.cpp).
static inline void cudaGridDependencySynchronize() { softcuda_waits_for_grid(); }
static inline void cudaTriggerProgrammaticLaunchCompletion() { }
static inline void __nanosleep(unsigned) { }
static inline long long clock64() { return softcuda_clock(); }
// Kernels' headers declare this one, too, as (void).
extern "C" void __syncthreads() __asm__("softcuda_syncthreads");
// These two the system's headers declare; no macro of that name may be in their way.
extern "C" clock_t clock() noexcept __asm__("softcuda_clock");
// Maxima and minima of a NaN and a number are the number, of -0 and 0 as a GPU has them; one of an unset variable is told.
extern "C" float fmaxf(float, float) noexcept __asm__("softcuda_fmaxf");
extern "C" float fminf(float, float) noexcept __asm__("softcuda_fminf");
extern "C" double fmax(double, double) noexcept __asm__("softcuda_fmax");
extern "C" double fmin(double, double) noexcept __asm__("softcuda_fmin");
extern "C" void __assert_fail(const char*, const char*, unsigned, const char*) noexcept __asm__("softcuda_assert_fail");
// The functions of <cuda_pipeline_primitives.h>.
#define __pipeline_memcpy_async(to, from, size, ...) softcuda_copy_async((to), (from), (size), (__VA_ARGS__ + 0))
#define __pipeline_commit() softcuda_commit_copies()
#define __pipeline_wait_prior(later) softcuda_wait_copies(later)
#define __trap() softcuda_trap("__trap()")

#ifdef SOFTCUDA_CHECKED
#include "byte_functions.h"
#endif
#include "warp_functions.h"
#include "intrinsics.h"
#include "host_names.h"

// What kernels.py has each kernel begin with: a record of its parameters.
namespace softcuda {

// Whether an object of a class is passed as itself: the others are passed by address.
template <class Parameter> constexpr bool is_plain()
{
    return __is_trivially_constructible(Parameter, const Parameter&) && __is_trivially_constructible(Parameter, Parameter&&)
        && __has_trivial_destructor(Parameter);
}

// What lies in the packed buffer for a parameter, and what the kernel's function takes: a reference is an address there.
template <class Parameter, bool plain = is_plain<Parameter>()> struct Argument {
    using Stored = Parameter;
    using Passed = Parameter;
    SOFTCUDA_RAW const Stored& read(const char* place) { return *reinterpret_cast<const Stored*>(place); }
};
// Each thread has a copy of the bytes, as a GPU's has: how the class is copied is the host's.
template <class Parameter> struct Argument<Parameter, false> {
    using Stored = Parameter;
    using Passed = const char*;
    struct Copy {
        alignas(Parameter) char bytes[sizeof(Parameter)];
        operator const char*() const { return bytes; }
    };
    SOFTCUDA_RAW Copy read(const char* place)
    {
        Copy copy;
        __builtin_memcpy(copy.bytes, place, sizeof(Parameter));
        return copy;
    }
};
// g++ keeps the restrict of a parameter in the type of a template's instance, where C++ has none.
template <class Pointee, bool plain> struct Argument<Pointee* __restrict, plain> {
    using Stored = Pointee*;
    using Passed = Pointee*;
    SOFTCUDA_RAW Stored read(const char* place) { return *reinterpret_cast<const Stored*>(place); }
};
template <class Referee, bool plain> struct Argument<Referee&, plain> {
    using Stored = Referee*;
    using Passed = Referee&;
    SOFTCUDA_RAW Referee& read(const char* place) { return **reinterpret_cast<const Stored*>(place); }
};

// The pointers of a function that has __restrict__ parameters, those first (restricted.py).
template <unsigned count> struct Restricts {
    const char* record;
    const void* pointers[count];
    unsigned entered;
    template <class... Pointers>
    __attribute__((no_sanitize("thread"))) explicit Restricts(const char* record, Pointers... pointers)
        : record(record), pointers {pointers...}, entered(softcuda_enters_restrict())
    {
    }
    __attribute__((no_sanitize("thread"))) ~Restricts() { softcuda_leaves_restrict(record, entered, pointers, count); }
};

// Where each argument lies in the packed buffer, as C lays out the members of a struct.
template <unsigned count> struct Record {
    KernelRecord head;
    unsigned offsets[count + 1], sizes[count + 1];
};

template <class... Parameters> constexpr Record<sizeof...(Parameters)> layout()
{
    const unsigned sizes[] = {unsigned(sizeof(Parameters))..., 0};
    const unsigned alignments[] = {unsigned(alignof(Parameters))..., 1};
    Record<sizeof...(Parameters)> made {};
    unsigned end = 0;
    for (unsigned i = 0; i < sizeof...(Parameters); ++i) {
        made.offsets[i] = (end + alignments[i] - 1) / alignments[i] * alignments[i];
        made.sizes[i] = sizes[i];
        end = made.offsets[i] + sizes[i];
    }
    made.offsets[sizeof...(Parameters)] = end;
    return made;
}

template <unsigned... numbers> struct Indices { };
template <unsigned count, unsigned... numbers> struct Range : Range<count - 1, count - 1, numbers...> { };
template <unsigned... numbers> struct Range<0, numbers...> {
    using Type = Indices<numbers...>;
};

template <class... Parameters, unsigned... numbers>
__attribute__((no_sanitize("thread"), no_sanitize("alignment"))) inline void call(
    void (*kernel)(typename Argument<Parameters>::Passed...), const char* arguments, Indices<numbers...>)
{
    constexpr auto where = layout<typename Argument<Parameters>::Stored...>();
    (void)where, (void)arguments; // of a kernel without parameters
    kernel(Argument<Parameters>::read(arguments + where.offsets[numbers])...);
}

template <class... Parameters>
__attribute__((no_sanitize("thread"), no_sanitize("alignment"))) void invoke(const void* function, const char* arguments)
{
    using Kernel = void (*)(typename Argument<Parameters>::Passed...);
    call<Parameters...>(Kernel(const_cast<void*>(function)), arguments, typename Range<sizeof...(Parameters)>::Type());
}

// What a kernel's launch bounds allow, 0 where it has none; at most what the device does.
constexpr unsigned threads_of_a_block(long long bound) { return bound > 1024 || bound < 0 ? 1024 : unsigned(bound); }

// The function's type, because that has no const or restrict of the parameters themselves.
template <class... Parameters> constexpr Record<sizeof...(Parameters)> record(void (*)(Parameters...), const char* names, long long bound)
{
    Record<sizeof...(Parameters)> made = layout<typename Argument<Parameters>::Stored...>();
    constexpr unsigned count = sizeof...(Parameters);
    made.head = {&invoke<Parameters...>, names, count, made.offsets[count], threads_of_a_block(bound)};
    return made;
}

} // namespace softcuda
