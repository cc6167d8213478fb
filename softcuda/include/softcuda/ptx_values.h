// What instructions of ptx_table.py compute. Names are PTX's, but for what C++ has as words.
#pragma once

#include "intrinsics/integers.h"
#include "intrinsics/rounded_as.h"

namespace softcuda_ptx {

using softcuda::Rounding;
constexpr Rounding rounding_rn = Rounding::nearest, rounding_rz = Rounding::to_zero;

// Half precision, as far as instructions of one number each need it: 16 bits in the register.
template <int fraction> struct Narrow {
    uint16_t bits;
    static constexpr int digits = fraction;
};
using Half = Narrow<10>;
using Bfloat = Narrow<7>;
template <class Number> struct Pair {
    Number low, high;
};
static __forceinline__ double wide(float x) { return x; }
static __forceinline__ double wide(double x) { return x; }
template <int fraction> double wide(Narrow<fraction> x) { return softcuda::Narrow<fraction>::widen(x.bits); }

// A value as one of another type: the same bits where both are as wide, an integer of fewer or more bits otherwise.
template <size_t size> struct Word;
template <> struct Word<1> { using Type = uint8_t; };
template <> struct Word<2> { using Type = uint16_t; };
template <> struct Word<4> { using Type = uint32_t; };
template <> struct Word<8> { using Type = uint64_t; };
template <class To, class From> __forceinline__ To as(From value)
{
    if constexpr (sizeof(To) == sizeof(From)) {
        To made;
        __builtin_memcpy((void*)&made, &value, sizeof(To)); // which may be volatile
        return made;
    } else if constexpr (__is_class(From) || __is_class(To)) {
        typename Word<sizeof(From)>::Type bits;
        __builtin_memcpy(&bits, &value, sizeof(From));
        const typename Word<sizeof(To)>::Type word = bits;
        return as<To>(word);
    } else {
        return To(value);
    }
}
template <class To, class From> __forceinline__ void set(To& to, From value) { to = as<To>(value); }
template <class To> __forceinline__ void set(To& to, bool value) { to = To(value); }

// Words of parts, the lowest first, and one part of a word.
template <class To, class... Parts> __forceinline__ To joined(Parts... parts)
{
    constexpr unsigned bits = 8 * sizeof(To) / sizeof...(parts);
    uint64_t word = 0;
    unsigned at = 0;
    ((word |= uint64_t(as<typename Word<bits / 8>::Type>(parts)) << at, at += bits), ...);
    return as<To>(typename Word<sizeof(To)>::Type(word));
}
template <unsigned number, unsigned count, class From> __forceinline__ auto piece(From value)
{
    constexpr unsigned bits = 8 * sizeof(From) / count;
    return typename Word<bits / 8>::Type(as<typename Word<sizeof(From)>::Type>(value) >> number * bits);
}

// Floats.
static __forceinline__ float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }
static __forceinline__ float saturated(float x) { return __saturatef(x); }
#define SOFTCUDA_STILL_F __attribute__((no_sanitize("thread"), no_sanitize("alignment")))
#define SOFTCUDA_ARITHMETIC(name, sign) \
    template <Rounding rounding, class T> T name(T x, T y) \
    { return softcuda::rounded_as<rounding, T>([](const volatile T& a, const volatile T& b) SOFTCUDA_STILL_F { return a sign b; }, x, y); } \
    template <int fraction> Narrow<fraction> name##_narrow(Narrow<fraction> x, Narrow<fraction> y) { return narrowed<fraction>(odd_##name(wide(x), wide(y))); } \
    template <class N> Pair<N> name##_narrow(Pair<N> x, Pair<N> y) { return {name##_narrow(x.low, y.low), name##_narrow(x.high, y.high)}; }
