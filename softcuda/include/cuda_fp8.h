// Floats of 8 bits: E4M3 (without infinity) and E5M2, as CUDA's header of this name has them; and conversions of E8M0.
//
// Each conversion rounds once, to nearest and ties to even. Types are converted with __NV_SATFINITE.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

namespace softcuda {

// What does not fit becomes infinite, or NaN in E4M3; or the largest number.
template <class Format> uint8_t narrow_byte(double value, __nv_saturation_t saturate)
{
    const uint16_t made = Format::narrow(value);
    const bool too_large = value == value && (made & Format::nan) >= Format::infinity;
    return uint8_t(too_large && saturate == __NV_SATFINITE ? (made & Format::sign_bit) | (Format::infinity - 1) : made);
}
using E4M3 = Narrow<3, 8, true>;
using E5M2 = Narrow<2, 8>;
static inline uint8_t narrow_byte(double value, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind)
{
    return kind == __NV_E4M3 ? narrow_byte<E4M3>(value, saturate) : narrow_byte<E5M2>(value, saturate);
}
static inline double widen_byte(uint8_t bits, __nv_fp8_interpretation_t kind) { return kind == __NV_E4M3 ? E4M3::widen(bits) : E5M2::widen(bits); }

} // namespace softcuda

#define SOFTCUDA_CVT static __forceinline__
#define SOFTCUDA_MODES __nv_saturation_t saturate, __nv_fp8_interpretation_t kind
SOFTCUDA_CVT __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, SOFTCUDA_MODES) { return softcuda::narrow_byte(x, saturate, kind); }
SOFTCUDA_CVT __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, SOFTCUDA_MODES) { return softcuda::narrow_byte(x, saturate, kind); }
SOFTCUDA_CVT __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, SOFTCUDA_MODES) { return softcuda::narrow_byte(float(__half(x)), saturate, kind); }
SOFTCUDA_CVT __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, SOFTCUDA_MODES) { return softcuda::narrow_byte(float(__nv_bfloat16(x)), saturate, kind); }
// Pairs: x in the low byte.
#define SOFTCUDA_PAIR(name, of_one, type) \
    SOFTCUDA_CVT __nv_fp8x2_storage_t name(type x, SOFTCUDA_MODES) { return __nv_fp8x2_storage_t(of_one(x.x, saturate, kind) | of_one(x.y, saturate, kind) << 8); }
SOFTCUDA_PAIR(__nv_cvt_double2_to_fp8x2, __nv_cvt_double_to_fp8, double2)
SOFTCUDA_PAIR(__nv_cvt_float2_to_fp8x2, __nv_cvt_float_to_fp8, float2)
#undef SOFTCUDA_PAIR
SOFTCUDA_CVT __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, SOFTCUDA_MODES)
{
    const __half2 both(x);
    return __nv_cvt_float2_to_fp8x2(float2 {both.x, both.y}, saturate, kind);
}
SOFTCUDA_CVT __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw x, SOFTCUDA_MODES)
{
    const __nv_bfloat162 both(x);
    return __nv_cvt_float2_to_fp8x2(float2 {both.x, both.y}, saturate, kind);
}
SOFTCUDA_CVT __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) { return __half(softcuda::widen_byte(x, kind)); }
SOFTCUDA_CVT __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind)
{
    return __half2(__nv_cvt_fp8_to_halfraw(uint8_t(x), kind), __nv_cvt_fp8_to_halfraw(uint8_t(x >> 8), kind));
}

// The types: one number, two and four.
#define SOFTCUDA_FROM(name, kind, type) \
    explicit __forceinline__ name(type value) : __x(softcuda::narrow_byte(double(value), __NV_SATFINITE, kind)) { }
#define SOFTCUDA_TO(kind, type, value) \
    explicit __forceinline__ operator type() const { const double wide = softcuda::widen_byte(__x, kind); return value; }
