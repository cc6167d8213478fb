// A half-precision type and its functions. Included once for each, with these macros: SOFTCUDA_T, SOFTCUDA_T2 the types,
// SOFTCUDA_NAME what conversions call it (half, bfloat16), SOFTCUDA_BITS2 and SOFTCUDA_BITS its bits, SOFTCUDA_FRACTION its
// bits of fraction. No #pragma once: it is included twice.
//
// Each operation computes in 64 bits and rounds once. Parameters are values, so that memory is read in the kernel's line.
#define SOFTCUDA_JOIN5(a, b, c, d, e) a##b##c##d##e
#define SOFTCUDA_JOIN(a, b, c, d, e) SOFTCUDA_JOIN5(a, b, c, d, e)
#define SOFTCUDA_N(before, after) SOFTCUDA_JOIN(before, SOFTCUDA_NAME, after, , )
#define SOFTCUDA_NN(before, between, after) SOFTCUDA_JOIN(before, SOFTCUDA_NAME, between, SOFTCUDA_NAME, after)
#define SOFTCUDA_F static __forceinline__

struct SOFTCUDA_BITS { unsigned short x; };
struct __align__(4) SOFTCUDA_BITS2 { unsigned short x, y; };

struct __align__(2) SOFTCUDA_T {
    using Format = softcuda::Narrow<SOFTCUDA_FRACTION>;
    unsigned short __x; // named as in CUDA's header

    SOFTCUDA_T() = default;
    __forceinline__ SOFTCUDA_T(SOFTCUDA_BITS raw) : __x(raw.x) { }
    __forceinline__ SOFTCUDA_T(double value) : __x(Format::narrow(value)) { }
    __forceinline__ SOFTCUDA_T(float value) : __x(Format::narrow(value)) { }
#define SOFTCUDA_FROM(type) \
    __forceinline__ SOFTCUDA_T(type value) : __x(Format::narrow(softcuda::integer_to_odd(value))) { } \
    __forceinline__ operator type() const { return softcuda::to_integer<type>(trunc(Format::widen(__x))); }
    SOFTCUDA_FROM(short) SOFTCUDA_FROM(unsigned short) SOFTCUDA_FROM(int) SOFTCUDA_FROM(unsigned)
    SOFTCUDA_FROM(long) SOFTCUDA_FROM(unsigned long) SOFTCUDA_FROM(long long) SOFTCUDA_FROM(unsigned long long)
#undef SOFTCUDA_FROM
    __forceinline__ operator float() const { return float(Format::widen(__x)); }
    __forceinline__ operator bool() const { return (__x & 0x7fff) != 0; }
    __forceinline__ operator char() const { return softcuda::to_integer<char>(trunc(Format::widen(__x))); }
    __forceinline__ operator signed char() const { return softcuda::to_integer<signed char>(trunc(Format::widen(__x))); }
    __forceinline__ operator unsigned char() const { return softcuda::to_integer<unsigned char>(trunc(Format::widen(__x))); }
    __forceinline__ operator SOFTCUDA_BITS() const { return {__x}; }
};

struct __align__(4) SOFTCUDA_T2 {
    SOFTCUDA_T x, y;

    SOFTCUDA_T2() = default;
    __forceinline__ SOFTCUDA_T2(SOFTCUDA_T x, SOFTCUDA_T y) : x(x), y(y) { }
    __forceinline__ SOFTCUDA_T2(SOFTCUDA_BITS2 raw) : x(SOFTCUDA_BITS {raw.x}), y(SOFTCUDA_BITS {raw.y}) { }
    __forceinline__ operator SOFTCUDA_BITS2() const { return {x.__x, y.__x}; }
};

namespace softcuda {
__forceinline__ double wide(SOFTCUDA_T a) { return SOFTCUDA_T::Format::widen(a.__x); }
__forceinline__ SOFTCUDA_T rounded(SOFTCUDA_T, double value, Rounding mode = Rounding::nearest)
{
    return SOFTCUDA_BITS {SOFTCUDA_T::Format::narrow(value, mode)};
}
__forceinline__ SOFTCUDA_T larger(SOFTCUDA_T a, SOFTCUDA_T b, bool nan)
{
    const double x = wide(a), y = wide(b);
    if (x != x || y != y)
        return nan || (x != x && y != y) ? SOFTCUDA_T(SOFTCUDA_BITS {(unsigned short)SOFTCUDA_T::Format::nan}) : x != x ? b : a;
    return x > y || (x == y && a.__x < 0x8000) ? a : b;
}
__forceinline__ SOFTCUDA_T flipped(SOFTCUDA_T a) { return SOFTCUDA_BITS {(unsigned short)(a.__x ^ 0x8000)}; }
__forceinline__ SOFTCUDA_T between_0_and_1(SOFTCUDA_T a)
{
    const double x = wide(a);
    return x > 0 ? x < 1 ? a : SOFTCUDA_T(1.0) : SOFTCUDA_T(0.0);
}
} // namespace softcuda

