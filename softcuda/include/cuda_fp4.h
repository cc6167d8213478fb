// Floats of 4 bits, E2M1, as CUDA's header of this name has them: 0, 0.5, 1, 1.5, 2, 3, 4 and 6 of both signs. Each
// conversion rounds once, to nearest and ties to even; what is larger becomes 6, as NaN does.
#pragma once

#include "cuda_fp8.h"

typedef __nv_fp8_storage_t __nv_fp4_storage_t;
typedef __nv_fp8_storage_t __nv_fp4x2_storage_t;
typedef __nv_fp8x2_storage_t __nv_fp4x4_storage_t;
typedef enum __nv_fp4_interpretation_t { __NV_E2M1 } __nv_fp4_interpretation_t;

namespace softcuda {

static inline double widen_nibble(unsigned bits)
{
    const unsigned exponent = bits >> 1 & 3, fraction = bits & 1;
    const double size = exponent ? (2 + fraction) * (1 << exponent) * 0.25 : fraction * 0.5;
    return bits & 8 ? -size : size;
}
static inline uint8_t narrow_nibble(double value)
{
    if (value != value)
        return 7;
    unsigned made = 0;
    for (const double size = fabs(value); made < 7; ++made) {
        const double middle = (widen_nibble(made) + widen_nibble(made + 1)) / 2;
        if (size < middle || (size == middle && made % 2 == 0))
            break;
    }
    return uint8_t(made | unsigned(__builtin_signbit(value) != 0) << 3);
}

} // namespace softcuda

#define SOFTCUDA_CVT static __forceinline__
#define SOFTCUDA_MODES __nv_fp4_interpretation_t, cudaRoundMode
#define SOFTCUDA_NEAREST __NV_E2M1, cudaRoundNearest
SOFTCUDA_CVT __nv_fp4_storage_t __nv_cvt_double_to_fp4(double x, SOFTCUDA_MODES) { return softcuda::narrow_nibble(x); }
SOFTCUDA_CVT __nv_fp4_storage_t __nv_cvt_float_to_fp4(float x, SOFTCUDA_MODES) { return softcuda::narrow_nibble(x); }
SOFTCUDA_CVT __nv_fp4_storage_t __nv_cvt_halfraw_to_fp4(__half_raw x, SOFTCUDA_MODES) { return softcuda::narrow_nibble(float(__half(x))); }
SOFTCUDA_CVT __nv_fp4_storage_t __nv_cvt_bfloat16raw_to_fp4(__nv_bfloat16_raw x, SOFTCUDA_MODES) { return softcuda::narrow_nibble(float(__nv_bfloat16(x))); }
// Pairs: x in the low half.
SOFTCUDA_CVT __nv_fp4x2_storage_t __nv_cvt_double2_to_fp4x2(double2 x, SOFTCUDA_MODES)
{
    return __nv_fp4x2_storage_t(softcuda::narrow_nibble(x.x) | softcuda::narrow_nibble(x.y) << 4);
}
SOFTCUDA_CVT __nv_fp4x2_storage_t __nv_cvt_float2_to_fp4x2(float2 x, SOFTCUDA_MODES) { return __nv_cvt_double2_to_fp4x2(double2 {x.x, x.y}, SOFTCUDA_NEAREST); }
SOFTCUDA_CVT __nv_fp4x2_storage_t __nv_cvt_halfraw2_to_fp4x2(__half2_raw x, SOFTCUDA_MODES) { return __nv_cvt_float2_to_fp4x2(__half22float2(x), SOFTCUDA_NEAREST); }
SOFTCUDA_CVT __nv_fp4x2_storage_t __nv_cvt_bfloat16raw2_to_fp4x2(__nv_bfloat162_raw x, SOFTCUDA_MODES)
{
    return __nv_cvt_float2_to_fp4x2(__bfloat1622float2(x), SOFTCUDA_NEAREST);
}
SOFTCUDA_CVT __half_raw __nv_cvt_fp4_to_halfraw(__nv_fp4_storage_t x, __nv_fp4_interpretation_t) { return __half(softcuda::widen_nibble(x)); }
SOFTCUDA_CVT __half2_raw __nv_cvt_fp4x2_to_halfraw2(__nv_fp4x2_storage_t x, __nv_fp4_interpretation_t)
{
    return __half2(__half(softcuda::widen_nibble(x)), __half(softcuda::widen_nibble(x >> 4)));
}

