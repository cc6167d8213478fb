// Products of matrices by a warp: nvcuda::wmma, as CUDA's header of this name has it.
//
// CUDA does not say which lane has which element of a fragment. Here it is as mma.sync has it (intrinsics/matrices.h), and
// so an accumulator's elements are where those of compute capability 8 and 9 are. A matrix is read and written in pieces
// of up to 16 bytes, each by one lane, and the lanes hand each other what they need.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "softcuda/intrinsics/matrices.h"

namespace nvcuda::wmma {

enum layout_t { mem_row_major, mem_col_major };
struct row_major { };
struct col_major { };
struct matrix_a { };
struct matrix_b { };
struct accumulator { };
namespace precision {
struct tf32 { };
} // namespace precision

namespace softcuda_wmma {

using namespace softcuda_matrix;

// How an element is stored, and what it is to the tensor cores; of which shapes there are products.
template <class T> struct Element;
#define SOFTCUDA_ELEMENT(type, stored, element, allowed) \
    template <> struct Element<type> { \
        using Stored = stored; \
        using Kind = element; \
        static constexpr bool has(int m, int n, int k) { return allowed; } \
    };
#define SOFTCUDA_OF_SIXTEEN (k == 16 && m * n == 256 && (m == 8 || m == 16 || m == 32))
SOFTCUDA_ELEMENT(__half, __half, f16, SOFTCUDA_OF_SIXTEEN)
SOFTCUDA_ELEMENT(__nv_bfloat16, __nv_bfloat16, bf16, SOFTCUDA_OF_SIXTEEN)
SOFTCUDA_ELEMENT(signed char, signed char, s8, SOFTCUDA_OF_SIXTEEN)
SOFTCUDA_ELEMENT(unsigned char, unsigned char, u8, SOFTCUDA_OF_SIXTEEN)
SOFTCUDA_ELEMENT(precision::tf32, float, tf32, (m == 16 && n == 16 && k == 8))
SOFTCUDA_ELEMENT(double, double, f64, (m == 8 && n == 8 && k == 4))
SOFTCUDA_ELEMENT(float, float, f32, SOFTCUDA_OF_SIXTEEN || (m == 16 && n == 16 && k == 8))
SOFTCUDA_ELEMENT(int, int, s32, SOFTCUDA_OF_SIXTEEN)
#undef SOFTCUDA_ELEMENT
#undef SOFTCUDA_OF_SIXTEEN

// The matrix of a fragment: its size, and where a lane's elements are in it.
template <class Use, int m, int n, int k, class T> struct Matrix;
#define SOFTCUDA_MATRIX(use, row_count, column_count, function) \
    template <int m, int n, int k, class T> struct Matrix<use, m, n, k, T> { \
        enum : int { rows = row_count, columns = column_count, count = rows * columns / 32 }; \
        static __forceinline__ Place place(int lane, int i) { return function<m, n, k, typename Element<T>::Kind>(lane, i); } \
    };
SOFTCUDA_MATRIX(matrix_a, m, k, place_a)
SOFTCUDA_MATRIX(matrix_b, k, n, place_b)
SOFTCUDA_MATRIX(accumulator, m, n, place_c)
#undef SOFTCUDA_MATRIX

template <int bytes> struct alignas(bytes) Piece {
    char of[bytes];
};

// What a lane brings to a load or a store: its elements, and the pieces of the matrix that it reads or writes.
template <class M, class Stored, bool by_rows> struct Moved {
    enum : int {
        line = (by_rows ? M::columns : M::rows) * sizeof(Stored), // bytes that lie together
        piece = line < 16 ? line : 16,
        pieces = M::rows * M::columns * sizeof(Stored) / piece,
        own = (pieces + 31) / 32,
    };
    unsigned long kind;
    bool done = false;
    Stored elements[M::count];
    Piece<piece> parts[own];
};

template <class M, class Stored, bool by_rows>
SOFTCUDA_RAW __attribute__((noinline)) void exchange(Moved<M, Stored, by_rows>* const* lanes, bool to_memory)
{
    using All = Moved<M, Stored, by_rows>;
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < M::count; ++i) {
            const Place at = M::place(lane, i);
            const int number = by_rows ? at.row * M::columns + at.column : at.column * M::rows + at.row;
            const int part = number * int(sizeof(Stored)) / All::piece;
            char* const there = lanes[part % 32]->parts[part / 32].of + number * int(sizeof(Stored)) % All::piece;
            Stored* const here = &lanes[lane]->elements[i];
            __builtin_memcpy(to_memory ? (void*)there : here, to_memory ? (void*)here : there, sizeof(Stored));
        }
        lanes[lane]->done = true;
    }
}

template <class M, class Stored, bool by_rows> __forceinline__ void meet(Moved<M, Stored, by_rows>& own, bool to_memory)
{
    own.kind = 1ul << 63 | (unsigned long)M::rows << 32 | M::columns << 16 | sizeof(Stored) << 2 | by_rows << 1 | to_memory;
    softcuda::Lanes lanes;
    if (is_first(own, lanes))
        exchange(reinterpret_cast<Moved<M, Stored, by_rows>* const*>(lanes.values), to_memory);
}

