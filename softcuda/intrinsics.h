// Device functions that C++ has under other names or not at all: memory, integers, floats, atomics.
#pragma once

// Loads and stores with cache hints: plain ones, in the caller's own line for the checker.
#define SOFTCUDA_LOAD(name) \
    template <class T> __forceinline__ T name(const T* address) { return *address; }
#define SOFTCUDA_STORE(name) \
    template <class T> __forceinline__ void name(T* address, T value) { *address = value; }
SOFTCUDA_LOAD(__ldg)
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
static inline unsigned __brev(unsigned x)
{
    unsigned r = 0;
    for (int i = 0; i < 32; ++i)
        r |= (x >> i & 1u) << (31 - i);
    return r;
}
static inline int __mul24(int a, int b) { return int((unsigned(a << 8) >> 8) * (unsigned(b << 8) >> 8)); }
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
static inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
static inline unsigned __sad(int a, int b, unsigned c) { return c + unsigned(a < b ? b - a : a - b); }
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s)
{
    return unsigned((((unsigned long long)hi << 32 | lo) << (s & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s)
{
    return unsigned(((unsigned long long)hi << 32 | lo) >> (s & 31));
}
SOFTCUDA_WRAPS static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 32; i += 8)
        c += int((signed char)(a >> i)) * int((signed char)(b >> i));
    return c;
}

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
#define __exp10f(x) powf(10.0f, (x))
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline int __float2int_rn(float x) { return int(rintf(x)); }
static inline int __float2int_rz(float x) { return int(x); }
static inline int __float2int_rd(float x) { return int(floorf(x)); }
static inline int __float2int_ru(float x) { return int(ceilf(x)); }
static inline unsigned __float2uint_rn(float x) { return unsigned(rintf(x)); }
static inline float __int2float_rn(int x) { return float(x); }
static inline double __int2double_rn(int x) { return double(x); }
static inline int __double2int_rn(double x) { return int(rint(x)); }
static inline int __double2int_rz(double x) { return int(x); }
static inline float __double2float_rn(double x) { return float(x); }
static inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
static inline void sincospi(double x, double* s, double* c) { *s = sin(M_PI * x), *c = cos(M_PI * x); }
static inline double sinpi(double x) { return sin(M_PI * x); }
static inline double cospi(double x) { return cos(M_PI * x); }
static inline float sinpif(float x) { return sinf(float(M_PI) * x); }
static inline float cospif(float x) { return cosf(float(M_PI) * x); }

// Atomics: threads of this device take turns only at barriers, so the plain operation is one. The checker is
// told, and does not take it for an ordinary access.
#define SOFTCUDA_ATOMIC(name, result) \
    template <class T, class U> __forceinline__ T name(T* address, U operand) \
    { \
        softcuda_atomic(address, sizeof(T)); \
        return softcuda::modify(address, [=](T old) SOFTCUDA_WRAPS { return T(result); }); \
    } \
    template <class T, class U> __forceinline__ T name##_block(T* address, U operand) { return name(address, operand); } \
    template <class T, class U> __forceinline__ T name##_system(T* address, U operand) { return name(address, operand); }
namespace softcuda {
template <class T, class Change>
__attribute__((no_sanitize("thread"), no_sanitize("alignment"))) inline T modify(T* address, Change change)
{
    const T old = *address;
    *address = change(old);
    return old;
}
} // namespace softcuda
SOFTCUDA_ATOMIC(atomicAdd, old + T(operand))
SOFTCUDA_ATOMIC(atomicSub, old - T(operand))
SOFTCUDA_ATOMIC(atomicExch, operand)
SOFTCUDA_ATOMIC(atomicMin, T(operand) < old ? T(operand) : old)
SOFTCUDA_ATOMIC(atomicMax, old < T(operand) ? T(operand) : old)
SOFTCUDA_ATOMIC(atomicAnd, old & T(operand))
SOFTCUDA_ATOMIC(atomicOr, old | T(operand))
SOFTCUDA_ATOMIC(atomicXor, old ^ T(operand))
SOFTCUDA_ATOMIC(atomicInc, old >= T(operand) ? 0 : old + 1)
SOFTCUDA_ATOMIC(atomicDec, old == 0 || old > T(operand) ? T(operand) : old - 1)
#undef SOFTCUDA_ATOMIC
template <class T, class U, class V> __forceinline__ T atomicCAS(T* address, U expected, V desired)
{
    softcuda_compare_and_swap(address, sizeof(T));
    return softcuda::modify(address, [=](T old) { return old == T(expected) ? T(desired) : old; });
}
