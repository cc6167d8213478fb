// What tests/softcuda/test_half.py compares with NumPy and ml_dtypes. N pastes the type's name into that of a function.
#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <time.h>

#ifdef USE_BFLOAT16
#define N(before, after) before##bfloat16##after
typedef __nv_bfloat16 small;
typedef __nv_bfloat162 small2;
#else
#define N(before, after) before##half##after
typedef __half small;
typedef __half2 small2;
#endif

#define EACH(name, type, expression) \
    extern "C" __global__ void name(const small* a, const small* b, const small* c, const float* f, const double* d, \
        const long long* i, type* out, int n) \
    { \
        for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < n; k += gridDim.x * blockDim.x) \
            out[k] = expression; \
    }
EACH(widen, float, N(__, 2float)(a[k]))
EACH(narrow_rn, small, N(__float2, _rn)(f[k]))
EACH(narrow_rz, small, N(__float2, _rz)(f[k]))
EACH(narrow_rd, small, N(__float2, _rd)(f[k]))
EACH(narrow_ru, small, N(__float2, _ru)(f[k]))
EACH(narrow_double, small, N(__double2, )(d[k]))
EACH(from_ll, small, N(__ll2, _rn)(i[k]))
EACH(from_int, small, N(__int2, _rn)(int(i[k])))
EACH(to_int_rn, int, N(__, 2int_rn)(a[k]))
EACH(to_int_rz, int, N(__, 2int_rz)(a[k]))
EACH(to_int_rd, int, N(__, 2int_rd)(a[k]))
EACH(to_int_ru, int, N(__, 2int_ru)(a[k]))
EACH(to_ushort, unsigned short, N(__, 2ushort_rz)(a[k]))
EACH(add, small, __hadd(a[k], b[k]))
EACH(subtract, small, a[k] - b[k])
EACH(multiply, small, a[k] * b[k])
EACH(divide, small, __hdiv(a[k], b[k]))
EACH(fma_, small, __hfma(a[k], b[k], c[k]))
EACH(negate, small, -a[k])
EACH(absolute, small, __habs(a[k]))
EACH(largest, small, __hmax(a[k], b[k]))
EACH(smallest, small, __hmin(a[k], b[k]))
EACH(root, small, hsqrt(a[k]))
EACH(exponential, small, hexp(a[k]))
EACH(logarithm, small, hlog(a[k]))
EACH(reciprocal, small, hrcp(a[k]))
EACH(reciprocal_root, small, hrsqrt(a[k]))
EACH(less, int, int(a[k] < b[k]) + 2 * int(__hle(a[k], b[k])) + 4 * int(__hgtu(a[k], b[k])) + 8 * int(a[k] == b[k]) + 16 * int(__hne(a[k], b[k])))

extern "C" __global__ void pairs(const small2* a, const small2* b, const small2* c, small2* out)
{
    const int k = threadIdx.x;
    out[32 * 0 + k] = __hadd2(a[k], b[k]);
    out[32 * 1 + k] = __hmul2(a[k], b[k]);
    out[32 * 2 + k] = __hfma2(a[k], b[k], c[k]);
    out[32 * 3 + k] = N(__float22, 2_rn)(N(__, 22float2)(a[k]));
    out[32 * 4 + k] = N(__halves2, 2)(N(__high2, )(a[k]), N(__low2, )(a[k]));
    out[32 * 5 + k] = N(__floats2, 2_rn)(__low2float(a[k]), __high2float(b[k]));
    out[32 * 6 + k] = __lowhigh2highlow(a[k]);
    out[32 * 7 + k] = h2exp(a[k]);
    out[32 * 8 + k] = __shfl_xor_sync(~0u, a[k], 1);
    out[32 * 9 + k] = __ldg(a + k) - b[k];
}

extern "C" __global__ void atomics(small* one, small2* two)
{
    atomicAdd(one, small(0.5f));
    atomicAdd(two, small2(small(1.0f), small(2.0f)));
    __syncwarp();
    two[1 + threadIdx.x] = small2(__shfl_down_sync(~0u, small(float(threadIdx.x)), 1), __shfl_sync(~0u, one[0], 0));
}
