// Complex numbers as pairs of floats or doubles, and their arithmetic.
#pragma once

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define SOFTCUDA_COMPLEX(pair, part, f, hypotenuse) \
    static __forceinline__ pair make_##pair(part x, part y) \
    { \
        pair made; \
        made.x = x, made.y = y; \
        return made; \
    } \
    static __forceinline__ part cuCreal##f(pair a) { return a.x; } \
    static __forceinline__ part cuCimag##f(pair a) { return a.y; } \
    static __forceinline__ pair cuConj##f(pair a) { return make_##pair(a.x, -a.y); } \
    static __forceinline__ pair cuCadd##f(pair a, pair b) { return make_##pair(a.x + b.x, a.y + b.y); } \
    static __forceinline__ pair cuCsub##f(pair a, pair b) { return make_##pair(a.x - b.x, a.y - b.y); } \
    static __forceinline__ pair cuCmul##f(pair a, pair b) { return make_##pair(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); } \
    static __forceinline__ part cuCabs##f(pair a) { return hypotenuse(a.x, a.y); } \
    static __forceinline__ pair cuCfma##f(pair a, pair b, pair c) { return cuCadd##f(cuCmul##f(a, b), c); } \
    /* Scaled, so that a large divisor's square is not infinite. */ \
    static __forceinline__ pair cuCdiv##f(pair a, pair b) \
    { \
        const part scale = part(1) / (fabs(b.x) + fabs(b.y)); \
        const pair p = make_##pair(a.x * scale, a.y * scale), q = make_##pair(b.x * scale, b.y * scale); \
        const part whole = part(1) / (q.x * q.x + q.y * q.y); \
        return make_##pair((p.x * q.x + p.y * q.y) * whole, (p.y * q.x - p.x * q.y) * whole); \
    }
SOFTCUDA_COMPLEX(cuFloatComplex, float, f, hypotf)
SOFTCUDA_COMPLEX(cuDoubleComplex, double, , hypot)
#undef SOFTCUDA_COMPLEX

static __forceinline__ cuComplex make_cuComplex(float x, float y) { return make_cuFloatComplex(x, y); }
static __forceinline__ cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) { return make_cuFloatComplex(float(a.x), float(a.y)); }
static __forceinline__ cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) { return make_cuDoubleComplex(a.x, a.y); }
