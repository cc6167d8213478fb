// Products of one warp by nvcuda::wmma: D = A B + 2 C, where C is added element by element.
// Lines of A and B are four pieces of 16 bytes longer than they must be. tests/softcuda/test_wmma.py runs them.
#include <mma.h>
#include <type_traits>

using namespace nvcuda;

template <class T, class Stored, class Sum, int m, int n, int k, class LayoutA, class LayoutB>
__device__ void product(const Stored* a, const Stored* b, const Sum* c, Sum* d)
{
    constexpr bool rows_a = std::is_same<LayoutA, wmma::row_major>::value, rows_b = std::is_same<LayoutB, wmma::row_major>::value;
    constexpr auto layout = rows_a ? wmma::mem_row_major : wmma::mem_col_major;
    constexpr unsigned more = 64 / sizeof(Stored), line_c = rows_a ? n : m;
    wmma::fragment<wmma::matrix_a, m, n, k, T, LayoutA> of_a;
    wmma::fragment<wmma::matrix_b, m, n, k, T, LayoutB> of_b;
    wmma::fragment<wmma::accumulator, m, n, k, Sum> sum, added;
    static_assert(sum.num_elements == m * n / 32, "");
    wmma::fill_fragment(sum, Sum(0));
    wmma::load_matrix_sync(of_a, a, (rows_a ? k : m) + more);
    wmma::load_matrix_sync(of_b, b, (rows_b ? n : k) + more);
    wmma::load_matrix_sync(added, c, line_c, layout);
    wmma::mma_sync(sum, of_a, of_b, sum);
    for (int i = 0; i < sum.num_elements; ++i)
        sum.x[i] = sum.x[i] + added.x[i] + added.x[i];
    wmma::store_matrix_sync(d, sum, line_c, layout);
}

#define PRODUCT(name, type, stored, sum, m, n, k, layout_a, layout_b) \
    extern "C" __global__ void name##_##m##x##n##_##layout_a##_##layout_b(const stored* a, const stored* b, const sum* c, sum* d) \
    { \
        product<type, stored, sum, m, n, k, wmma::layout_a##_major, wmma::layout_b##_major>(a, b, c, d); \
    }
PRODUCT(half_float, half, half, float, 16, 16, 16, row, row)
PRODUCT(half_float, half, half, float, 16, 16, 16, row, col)
PRODUCT(half_float, half, half, float, 16, 16, 16, col, row)
PRODUCT(half_float, half, half, float, 16, 16, 16, col, col)
PRODUCT(half_float, half, half, float, 32, 8, 16, row, col)
PRODUCT(half_float, half, half, float, 8, 32, 16, col, row)
PRODUCT(half_half, half, half, half, 16, 16, 16, row, col)
PRODUCT(half_half, half, half, half, 8, 32, 16, col, row)
PRODUCT(bfloat16_float, __nv_bfloat16, __nv_bfloat16, float, 16, 16, 16, row, col)
PRODUCT(bfloat16_float, __nv_bfloat16, __nv_bfloat16, float, 32, 8, 16, col, row)
PRODUCT(bfloat16_float, __nv_bfloat16, __nv_bfloat16, float, 8, 32, 16, row, row)
PRODUCT(tf32_float, wmma::precision::tf32, float, float, 16, 16, 8, row, col)
PRODUCT(tf32_float, wmma::precision::tf32, float, float, 16, 16, 8, col, row)
PRODUCT(int8_int32, signed char, signed char, int, 16, 16, 16, row, col)
PRODUCT(int8_int32, signed char, signed char, int, 32, 8, 16, row, row)
PRODUCT(int8_int32, signed char, signed char, int, 8, 32, 16, col, col)
PRODUCT(uint8_int32, unsigned char, unsigned char, int, 16, 16, 16, col, row)
PRODUCT(double_double, double, double, double, 8, 8, 4, row, col)
PRODUCT(double_double, double, double, double, 8, 8, 4, col, row)

// C and D of different types: D of the first product is C of the second.
extern "C" __global__ void mixed(half* out)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> halves;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> floats;
    wmma::fill_fragment(a, 1.0f);
    wmma::fill_fragment(b, 2.0f);
    for (int i = 0; i < halves.num_elements; ++i)
        halves.x[i] = threadIdx.x * 8 + i;
    wmma::mma_sync(floats, a, b, halves);
    wmma::mma_sync(halves, a, b, floats);
    for (int i = 0; i < halves.num_elements; ++i)
        out[threadIdx.x * 8 + i] = halves.x[i];
}

extern "C" __global__ void stays_in_range(int* out)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> c;
    wmma::fill_fragment(a, 127);
    wmma::fill_fragment(b, 127);
    wmma::fill_fragment(c, 0x7fffff00);
    wmma::mma_sync(c, a, b, c, true);
    wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
}

extern "C" __global__ void to_tf32(const float* from, float* to) { to[threadIdx.x] = wmma::__float_to_tf32(from[threadIdx.x]); }