// The types: one number, two and four.
struct __nv_fp4_e2m1 {
    __nv_fp4_storage_t __x;
    __nv_fp4_e2m1() = default;
    template <class Number> explicit __forceinline__ __nv_fp4_e2m1(Number value) : __x(softcuda::narrow_nibble(double(value))) { }
    explicit __forceinline__ __nv_fp4_e2m1(__half value) : __nv_fp4_e2m1(float(value)) { }
    explicit __forceinline__ __nv_fp4_e2m1(__nv_bfloat16 value) : __nv_fp4_e2m1(float(value)) { }
    explicit __forceinline__ operator float() const { return float(softcuda::widen_nibble(__x)); }
    explicit __forceinline__ operator double() const { return softcuda::widen_nibble(__x); }
    explicit __forceinline__ operator __half() const { return __half(float(*this)); }
    explicit __forceinline__ operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }
};
struct __nv_fp4x2_e2m1 {
    __nv_fp4x2_storage_t __x;
    __nv_fp4x2_e2m1() = default;
    explicit __forceinline__ __nv_fp4x2_e2m1(__half2 value) : __x(__nv_cvt_halfraw2_to_fp4x2(value, SOFTCUDA_NEAREST)) { }
    explicit __forceinline__ __nv_fp4x2_e2m1(__nv_bfloat162 value) : __x(__nv_cvt_bfloat16raw2_to_fp4x2(value, SOFTCUDA_NEAREST)) { }
    explicit __forceinline__ __nv_fp4x2_e2m1(float2 value) : __x(__nv_cvt_float2_to_fp4x2(value, SOFTCUDA_NEAREST)) { }
    explicit __forceinline__ __nv_fp4x2_e2m1(double2 value) : __x(__nv_cvt_double2_to_fp4x2(value, SOFTCUDA_NEAREST)) { }
    explicit __forceinline__ operator __half2() const { return __nv_cvt_fp4x2_to_halfraw2(__x, __NV_E2M1); }
    explicit __forceinline__ operator float2() const { return __half22float2(__half2(*this)); }
};
struct __align__(2) __nv_fp4x4_e2m1 {
    __nv_fp4x4_storage_t __x;
    __nv_fp4x4_e2m1() = default;
    __forceinline__ __nv_fp4x4_e2m1(__half2 low, __half2 high) : __nv_fp4x4_e2m1(__nv_fp4x2_e2m1(low), __nv_fp4x2_e2m1(high)) { }
    __forceinline__ __nv_fp4x4_e2m1(__nv_bfloat162 low, __nv_bfloat162 high) : __nv_fp4x4_e2m1(__nv_fp4x2_e2m1(low), __nv_fp4x2_e2m1(high)) { }
    explicit __forceinline__ __nv_fp4x4_e2m1(float4 value) : __nv_fp4x4_e2m1(__nv_fp4x2_e2m1(float2 {value.x, value.y}), __nv_fp4x2_e2m1(float2 {value.z, value.w})) { }
    explicit __forceinline__ __nv_fp4x4_e2m1(double4 value) : __nv_fp4x4_e2m1(__nv_fp4x2_e2m1(double2 {value.x, value.y}), __nv_fp4x2_e2m1(double2 {value.z, value.w})) { }
    explicit __forceinline__ operator float4() const
    {
        const unsigned bits = __x;
        return {float(softcuda::widen_nibble(bits)), float(softcuda::widen_nibble(bits >> 4)), float(softcuda::widen_nibble(bits >> 8)),
            float(softcuda::widen_nibble(bits >> 12))};
    }

private:
    __forceinline__ __nv_fp4x4_e2m1(__nv_fp4x2_e2m1 low, __nv_fp4x2_e2m1 high) : __x(__nv_fp4x4_storage_t(low.__x | high.__x << 8)) { }
};
#undef SOFTCUDA_CVT
#undef SOFTCUDA_MODES
#undef SOFTCUDA_NEAREST