template <int fraction> Narrow<fraction> narrowed(double x, Rounding rounding = Rounding::nearest) { return {softcuda::Narrow<fraction>::narrow(x, rounding)}; }
static __forceinline__ double odd_add(double a, double b) { return softcuda::sum_to_odd(a, b); }
static __forceinline__ double odd_sub(double a, double b) { return softcuda::sum_to_odd(a, -b); }
static __forceinline__ double odd_mul(double a, double b) { return a * b; }
static __forceinline__ double odd_div(double a, double b) { return a / b; }
SOFTCUDA_ARITHMETIC(add, +)
SOFTCUDA_ARITHMETIC(sub, -)
SOFTCUDA_ARITHMETIC(mul, *)
SOFTCUDA_ARITHMETIC(div, /)
#undef SOFTCUDA_ARITHMETIC
template <int fraction> Narrow<fraction> fused_narrow(Narrow<fraction> a, Narrow<fraction> b, Narrow<fraction> c)
{
    return narrowed<fraction>(softcuda::sum_to_odd(wide(a) * wide(b), wide(c)));
}
template <int fraction> Narrow<fraction> tanh_narrow(Narrow<fraction> x) { return narrowed<fraction>(tanh(wide(x))); }
template <int fraction> Narrow<fraction> ex2_narrow(Narrow<fraction> x) { return narrowed<fraction>(exp2(wide(x))); }
template <class N> Pair<N> tanh_narrow(Pair<N> x) { return {tanh_narrow(x.low), tanh_narrow(x.high)}; }
template <class N> Pair<N> ex2_narrow(Pair<N> x) { return {ex2_narrow(x.low), ex2_narrow(x.high)}; }
template <class N> Pair<N> fused_narrow(Pair<N> a, Pair<N> b, Pair<N> c) { return {fused_narrow(a.low, b.low, c.low), fused_narrow(a.high, b.high, c.high)}; }
static __forceinline__ float fma_of(float a, float b, float c) { return fmaf(a, b, c); }
static __forceinline__ double fma_of(double a, double b, double c) { return fma(a, b, c); }
static __forceinline__ float sqrt_of(float x) { return sqrtf(x); }
static __forceinline__ double sqrt_of(double x) { return sqrt(x); }
template <Rounding rounding, class T> T fused(T x, T y, T z)
{
    return softcuda::rounded_as<rounding, T>(
        [](const volatile T& a, const volatile T& b, const volatile T& c) SOFTCUDA_STILL_F { return fma_of(T(a), T(b), T(c)); }, x, y, z);
}
template <Rounding rounding, class T> T root(T x)
{
    return softcuda::rounded_as<rounding, T>([](const volatile T& a) SOFTCUDA_STILL_F { return sqrt_of(T(a)); }, x);
}
static __forceinline__ float sin(float x) { return sinf(x); }
static __forceinline__ float cos(float x) { return cosf(x); }
static __forceinline__ float tanh(float x) { return tanhf(x); }
static __forceinline__ float ex2(float x) { return exp2f(x); }
static __forceinline__ float lg2(float x) { return log2f(x); }
template <class T> T absolute(T x) { return x < 0 || (x == 0 && 1 / x < 0) ? -x : x; }
template <class T> T with_sign(T x, T sign) { return T(copysign(x, sign)); }
template <class T> T min_float(T a, T b) { return T(fmin(a, b)); }
template <class T> T max_float(T a, T b) { return T(fmax(a, b)); }

static __forceinline__ float with_nan(float result, float a, float b) { return a != a || b != b ? __int_as_float(0x7fffffff) : result; }

// Integers: sums, differences and products wrap.
template <class T> using Unsigned = typename Word<sizeof(T)>::Type;
template <class T> __forceinline__ T wrapped_add(T a, T b) { return T(Unsigned<T>(a) + Unsigned<T>(b)); }
template <class T> __forceinline__ T wrapped_sub(T a, T b) { return T(Unsigned<T>(a) - Unsigned<T>(b)); }
static __forceinline__ int saturated_add(int a, int b) { return softcuda::to_integer<int>(double(a) + b); }
static __forceinline__ int saturated_sub(int a, int b) { return softcuda::to_integer<int>(double(a) - b); }
static __forceinline__ unsigned __int128 product(uint64_t a, uint64_t b) { return (unsigned __int128)a * b; }
static __forceinline__ __int128 product(int64_t a, int64_t b) { return (__int128)a * b; }
static __forceinline__ uint64_t product(uint32_t a, uint32_t b) { return uint64_t(a) * b; }
static __forceinline__ int64_t product(int32_t a, int32_t b) { return int64_t(a) * b; }
static __forceinline__ uint32_t product(uint16_t a, uint16_t b) { return uint32_t(a) * b; }
static __forceinline__ int32_t product(int16_t a, int16_t b) { return int32_t(a) * b; }
template <class T, class Product> __forceinline__ T lo(Product x) { return T(x); }
template <class T, class Product> __forceinline__ T hi(Product x) { return T(x >> 8 * sizeof(T)); }
// Sums and differences that leave what they carry or borrow (.cc), or take what was left (c).
static unsigned carry;
template <class T> SOFTCUDA_RAW T add_cc(T a, T b, unsigned in = 0)
{
    Unsigned<T> sum;
    carry = __builtin_add_overflow(Unsigned<T>(a), Unsigned<T>(b), &sum);
    carry |= __builtin_add_overflow(sum, in, &sum);
    return T(sum);
}
template <class T> SOFTCUDA_RAW T sub_cc(T a, T b, unsigned in = 0)
{
    Unsigned<T> rest;
    carry = __builtin_sub_overflow(Unsigned<T>(a), Unsigned<T>(b), &rest);
    carry |= __builtin_sub_overflow(rest, in, &rest);
    return T(rest);
}
template <class T> SOFTCUDA_RAW T addc_cc(T a, T b) { return add_cc(a, b, carry); }
template <class T> SOFTCUDA_RAW T subc_cc(T a, T b) { return sub_cc(a, b, carry); }
template <class T> SOFTCUDA_RAW T addc(T a, T b) { return wrapped_add(wrapped_add(a, b), T(carry)); }
template <class T> SOFTCUDA_RAW T subc(T a, T b) { return wrapped_sub(wrapped_sub(a, b), T(carry)); }
template <class T> T div_integer(T a, T b) { return b == 0 ? T(~T(0)) : T(b) == T(-1) && T(-1) < T(0) ? wrapped_sub(T(0), a) : T(a / b); }
template <class T> T rem_integer(T a, T b) { return b == 0 ? a : T(b) == T(-1) && T(-1) < T(0) ? T(0) : T(a % b); }
template <class T> T min_integer(T a, T b) { return b < a ? b : a; }
template <class T> T max_integer(T a, T b) { return a < b ? b : a; }

