// Arithmetic and conversions whose name says how they round (_rn _rz _ru _rd): each result is rounded once, correctly.
#pragma once

#include "rounded_as.h"

#define SOFTCUDA_MODES(row, name, ...) \
    row(name##_rn, nearest, __VA_ARGS__) row(name##_rz, to_zero, __VA_ARGS__) row(name##_ru, up, __VA_ARGS__) row(name##_rd, down, __VA_ARGS__)
#define SOFTCUDA_ONE(name, mode, type, from, result) \
    static inline type name(from x) { return softcuda::rounded_as<softcuda::Rounding::mode, type>([](const volatile from& a) SOFTCUDA_STILL { return result; }, x); }
#define SOFTCUDA_TWO(name, mode, type, result) \
    static inline type name(type x, type y) \
    { return softcuda::rounded_as<softcuda::Rounding::mode, type>([](const volatile type& a, const volatile type& b) SOFTCUDA_STILL { return result; }, x, y); }
#define SOFTCUDA_THREE(name, mode, type, result) \
    static inline type name(type x, type y, type z) \
    { \
        return softcuda::rounded_as<softcuda::Rounding::mode, type>( \
            [](const volatile type& a, const volatile type& b, const volatile type& c) SOFTCUDA_STILL { return result; }, x, y, z); \
    }
#define SOFTCUDA_WHOLE(name, mode, to, from) \
    static inline to name(from x) { return softcuda::integer_of<to>(x, softcuda::Rounding::mode); }
#define SOFTCUDA_STILL __attribute__((no_sanitize("thread"), no_sanitize("alignment")))

SOFTCUDA_MODES(SOFTCUDA_TWO, __fadd, float, a + b)
SOFTCUDA_MODES(SOFTCUDA_TWO, __fsub, float, a - b)
SOFTCUDA_MODES(SOFTCUDA_TWO, __fmul, float, a * b)
SOFTCUDA_MODES(SOFTCUDA_TWO, __fdiv, float, a / b)
SOFTCUDA_MODES(SOFTCUDA_ONE, __frcp, float, float, 1.0f / a)
SOFTCUDA_MODES(SOFTCUDA_ONE, __fsqrt, float, float, sqrtf(a))
SOFTCUDA_MODES(SOFTCUDA_THREE, __fmaf, float, fmaf(a, b, c))
SOFTCUDA_MODES(SOFTCUDA_THREE, __fmaf_ieee, float, fmaf(a, b, c))
SOFTCUDA_MODES(SOFTCUDA_TWO, __dadd, double, a + b)
SOFTCUDA_MODES(SOFTCUDA_TWO, __dsub, double, a - b)
SOFTCUDA_MODES(SOFTCUDA_TWO, __dmul, double, a * b)
SOFTCUDA_MODES(SOFTCUDA_TWO, __ddiv, double, a / b)
SOFTCUDA_MODES(SOFTCUDA_ONE, __drcp, double, double, 1.0 / a)
SOFTCUDA_MODES(SOFTCUDA_ONE, __dsqrt, double, double, sqrt(a))
SOFTCUDA_MODES(SOFTCUDA_THREE, __fma, double, fma(a, b, c))
// In 64 bits first: no reciprocal root of a float32 lies so near the middle of two that this rounds wrongly (each of those
// from 1 to 4 was compared with the exact one).
static inline float __frsqrt_rn(float x) { return float(1.0 / sqrt(double(x))); }

SOFTCUDA_MODES(SOFTCUDA_ONE, __double2float, float, double, float(a))
SOFTCUDA_MODES(SOFTCUDA_ONE, __int2float, float, int, float(a))
SOFTCUDA_MODES(SOFTCUDA_ONE, __uint2float, float, unsigned, float(a))
SOFTCUDA_MODES(SOFTCUDA_ONE, __ll2float, float, long long, float(a))
SOFTCUDA_MODES(SOFTCUDA_ONE, __ull2float, float, unsigned long long, float(a))
SOFTCUDA_MODES(SOFTCUDA_ONE, __ll2double, double, long long, double(a))
SOFTCUDA_MODES(SOFTCUDA_ONE, __ull2double, double, unsigned long long, double(a))
static inline double __int2double_rn(int x) { return double(x); }
static inline double __uint2double_rn(unsigned x) { return double(x); }
SOFTCUDA_MODES(SOFTCUDA_WHOLE, __float2int, int, float)
SOFTCUDA_MODES(SOFTCUDA_WHOLE, __float2uint, unsigned, float)
SOFTCUDA_MODES(SOFTCUDA_WHOLE, __float2ll, long long, float)
SOFTCUDA_MODES(SOFTCUDA_WHOLE, __float2ull, unsigned long long, float)
SOFTCUDA_MODES(SOFTCUDA_WHOLE, __double2int, int, double)
SOFTCUDA_MODES(SOFTCUDA_WHOLE, __double2uint, unsigned, double)
SOFTCUDA_MODES(SOFTCUDA_WHOLE, __double2ll, long long, double)
SOFTCUDA_MODES(SOFTCUDA_WHOLE, __double2ull, unsigned long long, double)
#undef SOFTCUDA_MODES
#undef SOFTCUDA_ONE
#undef SOFTCUDA_TWO
#undef SOFTCUDA_THREE
#undef SOFTCUDA_WHOLE
