// Integers: bits, shifts, products, sums of parts of a word. CUDA math API, "Integer Intrinsics".
#pragma once

// name, parameters, result; what wraps on a GPU wraps here.
#define SOFTCUDA_FUNCTION(type, name, parameters, ...) SOFTCUDA_WRAPS static inline type name parameters { return (type)(__VA_ARGS__); }
typedef unsigned long long softcuda_u64;
namespace softcuda {
template <class T> T reversed(T x)
{
    T made = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i)
        made = T(made << 1 | (x >> i & 1u));
    return made;
}
// The low 24 bits of a number, as one of their own.
static inline long long low24(int x) { return int(unsigned(x) << 8) >> 8; }
// A byte of the eight that two words hold.
static inline unsigned byte_of(unsigned low, unsigned high, unsigned number)
{
    return unsigned(((softcuda_u64)high << 32 | low) >> 8 * (number & 7)) & 255;
}
// The n-th bit that is set in a mask from `base` on, upwards or downwards (PTX ISA, "fns").
static inline unsigned nth_set(unsigned mask, unsigned base, int offset)
{
    if (offset == 0)
        return base < 32 && mask >> base & 1 ? base : ~0u;
    int left = (offset < 0 ? -offset : offset) - 1;
    for (int place = int(base); place >= 0 && place < 32; place += offset < 0 ? -1 : 1)
        if (mask >> place & 1 && left-- == 0)
            return unsigned(place);
    return ~0u;
}
// c and the products of 8-bit parts of b with parts of a, as many bits wide as A.
template <class A, class B, class Sum> Sum dot(unsigned a, unsigned b, Sum c, unsigned first)
{
    for (unsigned i = 0; i < 4 / sizeof(A); ++i)
        c = Sum(unsigned(c) + unsigned(int(A(a >> 8 * sizeof(A) * i)) * int(B(b >> 8 * (i + first)))));
    return c;
}
template <class Vector> unsigned word_of(Vector v)
{
    static_assert(sizeof(v) == 4, "a vector that fills a word");
    unsigned word;
    __builtin_memcpy(&word, &v, 4);
    return word;
}
} // namespace softcuda

SOFTCUDA_FUNCTION(unsigned, __brev, (unsigned x), softcuda::reversed(x))
SOFTCUDA_FUNCTION(softcuda_u64, __brevll, (softcuda_u64 x), softcuda::reversed(x))
SOFTCUDA_FUNCTION(unsigned, __byte_perm, (unsigned a, unsigned b, unsigned s),
    softcuda::byte_of(a, b, s) | softcuda::byte_of(a, b, s >> 4) << 8 | softcuda::byte_of(a, b, s >> 8) << 16
        | softcuda::byte_of(a, b, s >> 12) << 24)
SOFTCUDA_FUNCTION(unsigned, __fns, (unsigned mask, unsigned base, int offset), softcuda::nth_set(mask, base, offset))
SOFTCUDA_FUNCTION(unsigned short, __nv_bswap16, (unsigned short x), __builtin_bswap16(x))
SOFTCUDA_FUNCTION(unsigned, __nv_bswap32, (unsigned x), __builtin_bswap32(x))
SOFTCUDA_FUNCTION(softcuda_u64, __nv_bswap64, (softcuda_u64 x), __builtin_bswap64(x))
SOFTCUDA_FUNCTION(unsigned, __funnelshift_l, (unsigned lo, unsigned hi, unsigned s), ((softcuda_u64)hi << 32 | lo) << (s & 31) >> 32)
SOFTCUDA_FUNCTION(unsigned, __funnelshift_r, (unsigned lo, unsigned hi, unsigned s), ((softcuda_u64)hi << 32 | lo) >> (s & 31))
SOFTCUDA_FUNCTION(unsigned, __funnelshift_lc, (unsigned lo, unsigned hi, unsigned s), ((softcuda_u64)hi << 32 | lo) << (s < 32 ? s : 32) >> 32)
SOFTCUDA_FUNCTION(unsigned, __funnelshift_rc, (unsigned lo, unsigned hi, unsigned s), ((softcuda_u64)hi << 32 | lo) >> (s < 32 ? s : 32))

