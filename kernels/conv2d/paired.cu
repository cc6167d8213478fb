// 2-D convolution as in columns.cu, of integers: two neighbouring outputs share products (fast FIR, Winograd 1980).
// Of pixels a, b, c and factors f, g the outputs a f + b g and b f + c g need four multiplications. With s = b (f + g),
// they are s + (a - b) f and s + (c - b) g: three, and the differences serve all rows of the filter. A factor without a
// neighbour has g = 0. Sums of integers are the same in any order, modulo 2^32; those of floats would round otherwise.
// Integers are multiplied at half the rate at which they are added, so what is added costs little. K = 3, 5 and 7 are
// unrolled; conv2d_paired takes any other K and goes as naive.cu does.
// Costs: 5, 8 and 11 multiplications for a row of K = 3, 5, 7 factors and two outputs, in place of 6, 10 and 14, and two
// or three additions more; otherwise as columns.cu.
// Share on an H200: 0.91 and 0.63 of a copy's bandwidth at 8192^2, K = 5 and 7 (int32).

#include "any_filter.h"
#include "slide.h"

constexpr int largest = 7;
__constant__ scalar_t constant_filter[largest * largest];

template <int K> __device__ __forceinline__ void convolve(const scalar_t* image, scalar_t* out, int rows, int columns)
{
    scalar_t both[K][K / 2];
#pragma unroll
    for (int p = 0; p < K; ++p)
#pragma unroll
        for (int q = 0; q < K / 2; ++q)
            both[p][q] = constant_filter[p * K + 2 * q] + constant_filter[p * K + 2 * q + 1];
    const auto add_row = [&](auto& sums, const auto& row) {
        const auto pixel = [&](int i) { return row[i / each].values[i % each]; };
        scalar_t steps[K + each - 1]; // from an odd pixel to the even one before or behind it
#pragma unroll
        for (int i = 0; i < K + each - 2; ++i)
            steps[i] = i % 2 ? pixel(i + 1) - pixel(i) : pixel(i) - pixel(i + 1);
#pragma unroll
        for (int p = K - 1; p >= 0; --p)
#pragma unroll
            for (int i = 0; i < each; i += 2) {
                scalar_t shared = pixel(i + K) * constant_filter[p * K + K - 1];
#pragma unroll
                for (int q = 0; q < K / 2; ++q) {
                    shared += pixel(i + 2 * q + 1) * both[p][q];
                    in_order(shared);
                }
#pragma unroll
                for (int odd = 0; odd < 2; ++odd) {
                    scalar_t sum = p ? sums[p ? p - 1 : 0][i + odd] : scalar_t(0);
#pragma unroll
                    for (int q = odd; q < K; q += 2) {
                        sum += constant_filter[p * K + q] * steps[i + q];
                        in_order(sum);
                    }
                    sums[p][i + odd] = sum + shared;
                }
            }
    };
    slide<K>(image, out, rows, columns, add_row);
}

#define CONV2D_PAIRED(K) \
    extern "C" __global__ void __launch_bounds__(threads, (K < 7 ? 512 : 384) / threads) conv2d_paired_##K( \
        const scalar_t* image, const scalar_t*, scalar_t* out, int rows, int columns, int) \
    { \
        convolve<K>(image, out, rows, columns); \
    }
CONV2D_PAIRED(3)
CONV2D_PAIRED(5)
CONV2D_PAIRED(7)

extern "C" __global__ void __launch_bounds__(threads)
conv2d_paired(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    convolve_any<threads>(image, filter, out, rows, columns, k);
}
