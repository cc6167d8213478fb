// Conversions of 8-bit floats, an element a thread: E4M3, or E5M2 where USE_E5M2 is defined. tests/softcuda/test_fp8.py runs them.
#include <cuda_fp8.h>

#ifdef USE_E5M2
typedef __nv_fp8_e5m2 T;
typedef __nv_fp8x2_e5m2 T2;
typedef __nv_fp8x4_e5m2 T4;
constexpr __nv_fp8_interpretation_t KIND = __NV_E5M2;
#else
typedef __nv_fp8_e4m3 T;
typedef __nv_fp8x2_e4m3 T2;
typedef __nv_fp8x4_e4m3 T4;
constexpr __nv_fp8_interpretation_t KIND = __NV_E4M3;
#endif

#define EACH(name, from, to, result) \
    extern "C" __global__ void name(const from* a, to* out, int count) \
    { \
        for (int i = threadIdx.x + 32 * blockIdx.x; i < count; i += 32 * gridDim.x) { \
            const from x = a[i]; \
            out[i] = result; \
        } \
    }
EACH(widen, T, float, float(x))
EACH(widen_half, T, __half, __half(__nv_cvt_fp8_to_halfraw(x.__x, KIND)))
EACH(widen_pair, T2, float2, float2(x))
EACH(widen_four, T4, float4, float4(x))
EACH(to_int, T, int, int(x))
EACH(float_nosat, float, unsigned char, __nv_cvt_float_to_fp8(x, __NV_NOSAT, KIND))
EACH(float_sat, float, unsigned char, __nv_cvt_float_to_fp8(x, __NV_SATFINITE, KIND))
EACH(float_type, float, T, T(x))
EACH(half_nosat, __half, unsigned char, __nv_cvt_halfraw_to_fp8(x, __NV_NOSAT, KIND))
EACH(bfloat_nosat, __nv_bfloat16, unsigned char, __nv_cvt_bfloat16raw_to_fp8(x, __NV_NOSAT, KIND))
EACH(double_nosat, double, unsigned char, __nv_cvt_double_to_fp8(x, __NV_NOSAT, KIND))
EACH(int_type, int, T, T(x))
EACH(float_pair, float2, T2, T2(x))
EACH(half_pair, __half2, T2, T2(x))
EACH(float_four, float4, T4, T4(x))
EACH(bfloat_pair, __nv_bfloat162, unsigned short, __nv_cvt_bfloat16raw2_to_fp8x2(x, __NV_SATFINITE, KIND))