template <class T> T difference(T a, T b) { return a < b ? wrapped_sub(b, a) : wrapped_sub(a, b); }

// Bits.
template <class T> uint32_t leading_zeros(T a) { return a ? uint32_t(__builtin_clzll(a)) - (64 - 8 * sizeof(T)) : 8 * sizeof(T); }
template <class T> T and_bits(T a, T b) { return T(a & b); }
static __forceinline__ bool and_of(bool a, bool b) { return a && b; }
static __forceinline__ bool or_of(bool a, bool b) { return a || b; }
static __forceinline__ bool xor_of(bool a, bool b) { return a != b; }
template <class T> T or_bits(T a, T b) { return T(a | b); }
template <class T> T xor_bits(T a, T b) { return T(a ^ b); }
template <class T> T not_bits(T a) { return T(~a); }
static __forceinline__ bool not_bits(bool a) { return !a; }
static __forceinline__ uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t made = 0;
    for (unsigned i = 0; i < 8; ++i)
        if (table >> i & 1)
            made |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return made;
}
template <class T> T shifted_right(T a, uint32_t by) { return by < 8 * sizeof(T) ? T(a >> by) : a < 0 ? T(-1) : T(0); }
// As far as it fits into 8 or 16 bits.
template <class Narrow> uint32_t packed(int32_t a, int32_t least, int32_t most) { return uint32_t(Narrow(a < least ? least : a > most ? most : a)); }
static __forceinline__ uint32_t packed_u8(int32_t a) { return packed<uint8_t>(a, 0, 255); }
static __forceinline__ uint32_t packed_s8(int32_t a) { return packed<int8_t>(a, -128, 127) & 0xff; }
static __forceinline__ uint32_t packed_u16(int32_t a) { return packed<uint16_t>(a, 0, 65535); }
static __forceinline__ uint32_t packed_s16(int32_t a) { return packed<int16_t>(a, -32768, 32767) & 0xffff; }
// The highest bit that is not the sign.
template <class T> uint32_t bfind(T a)
{
    const uint64_t bits = Unsigned<T>(a < 0 ? ~a : a);
    return bits ? uint32_t(63 - __builtin_clzll(bits)) : ~0u;
}
// `length` bits of a from `position` on; of signed numbers the highest of them, or of a, is the sign.
template <class T> T bfe(T a, uint32_t position, uint32_t length)
{
    constexpr unsigned width = 8 * sizeof(T);
    position &= 255, length &= 255;
    if (length == 0)
        return 0;
    const unsigned last = position + length - 1 < width - 1 ? position + length - 1 : width - 1;
    const Unsigned<T> sign = T(-1) < T(0) ? Unsigned<T>(a) >> last & 1 : 0;
    Unsigned<T> made = 0;
    for (unsigned i = 0; i < width; ++i)
        made |= (i < length && position + i < width ? Unsigned<T>(a) >> (position + i) & 1 : sign) << i;
    return T(made);
}
template <class T> T bfi(T a, T b, uint32_t position, uint32_t length)
{
    constexpr unsigned width = 8 * sizeof(T);
    position &= 255, length &= 255;
    for (unsigned i = 0; i < length && position + i < width; ++i)
        b = T((b & ~(T(1) << (position + i))) | (T(i < width ? a >> i & 1 : 0) << (position + i)));
    return b;
}
// Bytes by number; bit 3 of a selector makes eight copies of the byte's sign.
static __forceinline__ uint32_t sum_of_differences(uint32_t a, uint32_t b, uint32_t sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += uint32_t(__builtin_abs(int(a >> i & 255) - int(b >> i & 255)));
    return sum;
}

