// The PTX instructions of tensor cores: mma.sync, ldmatrix, stmatrix and movmatrix, as ptx_table.py writes them.
#pragma once

#include "intrinsics/matrices.h"
#include "ptx.h"

namespace softcuda_ptx {

using softcuda_matrix::f64, softcuda_matrix::f32, softcuda_matrix::tf32, softcuda_matrix::f16, softcuda_matrix::bf16;
using softcuda_matrix::e4m3, softcuda_matrix::e5m2, softcuda_matrix::s32, softcuda_matrix::s8, softcuda_matrix::u8;
using softcuda_matrix::s4, softcuda_matrix::u4, softcuda_matrix::b1, softcuda_matrix::How;

// The last operands are the registers of A, of B and of C, in their order.
template <int m, int n, int k, How how = softcuda_matrix::plain, class D, class A, class B, class C, class... Words>
__forceinline__ auto mma(D, A, B, C, Words... words)
{
    using S = softcuda_matrix::Shape<m, n, k, A, B, C, D>;
    static_assert(__is_same(C, D), "an mma.sync of this shape has C and D of one type");
    static_assert(sizeof...(Words) == S::words_a + S::words_b + S::words_c, "this mma.sync takes another number of registers");
    const typename softcuda_matrix::Word<A::bits>::Type given[] = {words...};
    softcuda_matrix::Lane<S> own;
    __builtin_memcpy(own.a, given, sizeof own.a);
    __builtin_memcpy(own.b, given + S::words_a, sizeof own.b);
    __builtin_memcpy(own.c, given + S::words_a + S::words_b, sizeof own.c);
    softcuda_matrix::product_of(own, how);
    Vector<typename softcuda_matrix::Word<D::bits>::Type, S::words_d> made;
    __builtin_memcpy(&made, own.d, sizeof own.d);
    return made;
}

// Each row is read or written by the lane that brings its address, so that a finding names that lane.
template <unsigned count, bool transposed, unsigned named> __forceinline__ auto ldmatrix(unsigned address)
{
    static_assert(count == named, "ldmatrix takes as many registers as matrices: 1, 2 or 4");
    softcuda_matrix::Rows own;
    if (thread_number() % 32 < 8 * count)
        own.row = *reinterpret_cast<const softcuda_matrix::Row*>(at(address));
    softcuda_matrix::rows_meet<count, transposed, false>(own);
    Vector<uint32_t, count> made;
    __builtin_memcpy(&made, own.pairs, sizeof made);
    return made;
}
template <unsigned count, bool transposed, unsigned named, class... Words>
__forceinline__ void stmatrix(unsigned address, Words... words)
{
    static_assert(count == named, "stmatrix takes as many registers as matrices: 1, 2 or 4");
    softcuda_matrix::Rows own;
    const uint32_t given[] = {words...};
    __builtin_memcpy(own.pairs, given, sizeof given);
    softcuda_matrix::rows_meet<count, transposed, true>(own);
    if (thread_number() % 32 < 8 * count)
        *reinterpret_cast<softcuda_matrix::Row*>(at(address)) = own.row;
}
static __forceinline__ uint32_t tf32_of(float x) { return softcuda_matrix::to_tf32(softcuda::to_bits(x)); }
static __forceinline__ uint32_t movmatrix(uint32_t word)
{
    softcuda_matrix::Rows own;
    __builtin_memcpy(own.pairs, &word, sizeof word);
    softcuda_matrix::rows_meet<1, false, true>(own);
    softcuda_matrix::rows_meet<1, true, false>(own);
    __builtin_memcpy(&word, own.pairs, sizeof word);
    return word;
}

} // namespace softcuda_ptx
