// Device functions that many kernels call, which C++ has under other names or not at all: memory, integers, floats,
// atomics. The others are in the tables of intrinsics/, of which a file gets those that it names something of
// (headers.py).
#pragma once

// Loads and stores with cache hints: plain ones, in the caller's own line for the checker. What is stored converts to
// the word's type, as CUDA's own overloads take it.
namespace softcuda {
template <class T> struct AsItIs {
    using type = T;
};
} // namespace softcuda
#define SOFTCUDA_LOAD(name) \
    template <class T> __forceinline__ T name(const T* address) { return *address; }
#define SOFTCUDA_STORE(name) \
    template <class T> __forceinline__ void name(T* address, typename softcuda::AsItIs<T>::type value) \
    { \
        *address = value; \
    }
#ifdef SOFTCUDA_CHECKED
template <class T> __forceinline__ T __ldg(const T* address)
{
    softcuda_read_only(address, sizeof(T));
    return *address;
}
#else
SOFTCUDA_LOAD(__ldg)
#endif
SOFTCUDA_LOAD(__ldca)
SOFTCUDA_LOAD(__ldcg)
SOFTCUDA_LOAD(__ldcs)
SOFTCUDA_LOAD(__ldlu)
SOFTCUDA_LOAD(__ldcv)
SOFTCUDA_STORE(__stwb)
SOFTCUDA_STORE(__stcg)
SOFTCUDA_STORE(__stcs)
SOFTCUDA_STORE(__stwt)
#undef SOFTCUDA_LOAD
#undef SOFTCUDA_STORE

// Integers. CUDA's min and max take mixed types, as C's arithmetic does.
template <class A, class B> static inline auto min(A a, B b) -> decltype(a + b)
{
    using T = decltype(a + b);
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B> static inline auto max(A a, B b) -> decltype(a + b)
{
    using T = decltype(a + b);
    return T(a) < T(b) ? T(b) : T(a);
}
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
using std::abs;
using std::isfinite;
using std::isinf;
using std::isnan;
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
// Bits of floats.
static inline int __float_as_int(float x) { return softcuda::from_bits<int>(softcuda::to_bits(x)); }
static inline unsigned __float_as_uint(float x) { return softcuda::from_bits<unsigned>(softcuda::to_bits(x)); }
static inline float __int_as_float(int x) { return softcuda::from_bits<float>(softcuda::to_bits(x)); }
static inline float __uint_as_float(unsigned x) { return softcuda::from_bits<float>(softcuda::to_bits(x)); }
static inline long long __double_as_longlong(double x) { return (long long)softcuda::to_bits(x); }
static inline double __longlong_as_double(long long x) { return softcuda::from_bits<double>((unsigned long)x); }

// Floats. The fast ones are the exact ones here; some of their names the C library has for itself, as functions.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
#define __exp10f(x) exp10f(x)
#define __tanhf(x) tanhf(x)
#define __sincosf(x, s, c) sincosf((x), (s), (c))
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
// CUDA's guide: 0 where the divisor is between 2^126 and 2^128, and NaN if the dividend is infinite then.
static inline float __fdividef(float a, float b) { return fabsf(b) > 0x1p126f && fabsf(b) <= 0x1.fffffep127f ? a * 0.0f : a / b; }
static inline float fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
static inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }

// Atomics: threads of this device take turns only at barriers, so the plain operation is one. The checker is
// told, and does not take it for an ordinary access.
#define SOFTCUDA_SCOPED(name, traits, result) \
    template <class T, class U> __forceinline__ T name(T* address, U operand) \
    { \
        softcuda_atomic(address, sizeof(T), traits); \
        return softcuda::modify(address, [=](T old) SOFTCUDA_WRAPS { return T(result); }); \
    }
#define SOFTCUDA_ATOMIC(name, traits, result) \
    SOFTCUDA_SCOPED(name, traits, result) \
    SOFTCUDA_SCOPED(name##_block, (traits) | softcuda::atomic_of_block, result) \
    SOFTCUDA_SCOPED(name##_system, traits, result)
namespace softcuda {
template <class T, class Change>
__attribute__((no_sanitize("thread"), no_sanitize("alignment"))) inline T modify(T* address, Change change)
{
    const T old = *address;
    *address = change(old);
    return old;
}
} // namespace softcuda
SOFTCUDA_ATOMIC(atomicAdd, 0, old + T(operand))
SOFTCUDA_ATOMIC(atomicSub, 0, old - T(operand))
SOFTCUDA_ATOMIC(atomicExch, 0, operand)
SOFTCUDA_ATOMIC(atomicMin, softcuda::atomic_bounds, T(operand) < old ? T(operand) : old)
SOFTCUDA_ATOMIC(atomicMax, softcuda::atomic_bounds, old < T(operand) ? T(operand) : old)
SOFTCUDA_ATOMIC(atomicAnd, softcuda::atomic_bounds, old & T(operand))
SOFTCUDA_ATOMIC(atomicOr, softcuda::atomic_bounds, old | T(operand))
SOFTCUDA_ATOMIC(atomicXor, 0, old ^ T(operand))
SOFTCUDA_ATOMIC(atomicInc, 0, old >= T(operand) ? 0 : old + 1)
SOFTCUDA_ATOMIC(atomicDec, 0, old == 0 || old > T(operand) ? T(operand) : old - 1)
#undef SOFTCUDA_ATOMIC
#undef SOFTCUDA_SCOPED
#define SOFTCUDA_SWAP(name, traits) \
    template <class T, class U, class V> __forceinline__ T name(T* address, U expected, V desired) \
    { \
        softcuda_atomic(address, sizeof(T), softcuda::atomic_compares | (traits)); \
        return softcuda::modify(address, [=](T old) { return old == T(expected) ? T(desired) : old; }); \
    }
SOFTCUDA_SWAP(atomicCAS, 0)
SOFTCUDA_SWAP(atomicCAS_block, softcuda::atomic_of_block)
SOFTCUDA_SWAP(atomicCAS_system, 0)
#undef SOFTCUDA_SWAP
// Vectors of floats: each component is added atomically, the vector as a whole is not.
#define SOFTCUDA_VECTOR(name) \
    static __forceinline__ float2 name(float2* to, float2 b) { return {name(&to->x, b.x), name(&to->y, b.y)}; } \
    static __forceinline__ float4 name(float4* to, float4 b) \
    { return {name(&to->x, b.x), name(&to->y, b.y), name(&to->z, b.z), name(&to->w, b.w)}; }
SOFTCUDA_VECTOR(atomicAdd)
SOFTCUDA_VECTOR(atomicAdd_block)
SOFTCUDA_VECTOR(atomicAdd_system)
#undef SOFTCUDA_VECTOR

// What speaks to the compiler, to a debugger or to a profiler. An assumption that does not hold ends the launch.
#define __builtin_assume(condition) ((condition) ? (void)0 : softcuda_trap("a false __builtin_assume"))
#define __assume(condition) ((condition) ? (void)0 : softcuda_trap("a false __assume"))
#define __brkpt() softcuda_trap("__brkpt()")
#define __prof_trigger(counter) ((void)(counter))