static __forceinline__ uint32_t prmt(uint32_t a, uint32_t b, uint32_t selectors)
{
    uint32_t made = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const uint32_t selector = selectors >> 4 * i, byte = softcuda::byte_of(a, b, selector);
        made |= (selector & 8 ? byte & 128 ? 255u : 0u : byte) << 8 * i;
    }
    return made;
}
// PTX ISA, "prmt", its table of modes, by the two low bits of c.
static __forceinline__ uint32_t selectors_f4e(uint32_t c) { return 0x6543543243213210ull >> 16 * (c & 3) & 0xffff; }
static __forceinline__ uint32_t selectors_b4e(uint32_t c) { return (c & 3) == 0 ? 0x5670 : (c & 3) == 1 ? 0x6701 : (c & 3) == 2 ? 0x7012 : 0x0123; }
static __forceinline__ uint32_t selectors_rc8(uint32_t c) { return 0x1111 * (c & 3); }
static __forceinline__ uint32_t selectors_ecl(uint32_t c) { return (c & 3) == 0 ? 0x3210 : (c & 3) == 1 ? 0x3211 : (c & 3) == 2 ? 0x3222 : 0x3333; }
static __forceinline__ uint32_t selectors_ecr(uint32_t c) { return (c & 3) == 0 ? 0x0000 : (c & 3) == 1 ? 0x1110 : (c & 3) == 2 ? 0x2210 : 0x3210; }
static __forceinline__ uint32_t selectors_rc16(uint32_t c) { return c & 1 ? 0x3232 : 0x1010; }

// Comparisons: those with a u behind them are true of a NaN.
#define SOFTCUDA_COMPARISON(name, of_nan, sign) \
    template <class T> bool compare_##name(T a, T b) { return a sign b; } \
    template <class T> bool compare_##of_nan(T a, T b) { return a != a || b != b || a sign b; }
SOFTCUDA_COMPARISON(eq, equ, ==)
SOFTCUDA_COMPARISON(lt, ltu, <)
SOFTCUDA_COMPARISON(le, leu, <=)
SOFTCUDA_COMPARISON(gt, gtu, >)
SOFTCUDA_COMPARISON(ge, geu, >=)
#undef SOFTCUDA_COMPARISON
template <class T> bool compare_neu(T a, T b) { return !(a == b); }
template <class T> bool compare_ne(T a, T b) { return a == a && b == b && a != b; }
template <class T> bool compare_lo(T a, T b) { return a < b; }
template <class T> bool compare_ls(T a, T b) { return a <= b; }
template <class T> bool compare_hi(T a, T b) { return a > b; }
template <class T> bool compare_hs(T a, T b) { return a >= b; }
template <class T> bool compare_num(T a, T b) { return a == a && b == b; }
template <class T> bool compare_nan(T a, T b) { return a != a || b != b; }

// Conversions.
template <class To, class From> To to_range(From x) // of integers
{
    constexpr bool is_signed = To(-1) < To(0);
    constexpr __int128 highest = ((__int128(1) << (8 * sizeof(To) - is_signed)) - 1), lowest = is_signed ? -highest - 1 : 0;
    return To(x > highest ? highest : x < lowest ? lowest : __int128(x));
}
template <class To> struct Target {
    template <Rounding rounding, class From> static To of(From x)
    {
        return softcuda::rounded_as<rounding, To>([](const volatile From& a) SOFTCUDA_STILL_F { return To(a); }, x);
    }
};
template <int fraction> struct Target<Narrow<fraction>> {
    template <Rounding rounding> static Narrow<fraction> of(double x) { return narrowed<fraction>(x, rounding); }
};
template <class To, Rounding rounding> To converted(double x) { return Target<To>::template of<rounding>(x); }
template <class To, Rounding rounding, class From> To from_integer(From x)
{
    if constexpr (__is_class(To))
        return Target<To>::template of<rounding>(softcuda::integer_to_odd(x));
    else
        return Target<To>::template of<rounding>(x);
}
template <class To, Rounding rounding> To pair_of(float high, float low)
{
    return {converted<decltype(To::low), rounding>(low), converted<decltype(To::high), rounding>(high)};
}
#undef SOFTCUDA_STILL_F

} // namespace softcuda_ptx