template <class Pointer> __forceinline__ Pointer piece_at(Pointer from, int line, unsigned ldm, int part)
{
    const int of_line = line / int(sizeof(*from)), in_line = line < 16 ? 1 : line / 16;
    return from + size_t(part / in_line) * ldm + part % in_line * (of_line / in_line);
}

template <class M, class Stored, bool by_rows> __forceinline__ void load(Stored* to, const Stored* from, unsigned ldm)
{
    using All = Moved<M, Stored, by_rows>;
    All own;
    const int lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    for (int i = 0; i < All::own; ++i)
        if (lane + 32 * i < All::pieces)
            own.parts[i] = *reinterpret_cast<const Piece<All::piece>*>(piece_at(from, All::line, ldm, lane + 32 * i));
    meet(own, false);
    __builtin_memcpy(to, own.elements, sizeof own.elements);
}

template <class M, class Stored, bool by_rows> __forceinline__ void store(Stored* to, const Stored* from, unsigned ldm)
{
    using All = Moved<M, Stored, by_rows>;
    All own;
    const int lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
    __builtin_memcpy(own.elements, from, sizeof own.elements);
    meet(own, true);
    for (int i = 0; i < All::own; ++i)
        if (lane + 32 * i < All::pieces)
            *reinterpret_cast<Piece<All::piece>*>(piece_at(to, All::line, ldm, lane + 32 * i)) = own.parts[i];
}

} // namespace softcuda_wmma

template <class Use, int m, int n, int k, class T, class Layout = void> class fragment {
    using Matrix = softcuda_wmma::Matrix<Use, m, n, k, T>;
    static_assert(softcuda_wmma::Element<T>::has(m, n, k), "softcuda does not support a fragment of this shape and type");

public:
    using element_type = T;
    using storage_element_type = typename softcuda_wmma::Element<T>::Stored;
    enum : int { num_elements = Matrix::count, num_storage_elements = num_elements };
    storage_element_type x[num_elements];
};

template <class Use, int m, int n, int k, class T, class Layout, class Value>
__forceinline__ void fill_fragment(fragment<Use, m, n, k, T, Layout>& made, const Value& value)
{
    for (auto& each : made.x)
        each = typename softcuda_wmma::Element<T>::Stored(value);
}

template <class Use, int m, int n, int k, class T, class Layout>
__forceinline__ void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& to, const typename softcuda_wmma::Element<T>::Stored* from, unsigned ldm)
{
    softcuda_wmma::load<softcuda_wmma::Matrix<Use, m, n, k, T>, typename softcuda_wmma::Element<T>::Stored, __is_same(Layout, row_major)>(to.x, from, ldm);
}
template <int m, int n, int k, class T>
__forceinline__ void load_matrix_sync(fragment<accumulator, m, n, k, T>& to, const T* from, unsigned ldm, layout_t layout)
{
    if (layout == mem_row_major)
        softcuda_wmma::load<softcuda_wmma::Matrix<accumulator, m, n, k, T>, T, true>(to.x, from, ldm);
    else
        softcuda_wmma::load<softcuda_wmma::Matrix<accumulator, m, n, k, T>, T, false>(to.x, from, ldm);
}
template <int m, int n, int k, class T>
__forceinline__ void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& from, unsigned ldm, layout_t layout)
{
    if (layout == mem_row_major)
        softcuda_wmma::store<softcuda_wmma::Matrix<accumulator, m, n, k, T>, T, true>(to, from.x, ldm);
    else
        softcuda_wmma::store<softcuda_wmma::Matrix<accumulator, m, n, k, T>, T, false>(to, from.x, ldm);
}

template <int m, int n, int k, class T, class LayoutA, class LayoutB, class D, class C>
__forceinline__ void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, T, LayoutA>& a,
    const fragment<matrix_b, m, n, k, T, LayoutB>& b, const fragment<accumulator, m, n, k, C>& c, bool satf = false)
{
    using softcuda_wmma::Element, softcuda_matrix::product_of;
    using Kind = typename Element<T>::Kind;
    static_assert(Element<T>::has(m, n, k), "softcuda does not support mma_sync of this shape and type");
    softcuda_matrix::Lane<softcuda_matrix::Shape<m, n, k, Kind, Kind, typename Element<C>::Kind, typename Element<D>::Kind>> own;
    static_assert(sizeof own.a == sizeof a.x && sizeof own.b == sizeof b.x && sizeof own.c == sizeof c.x && sizeof own.d == sizeof d.x);
    __builtin_memcpy(own.a, a.x, sizeof own.a);
    __builtin_memcpy(own.b, b.x, sizeof own.b);
    __builtin_memcpy(own.c, c.x, sizeof own.c);
    product_of(own, satf ? softcuda_matrix::satfinite : softcuda_matrix::plain);
    __builtin_memcpy(d.x, own.d, sizeof own.d);
}

static __forceinline__ float __float_to_tf32(float x)
{
    return softcuda::from_bits<float>(softcuda_matrix::to_tf32(softcuda::to_bits(x)));
}

} // namespace nvcuda::wmma
