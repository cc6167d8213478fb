// What tensor cores compute: a product of small matrices, whose elements lie in the registers of a warp's lanes.
//
// Sums: C and the exact products are added in float64, in the order of k, and rounded once, to nearest, to the type of D.
// A GPU adds them in another order and cuts digits off, which NVIDIA does not document. Integers are exact and wrap, or
// stay in range with .satfinite. Products of float64 are added with fma, in the order of k.
#pragma once

#include <cfloat>

#include "../narrow_floats.h"

namespace softcuda_matrix {

// Types of elements: how many bits they take in a register, what they are computed in, and their value.
#define SOFTCUDA_ELEMENT(name, width, computed, value) \
    struct name { \
        enum { bits = width, number = __LINE__ % 64 }; \
        using Number = computed; \
        static __forceinline__ Number widen(uint64_t word) { return value; } \
    };
SOFTCUDA_ELEMENT(f64, 64, double, softcuda::from_bits<double>(word))
SOFTCUDA_ELEMENT(f32, 32, double, softcuda::from_bits<float>(word))
SOFTCUDA_ELEMENT(tf32, 32, double, softcuda::from_bits<float>(word & 0xffffe000u))
SOFTCUDA_ELEMENT(f16, 16, double, softcuda::Narrow<10>::widen_here(uint16_t(word)))
SOFTCUDA_ELEMENT(bf16, 16, double, softcuda::Narrow<7>::widen_here(uint16_t(word)))
SOFTCUDA_ELEMENT(e4m3, 8, double, (softcuda::Narrow<3, 8, true>::widen_here(uint16_t(word))))
SOFTCUDA_ELEMENT(e5m2, 8, double, (softcuda::Narrow<2, 8>::widen_here(uint16_t(word))))
SOFTCUDA_ELEMENT(s32, 32, int64_t, int32_t(word))
SOFTCUDA_ELEMENT(s8, 8, int64_t, int8_t(word))
SOFTCUDA_ELEMENT(u8, 8, int64_t, uint8_t(word))
SOFTCUDA_ELEMENT(s4, 4, int64_t, int64_t(word << 60) >> 60)
SOFTCUDA_ELEMENT(u4, 4, int64_t, int64_t(word & 15))
SOFTCUDA_ELEMENT(b1, 1, int64_t, int64_t(word & 1))
#undef SOFTCUDA_ELEMENT

// A float with the 10 bits of fraction that tf32 has, rounded to nearest, and from the middle away from zero (cvt.rna).
static __forceinline__ uint32_t to_tf32(uint64_t bits)
{
    return (bits & 0x7f800000u) == 0x7f800000u ? uint32_t(bits) : uint32_t(bits + 0x1000) & 0xffffe000u;
}

// How it is done: sums that do not fit wrap or become infinite (plain) or stay in range, and NaN becomes 0 (satfinite);
// products of bits are "and" or "exclusive or".
enum How { plain, satfinite, and_popc, xor_popc };
template <class D> uint64_t rounded(double sum, How how)
{
    constexpr double largest = D::bits == 16 ? 65504 : FLT_MAX;
    if (how == satfinite)
        sum = sum != sum ? 0 : sum > largest ? largest : sum < -largest ? -largest : sum;
    if constexpr (__is_same(D, f64))
        return softcuda::to_bits(sum);
    else if constexpr (__is_same(D, f32))
        return softcuda::to_bits(float(sum));
    else
        return softcuda::Narrow<10>::narrow(sum);
}
template <class D> uint64_t rounded(int64_t sum, How how)
{
    return uint32_t(how == satfinite ? sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum : sum);
}
static __forceinline__ double sum_of(f64, double a, double b, double c) { return fma(a, b, c); }
template <class A> __forceinline__ double sum_of(A, double a, double b, double c) { return c + a * b; }
template <class A> __forceinline__ int64_t sum_of(A, int64_t a, int64_t b, int64_t c) { return c + a * b; }

// Which elements a lane has: lane 4 g + t has, in each 8 rows of A and as many columns as four lanes' registers hold, row g
// and its own columns; of B column g and its rows; of 8 x 8 elements of C row g, columns 2 t and 2 t + 1. Such blocks follow
// one another along the rows first (PTX ISA, "Matrix fragments for mma").
struct Place {
    int row, column;
};
static __forceinline__ Place place_in_blocks(int lane, int i, int packed, int blocks)
{
    const int word = i / packed;
    return {word % blocks * 8 + lane / 4, word / blocks * 4 * packed + lane % 4 * packed + i % packed};
}
template <int m, int n, int k, class A> __forceinline__ Place place_a(int lane, int i)
{
    return place_in_blocks(lane, i, A::bits == 64 ? 1 : 32 / A::bits, m / 8);
}
template <int m, int n, int k, class B> __forceinline__ Place place_b(int lane, int i)
{
    constexpr int packed = B::bits == 64 ? 1 : 32 / B::bits, deep = 4 * packed, word = k / deep;
    return {i / packed % word * deep + lane % 4 * packed + i % packed, i / packed / word * 8 + lane / 4};
}
template <int m, int n, int k, class C> __forceinline__ Place place_c(int lane, int i) { return place_in_blocks(lane, i, 2, m / 8); }

template <int m, int n, int k, class A, class B, class C, class D> struct Shape {
    enum : int {
        packed = A::bits == 64 ? 1 : 32 / A::bits, // elements of a word of A and B
        packed_c = C::bits == 16 ? 2 : 1,
        packed_d = D::bits == 16 ? 2 : 1,
        words_a = m * k / 32 / packed,
        words_b = k * n / 32 / packed,
        words_c = m * n / 32 / packed_c,
        words_d = m * n / 32 / packed_d,
    };
    enum : unsigned long {
        number = m | n << 6 | k << 12 | (unsigned long)A::number << 24 | (unsigned long)B::number << 32
            | (unsigned long)C::number << 40 | (unsigned long)D::number << 48,
    };
};

// What a lane brings to a product and takes from it; `kind` says to which, so that lanes in another one are seen.
template <int bits> struct Word { using Type = uint32_t; };
template <> struct Word<64> { using Type = uint64_t; };
template <class S> struct Lane;
template <int m, int n, int k, class A, class B, class C, class D> struct Lane<Shape<m, n, k, A, B, C, D>> {
    using S = Shape<m, n, k, A, B, C, D>;
    unsigned long kind = 0;
    bool done = false;
    typename Word<A::bits>::Type a[S::words_a], b[S::words_b];
    typename Word<C::bits>::Type c[S::words_c];
    typename Word<D::bits>::Type d[S::words_d]; // when it is done
};

template <int m, int n, int k, class A, class B, class C, class D>
SOFTCUDA_RAW SOFTCUDA_QUICK __attribute__((noinline)) void multiply(Lane<Shape<m, n, k, A, B, C, D>>* const* lanes, How how)
{
    using S = Shape<m, n, k, A, B, C, D>;
    using Number = typename A::Number;
    Number a[m][k], b[k][n], sums[m][n];
    for (int lane = 0; lane < 32; ++lane) {
        const auto& own = *lanes[lane];
        for (int i = 0; i < m * k / 32; ++i) {
            const Place at = place_a<m, n, k, A>(lane, i);
            a[at.row][at.column] = A::widen(own.a[i / S::packed] >> i % S::packed * A::bits);
        }
        for (int i = 0; i < k * n / 32; ++i) {
            const Place at = place_b<m, n, k, B>(lane, i);
            b[at.row][at.column] = B::widen(own.b[i / S::packed] >> i % S::packed * B::bits);
        }
        for (int i = 0; i < m * n / 32; ++i) {
            const Place at = place_c<m, n, k, C>(lane, i);
            sums[at.row][at.column] = C::widen(own.c[i / S::packed_c] >> i % S::packed_c * 16);
        }
    }
    for (int row = 0; row < m; ++row)
        for (int i = 0; i < k; ++i)
            for (int column = 0; column < n; ++column)
                if constexpr (A::bits == 1)
                    sums[row][column] += how == and_popc ? a[row][i] & b[i][column] : a[row][i] ^ b[i][column];
                else
                    sums[row][column] = sum_of(A(), a[row][i], b[i][column], sums[row][column]);
    for (int lane = 0; lane < 32; ++lane) {
        uint64_t made[S::words_d] = {};
        for (int i = 0; i < m * n / 32; ++i) {
            const Place at = place_c<m, n, k, C>(lane, i);
            made[i / S::packed_d] |= rounded<D>(sums[at.row][at.column], how) << i % S::packed_d * 16;
        }
        for (int i = 0; i < S::words_d; ++i)
            lanes[lane]->d[i] = made[i];
        lanes[lane]->done = true;
    }
}

// The lanes of a warp meet, each with an address of its own: all wait until all are there, and the first that goes on finds
// the others still waiting. It does the work for all of them, in their memory.
template <class L> __forceinline__ bool is_first(L& own, softcuda::Lanes& lanes)
{
    lanes = softcuda_gather(0xffffffffu, reinterpret_cast<unsigned long>(&own));
    if (lanes.mask != 0xffffffffu)
        softcuda_trap("a matrix instruction in a warp of fewer than 32 threads");
    if (own.done)
        return false;
    for (const unsigned long each : lanes.values)
        if (reinterpret_cast<L*>(each)->kind != own.kind)
            softcuda_trap("different matrix instructions in the lanes of one warp");
    return true;
}

template <int m, int n, int k, class A, class B, class C, class D>
__forceinline__ void product_of(Lane<Shape<m, n, k, A, B, C, D>>& own, How how)
{
    own.kind = Shape<m, n, k, A, B, C, D>::number | (unsigned long)how << 56;
    softcuda::Lanes lanes;
    if (is_first(own, lanes))
        multiply(reinterpret_cast<Lane<Shape<m, n, k, A, B, C, D>>* const*>(lanes.values), how);
}

// 8 x 8 elements of 16 bits: lane i of the first eight lanes brings or takes row i % 8, as 16 bytes, of the second eight
// lanes that of the second matrix, and so on; in registers, lane 4 g + t has columns 2 t and 2 t + 1 of row g.
enum { x1 = 1, x2 = 2, x4 = 4 }; // how many
struct alignas(16) Row {
    uint16_t columns[8];
};
struct Rows {
    unsigned long kind = 0;
    bool done = false;
    Row row;
    uint16_t pairs[4][2]; // of each matrix
};

template <int count, bool transposed, bool to_rows> SOFTCUDA_RAW __attribute__((noinline)) void exchange(Rows* const* lanes)
{
    for (int i = 0; i < 64 * count; ++i) {
        const int row = i / 8, column = i % 8, matrix = i / 64;
        const int in_registers = transposed ? column * 8 + row % 8 : i % 64;
        uint16_t& of_row = lanes[row]->row.columns[column];
        uint16_t& of_pair = lanes[in_registers / 2]->pairs[matrix][in_registers % 2];
        (to_rows ? of_row : of_pair) = to_rows ? of_pair : of_row;
    }
    for (int lane = 0; lane < 32; ++lane)
        lanes[lane]->done = true;
}

template <int count, bool transposed, bool to_rows> __forceinline__ void rows_meet(Rows& own)
{
    own.done = false; // of the meeting before
    own.kind = count | transposed << 3 | to_rows << 4;
    softcuda::Lanes lanes;
    if (is_first(own, lanes))
        exchange<count, transposed, to_rows>(reinterpret_cast<Rows* const*>(lanes.values));
}

} // namespace softcuda_matrix