SOFTCUDA_FUNCTION(int, __mul24, (int a, int b), softcuda::low24(a) * softcuda::low24(b))
SOFTCUDA_FUNCTION(unsigned, __umul24, (unsigned a, unsigned b), (a & 0xffffff) * (b & 0xffffff))
SOFTCUDA_FUNCTION(int, __mulhi, (int a, int b), (long long)a * b >> 32)
SOFTCUDA_FUNCTION(unsigned, __umulhi, (unsigned a, unsigned b), (softcuda_u64)a * b >> 32)
SOFTCUDA_FUNCTION(long long, __mul64hi, (long long a, long long b), (__int128)a * b >> 64)
SOFTCUDA_FUNCTION(softcuda_u64, __umul64hi, (softcuda_u64 a, softcuda_u64 b), (unsigned __int128)a * b >> 64)
SOFTCUDA_FUNCTION(long long, mul64hi, (long long a, long long b), __mul64hi(a, b))
SOFTCUDA_FUNCTION(softcuda_u64, umul64hi, (softcuda_u64 a, softcuda_u64 b), __umul64hi(a, b))
SOFTCUDA_FUNCTION(int, mulhi, (int a, int b), __mulhi(a, b))
SOFTCUDA_FUNCTION(unsigned, umulhi, (unsigned a, unsigned b), __umulhi(a, b))
SOFTCUDA_FUNCTION(int, mul24, (int a, int b), __mul24(a, b))
SOFTCUDA_FUNCTION(unsigned, umul24, (unsigned a, unsigned b), __umul24(a, b))

SOFTCUDA_FUNCTION(unsigned, __sad, (int a, int b, unsigned c), c + (a < b ? unsigned(b) - unsigned(a) : unsigned(a) - unsigned(b)))
SOFTCUDA_FUNCTION(unsigned, __usad, (unsigned a, unsigned b, unsigned c), c + (a < b ? b - a : a - b))
SOFTCUDA_FUNCTION(int, __hadd, (int a, int b), ((long long)a + b) >> 1)
SOFTCUDA_FUNCTION(int, __rhadd, (int a, int b), ((long long)a + b + 1) >> 1)
SOFTCUDA_FUNCTION(unsigned, __uhadd, (unsigned a, unsigned b), ((softcuda_u64)a + b) >> 1)
SOFTCUDA_FUNCTION(unsigned, __urhadd, (unsigned a, unsigned b), ((softcuda_u64)a + b + 1) >> 1)

// dp4a: four products of bytes. dp2a: two of 16 bits with 8, the lower or the higher two bytes.
#define SOFTCUDA_DOT(name, A, B, vectors_a, vectors_b, type, first) \
    SOFTCUDA_FUNCTION(type, name, (type a, type b, type c), softcuda::dot<A, B>(unsigned(a), unsigned(b), c, first)) \
    SOFTCUDA_FUNCTION(type, name, (vectors_a a, vectors_b b, type c), softcuda::dot<A, B>(softcuda::word_of(a), softcuda::word_of(b), c, first))
SOFTCUDA_DOT(__dp4a, signed char, signed char, char4, char4, int, 0)
SOFTCUDA_DOT(__dp4a, unsigned char, unsigned char, uchar4, uchar4, unsigned, 0)
SOFTCUDA_DOT(__dp2a_lo, short, signed char, short2, char4, int, 0)
SOFTCUDA_DOT(__dp2a_lo, unsigned short, unsigned char, ushort2, uchar4, unsigned, 0)
SOFTCUDA_DOT(__dp2a_hi, short, signed char, short2, char4, int, 2)
SOFTCUDA_DOT(__dp2a_hi, unsigned short, unsigned char, ushort2, uchar4, unsigned, 2)
#undef SOFTCUDA_DOT
#undef SOFTCUDA_FUNCTION