// Functions of one, two and three numbers, and the same of pairs: name, name for pairs, result of x, y and z.
#define SOFTCUDA_ONE(name, name2, result) \
    SOFTCUDA_F SOFTCUDA_T name(SOFTCUDA_T a) { const double x = softcuda::wide(a); (void)x; return result; } \
    SOFTCUDA_F SOFTCUDA_T2 name2(SOFTCUDA_T2 a) { return {name(a.x), name(a.y)}; }
#define SOFTCUDA_TWO(name, name2, result) \
    SOFTCUDA_F SOFTCUDA_T name(SOFTCUDA_T a, SOFTCUDA_T b) \
    { const double x = softcuda::wide(a), y = softcuda::wide(b); (void)x, (void)y; return result; } \
    SOFTCUDA_F SOFTCUDA_T2 name2(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
#define SOFTCUDA_THREE(name, name2, result) \
    SOFTCUDA_F SOFTCUDA_T name(SOFTCUDA_T a, SOFTCUDA_T b, SOFTCUDA_T c) \
    { const double x = softcuda::wide(a), y = softcuda::wide(b), z = softcuda::wide(c); return result; } \
    SOFTCUDA_F SOFTCUDA_T2 name2(SOFTCUDA_T2 a, SOFTCUDA_T2 b, SOFTCUDA_T2 c) { return {name(a.x, b.x, c.x), name(a.y, b.y, c.y)}; }
#define SOFTCUDA_R(value) softcuda::rounded(a, value)

SOFTCUDA_TWO(__hadd, __hadd2, SOFTCUDA_R(softcuda::sum_to_odd(x, y)))
SOFTCUDA_TWO(__hsub, __hsub2, SOFTCUDA_R(softcuda::sum_to_odd(x, -y)))
SOFTCUDA_TWO(__hmul, __hmul2, SOFTCUDA_R(x * y))
SOFTCUDA_TWO(__hdiv, __h2div, SOFTCUDA_R(x / y))
SOFTCUDA_TWO(__hadd_rn, __hadd2_rn, __hadd(a, b))
SOFTCUDA_TWO(__hsub_rn, __hsub2_rn, __hsub(a, b))
SOFTCUDA_TWO(__hmul_rn, __hmul2_rn, __hmul(a, b))
SOFTCUDA_TWO(__hadd_sat, __hadd2_sat, softcuda::between_0_and_1(__hadd(a, b)))
SOFTCUDA_TWO(__hsub_sat, __hsub2_sat, softcuda::between_0_and_1(__hsub(a, b)))
SOFTCUDA_TWO(__hmul_sat, __hmul2_sat, softcuda::between_0_and_1(__hmul(a, b)))
SOFTCUDA_TWO(__hmax, __hmax2, softcuda::larger(a, b, false))
SOFTCUDA_TWO(__hmax_nan, __hmax2_nan, softcuda::larger(a, b, true))
SOFTCUDA_TWO(__hmin, __hmin2, x != x ? (y != y ? softcuda::larger(a, b, true) : b) : y != y ? a : x < y || (x == y && a.__x >= 0x8000) ? a : b)
SOFTCUDA_TWO(__hmin_nan, __hmin2_nan, x != x || y != y ? softcuda::larger(a, b, true) : __hmin(a, b))
SOFTCUDA_THREE(__hfma, __hfma2, SOFTCUDA_R(softcuda::sum_to_odd(x * y, z)))
SOFTCUDA_THREE(__hfma_sat, __hfma2_sat, (void(x), void(y), void(z), softcuda::between_0_and_1(__hfma(a, b, c))))
SOFTCUDA_THREE(__hfma_relu, __hfma2_relu, (void(x), void(y), void(z), __hmax_nan(__hfma(a, b, c), SOFTCUDA_T(0.0))))
SOFTCUDA_ONE(__hneg, __hneg2, softcuda::flipped(a))
SOFTCUDA_ONE(__habs, __habs2, SOFTCUDA_T(SOFTCUDA_BITS {(unsigned short)(a.__x & 0x7fff)}))
SOFTCUDA_ONE(hexp, h2exp, SOFTCUDA_R(exp(x)))
SOFTCUDA_ONE(hexp2, h2exp2, SOFTCUDA_R(exp2(x)))
SOFTCUDA_ONE(hexp10, h2exp10, SOFTCUDA_R(pow(10.0, x)))
SOFTCUDA_ONE(hlog, h2log, SOFTCUDA_R(log(x)))
SOFTCUDA_ONE(hlog2, h2log2, SOFTCUDA_R(log2(x)))
SOFTCUDA_ONE(hlog10, h2log10, SOFTCUDA_R(log10(x)))
SOFTCUDA_ONE(hsqrt, h2sqrt, SOFTCUDA_R(sqrt(x)))
SOFTCUDA_ONE(hrsqrt, h2rsqrt, SOFTCUDA_R(1.0 / sqrt(x)))
SOFTCUDA_ONE(hrcp, h2rcp, SOFTCUDA_R(1.0 / x))
SOFTCUDA_ONE(hsin, h2sin, SOFTCUDA_R(sin(x)))
SOFTCUDA_ONE(hcos, h2cos, SOFTCUDA_R(cos(x)))
SOFTCUDA_ONE(htanh, h2tanh, SOFTCUDA_R(tanh(x)))
SOFTCUDA_ONE(htanh_approx, h2tanh_approx, SOFTCUDA_R(tanh(x)))
SOFTCUDA_ONE(hfloor, h2floor, SOFTCUDA_R(floor(x)))
SOFTCUDA_ONE(hceil, h2ceil, SOFTCUDA_R(ceil(x)))
SOFTCUDA_ONE(htrunc, h2trunc, SOFTCUDA_R(trunc(x)))
SOFTCUDA_ONE(hrint, h2rint, SOFTCUDA_R(rint(x)))
SOFTCUDA_F bool __hisnan(SOFTCUDA_T a) { return (a.__x & 0x7fff) > SOFTCUDA_T::Format::infinity; }
SOFTCUDA_F int __hisinf(SOFTCUDA_T a) { return (a.__x & 0x7fff) == SOFTCUDA_T::Format::infinity ? a.__x >> 15 ? -1 : 1 : 0; }
SOFTCUDA_F SOFTCUDA_T2 __hisnan2(SOFTCUDA_T2 a) { return {SOFTCUDA_T(float(__hisnan(a.x))), SOFTCUDA_T(float(__hisnan(a.y)))}; }

// Operators, and comparisons: false where one is NaN, and in the second form (u) true.
#define SOFTCUDA_OPERATOR(sign, name, name2) \
    SOFTCUDA_F SOFTCUDA_T operator sign(SOFTCUDA_T a, SOFTCUDA_T b) { return name(a, b); } \
    SOFTCUDA_F SOFTCUDA_T& operator sign##=(SOFTCUDA_T& a, SOFTCUDA_T b) { return a = name(a, b); } \
    SOFTCUDA_F SOFTCUDA_T2 operator sign(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return name2(a, b); } \
    SOFTCUDA_F SOFTCUDA_T2& operator sign##=(SOFTCUDA_T2& a, SOFTCUDA_T2 b) { return a = name2(a, b); }
SOFTCUDA_OPERATOR(+, __hadd, __hadd2)
SOFTCUDA_OPERATOR(-, __hsub, __hsub2)
SOFTCUDA_OPERATOR(*, __hmul, __hmul2)
SOFTCUDA_OPERATOR(/, __hdiv, __h2div)
SOFTCUDA_F SOFTCUDA_T operator+(SOFTCUDA_T a) { return a; }
SOFTCUDA_F SOFTCUDA_T operator-(SOFTCUDA_T a) { return __hneg(a); }
SOFTCUDA_F SOFTCUDA_T2 operator-(SOFTCUDA_T2 a) { return __hneg2(a); }
SOFTCUDA_F SOFTCUDA_T2 operator+(SOFTCUDA_T2 a) { return a; }
SOFTCUDA_F SOFTCUDA_T& operator++(SOFTCUDA_T& a) { return a = __hadd(a, SOFTCUDA_T(1.0)); }
SOFTCUDA_F SOFTCUDA_T& operator--(SOFTCUDA_T& a) { return a = __hsub(a, SOFTCUDA_T(1.0)); }
SOFTCUDA_F SOFTCUDA_T operator++(SOFTCUDA_T& a, int) { const SOFTCUDA_T old = a; ++a; return old; }
SOFTCUDA_F SOFTCUDA_T operator--(SOFTCUDA_T& a, int) { const SOFTCUDA_T old = a; --a; return old; }
SOFTCUDA_F SOFTCUDA_T2& operator++(SOFTCUDA_T2& a) { return ++a.x, ++a.y, a; }
SOFTCUDA_F SOFTCUDA_T2& operator--(SOFTCUDA_T2& a) { return --a.x, --a.y, a; }
SOFTCUDA_F SOFTCUDA_T2 operator++(SOFTCUDA_T2& a, int) { const SOFTCUDA_T2 old = a; ++a; return old; }
SOFTCUDA_F SOFTCUDA_T2 operator--(SOFTCUDA_T2& a, int) { const SOFTCUDA_T2 old = a; --a; return old; }
#define SOFTCUDA_COMPARE(sign, name) \
    SOFTCUDA_F bool operator sign(SOFTCUDA_T a, SOFTCUDA_T b) { return softcuda::wide(a) sign softcuda::wide(b); } \
    SOFTCUDA_F bool name(SOFTCUDA_T a, SOFTCUDA_T b) { return !(__hisnan(a) || __hisnan(b)) && a sign b; } \
    SOFTCUDA_F bool name##u(SOFTCUDA_T a, SOFTCUDA_T b) { return __hisnan(a) || __hisnan(b) || a sign b; } \
    SOFTCUDA_F SOFTCUDA_T2 name##2(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return {SOFTCUDA_T(float(name(a.x, b.x))), SOFTCUDA_T(float(name(a.y, b.y)))}; } \
    SOFTCUDA_F SOFTCUDA_T2 name##u2(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return {SOFTCUDA_T(float(name##u(a.x, b.x))), SOFTCUDA_T(float(name##u(a.y, b.y)))}; } \
    SOFTCUDA_F unsigned name##2_mask(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return softcuda::masks(name(a.x, b.x), name(a.y, b.y)); } \
    SOFTCUDA_F unsigned name##u2_mask(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return softcuda::masks(name##u(a.x, b.x), name##u(a.y, b.y)); } \
    SOFTCUDA_F bool operator sign(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return name(a.x, b.x) && name(a.y, b.y); }
SOFTCUDA_COMPARE(==, __heq)
SOFTCUDA_COMPARE(!=, __hne)
SOFTCUDA_COMPARE(<, __hlt)
SOFTCUDA_COMPARE(<=, __hle)
SOFTCUDA_COMPARE(>, __hgt)
SOFTCUDA_COMPARE(>=, __hge)
#define SOFTCUDA_BOTH(comparison) \
    SOFTCUDA_F bool __hb##comparison##2(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return __h##comparison(a.x, b.x) && __h##comparison(a.y, b.y); } \
    SOFTCUDA_F bool __hb##comparison##u2(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return __h##comparison##u(a.x, b.x) && __h##comparison##u(a.y, b.y); }
SOFTCUDA_BOTH(eq)
SOFTCUDA_BOTH(ne)
SOFTCUDA_BOTH(lt)
SOFTCUDA_BOTH(le)
SOFTCUDA_BOTH(gt)
SOFTCUDA_BOTH(ge)
// Pairs as complex numbers: a b + c, by two products and sums for each part.
SOFTCUDA_F SOFTCUDA_T2 __hcmadd(SOFTCUDA_T2 a, SOFTCUDA_T2 b, SOFTCUDA_T2 c)
{
    return {__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
}

// Conversions.
#define SOFTCUDA_ROUNDED(tail, mode) \
    SOFTCUDA_F SOFTCUDA_T SOFTCUDA_N(__float2, tail)(float a) { return softcuda::rounded(SOFTCUDA_T(), a, softcuda::Rounding::mode); }
SOFTCUDA_ROUNDED(, nearest)
SOFTCUDA_ROUNDED(_rn, nearest)
SOFTCUDA_ROUNDED(_rz, to_zero)
SOFTCUDA_ROUNDED(_rd, down)
SOFTCUDA_ROUNDED(_ru, up)
SOFTCUDA_F SOFTCUDA_T SOFTCUDA_N(__double2, )(double a) { return a; }
SOFTCUDA_F float SOFTCUDA_N(__, 2float)(SOFTCUDA_T a) { return float(a); }
#define SOFTCUDA_INTEGER_MODE(word, type, tail, mode) \
    SOFTCUDA_F SOFTCUDA_T SOFTCUDA_JOIN(__, word, 2, SOFTCUDA_NAME, tail)(type a) \
    { return softcuda::rounded(SOFTCUDA_T(), softcuda::integer_to_odd(a), softcuda::Rounding::mode); } \
    SOFTCUDA_F type SOFTCUDA_JOIN(__, SOFTCUDA_NAME, 2, word, tail)(SOFTCUDA_T a) \
    { return softcuda::to_integer<type>(softcuda::whole(softcuda::wide(a), softcuda::Rounding::mode)); }
#define SOFTCUDA_INTEGER(word, type) \
    SOFTCUDA_INTEGER_MODE(word, type, _rn, nearest) SOFTCUDA_INTEGER_MODE(word, type, _rz, to_zero) \
    SOFTCUDA_INTEGER_MODE(word, type, _rd, down) SOFTCUDA_INTEGER_MODE(word, type, _ru, up)
SOFTCUDA_INTEGER(short, short)
SOFTCUDA_INTEGER(ushort, unsigned short)
SOFTCUDA_INTEGER(int, int)
SOFTCUDA_INTEGER(uint, unsigned)
SOFTCUDA_INTEGER(ll, long long)
SOFTCUDA_INTEGER(ull, unsigned long long)
SOFTCUDA_F signed char SOFTCUDA_N(__, 2char_rz)(SOFTCUDA_T a) { return softcuda::to_integer<signed char>(trunc(softcuda::wide(a))); }
SOFTCUDA_F unsigned char SOFTCUDA_N(__, 2uchar_rz)(SOFTCUDA_T a) { return softcuda::to_integer<unsigned char>(trunc(softcuda::wide(a))); }
SOFTCUDA_F short SOFTCUDA_N(__, _as_short)(SOFTCUDA_T a) { return short(a.__x); }
SOFTCUDA_F unsigned short SOFTCUDA_N(__, _as_ushort)(SOFTCUDA_T a) { return a.__x; }
SOFTCUDA_F SOFTCUDA_T SOFTCUDA_N(__short_as_, )(short a) { return SOFTCUDA_BITS {(unsigned short)a}; }
SOFTCUDA_F SOFTCUDA_T SOFTCUDA_N(__ushort_as_, )(unsigned short a) { return SOFTCUDA_BITS {a}; }

// Pairs.
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(make_, 2)(SOFTCUDA_T a, SOFTCUDA_T b) { return {a, b}; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(__halves2, 2)(SOFTCUDA_T a, SOFTCUDA_T b) { return {a, b}; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_NN(__, 2, 2)(SOFTCUDA_T a) { return {a, a}; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(__float2, 2_rn)(float a) { return {SOFTCUDA_T(a), SOFTCUDA_T(a)}; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(__floats2, 2_rn)(float a, float b) { return {SOFTCUDA_T(a), SOFTCUDA_T(b)}; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(__float22, 2_rn)(float2 a) { return {SOFTCUDA_T(a.x), SOFTCUDA_T(a.y)}; }
SOFTCUDA_F float2 SOFTCUDA_N(__, 22float2)(SOFTCUDA_T2 a) { return {float(a.x), float(a.y)}; }
SOFTCUDA_F SOFTCUDA_T SOFTCUDA_N(__low2, )(SOFTCUDA_T2 a) { return a.x; }
SOFTCUDA_F SOFTCUDA_T SOFTCUDA_N(__high2, )(SOFTCUDA_T2 a) { return a.y; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(__low2, 2)(SOFTCUDA_T2 a) { return {a.x, a.x}; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(__high2, 2)(SOFTCUDA_T2 a) { return {a.y, a.y}; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(__lows2, 2)(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return {a.x, b.x}; }
SOFTCUDA_F SOFTCUDA_T2 SOFTCUDA_N(__highs2, 2)(SOFTCUDA_T2 a, SOFTCUDA_T2 b) { return {a.y, b.y}; }
SOFTCUDA_F SOFTCUDA_T2 __lowhigh2highlow(SOFTCUDA_T2 a) { return {a.y, a.x}; }
SOFTCUDA_F float __low2float(SOFTCUDA_T2 a) { return float(a.x); }
SOFTCUDA_F float __high2float(SOFTCUDA_T2 a) { return float(a.y); }

#undef SOFTCUDA_JOIN5
#undef SOFTCUDA_JOIN
#undef SOFTCUDA_N
#undef SOFTCUDA_NN
#undef SOFTCUDA_F
#undef SOFTCUDA_ONE
#undef SOFTCUDA_TWO
#undef SOFTCUDA_THREE
#undef SOFTCUDA_R
#undef SOFTCUDA_OPERATOR
#undef SOFTCUDA_COMPARE
#undef SOFTCUDA_BOTH
#undef SOFTCUDA_ROUNDED
#undef SOFTCUDA_INTEGER_MODE
#undef SOFTCUDA_INTEGER
#undef SOFTCUDA_T
#undef SOFTCUDA_T2
#undef SOFTCUDA_NAME
#undef SOFTCUDA_BITS
#undef SOFTCUDA_BITS2
#undef SOFTCUDA_FRACTION