#define SOFTCUDA_INTEGER(name, kind, type) SOFTCUDA_FROM(name, kind, type) SOFTCUDA_TO(kind, type, softcuda::to_integer<type>(trunc(wide)))
#define SOFTCUDA_FP8(name, name2, name4, kind) \
    struct __align__(1) name { \
        __nv_fp8_storage_t __x; \
        name() = default; \
        explicit __forceinline__ name(__half value) : name(float(value)) { } \
        explicit __forceinline__ name(__nv_bfloat16 value) : name(float(value)) { } \
        SOFTCUDA_FROM(name, kind, float) SOFTCUDA_FROM(name, kind, double) \
        SOFTCUDA_INTEGER(name, kind, short) SOFTCUDA_INTEGER(name, kind, unsigned short) SOFTCUDA_INTEGER(name, kind, int) \
        SOFTCUDA_INTEGER(name, kind, unsigned) SOFTCUDA_INTEGER(name, kind, long) SOFTCUDA_INTEGER(name, kind, unsigned long) \
        SOFTCUDA_INTEGER(name, kind, long long) SOFTCUDA_INTEGER(name, kind, unsigned long long) \
        SOFTCUDA_TO(kind, __half, __half(wide)) SOFTCUDA_TO(kind, __nv_bfloat16, __nv_bfloat16(wide)) \
        SOFTCUDA_TO(kind, float, float(wide)) SOFTCUDA_TO(kind, double, wide) SOFTCUDA_TO(kind, bool, wide != 0) \
        SOFTCUDA_TO(kind, char, softcuda::to_integer<char>(trunc(wide))) SOFTCUDA_TO(kind, signed char, softcuda::to_integer<signed char>(trunc(wide))) \
        SOFTCUDA_TO(kind, unsigned char, softcuda::to_integer<unsigned char>(trunc(wide))) \
    }; \
    struct __align__(2) name2 { \
        __nv_fp8x2_storage_t __x; \
        name2() = default; \
        explicit __forceinline__ name2(__half2 value) : name2(__half22float2(value)) { } \
        explicit __forceinline__ name2(__nv_bfloat162 value) : name2(__bfloat1622float2(value)) { } \
        explicit __forceinline__ name2(float2 value) : __x(__nv_cvt_float2_to_fp8x2(value, __NV_SATFINITE, kind)) { } \
        explicit __forceinline__ name2(double2 value) : __x(__nv_cvt_double2_to_fp8x2(value, __NV_SATFINITE, kind)) { } \
        explicit __forceinline__ operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, kind); } \
        explicit __forceinline__ operator float2() const { return __half22float2(__half2(*this)); } \
    }; \
    struct __align__(4) name4 { \
        __nv_fp8x4_storage_t __x; \
        name4() = default; \
        __forceinline__ name4(name2 low, name2 high) : __x(low.__x | unsigned(high.__x) << 16) { } \
        explicit __forceinline__ name4(__half2 low, __half2 high) : name4(name2(low), name2(high)) { } \
        explicit __forceinline__ name4(__nv_bfloat162 low, __nv_bfloat162 high) : name4(name2(low), name2(high)) { } \
        explicit __forceinline__ name4(float4 value) : name4(name2(float2 {value.x, value.y}), name2(float2 {value.z, value.w})) { } \
        explicit __forceinline__ name4(double4 value) : name4(name2(double2 {value.x, value.y}), name2(double2 {value.z, value.w})) { } \
        explicit __forceinline__ operator float4() const \
        { \
            const float2 low = __half22float2(__nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t(__x), kind)); \
            const float2 high = __half22float2(__nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t(__x >> 16), kind)); \
            return {low.x, low.y, high.x, high.y}; \
        } \
    };
SOFTCUDA_FP8(__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3, __NV_E4M3)
SOFTCUDA_FP8(__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2, __NV_E5M2)

// E8M0, a power of two without a sign: as a scale of others it is only converted.
SOFTCUDA_CVT __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double x, __nv_saturation_t saturate, cudaRoundMode rounding)
{
    int exponent;
    const double fraction = frexp(fabs(x), &exponent); // from 0.5 to 1
    if (x != x || (isinf(x) && saturate == __NV_NOSAT))
        return 255;
    const int made = x == 0 ? 0 : isinf(x) ? 255 : exponent + 126 + (rounding == cudaRoundPosInf && fraction > 0.5);
    return __nv_fp8_storage_t(made < 0 ? 0 : made > 254 ? 255 - (saturate == __NV_SATFINITE) : made);
}
SOFTCUDA_CVT __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t saturate, cudaRoundMode rounding)
{
    return __nv_cvt_double_to_e8m0(x, saturate, rounding);
}
SOFTCUDA_CVT __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x)
{
    return __nv_bfloat16(x == 255 ? __builtin_nanf("") : float(ldexp(1.0, int(x) - 127)));
}
SOFTCUDA_CVT __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x)
{
    return __nv_bfloat162(__nv_cvt_e8m0_to_bf16raw(uint8_t(x)), __nv_cvt_e8m0_to_bf16raw(uint8_t(x >> 8)));
}
#undef SOFTCUDA_CVT
#undef SOFTCUDA_MODES
#undef SOFTCUDA_FROM
#undef SOFTCUDA_TO
#undef SOFTCUDA_INTEGER
#undef SOFTCUDA_FP8
