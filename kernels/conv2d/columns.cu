// 2-D convolution, a window as in window.cu, four neighbouring columns a thread, rows read by pieces of 16 bytes.
// K + 3 pixels of a row serve four outputs, so the cache is read a quarter as often; slide.h says how rows come and go,
// and queued.h for K = 7, where blocks are high.
// The filter lies in constant memory, from where a multiplication takes its factor at no cost. K = 3, 5 and 7 are
// unrolled; conv2d_columns takes any other K and goes as naive.cu does. Few rows a block (BLOCK_Y) leave no
// multiprocessor idle at the end and find the rows that they share in L2, many read fewer rows twice: 8 is best for
// K = 3 and 5, and for K = 7 250, with which all blocks of 8192^2 run at once, four on each of 132 multiprocessors.
// Costs: (K + 3) (1 + (K - 1) / BLOCK_Y) / 4 reads from the cache an output; 96 to 130 registers (int32, K = 7, low
// blocks: 160), most of them for rows on their way, but for queued.h; in shared memory two rows of a block's outputs, and
// for queued.h six of the image.
// Share on an H200, predicted: 0.9 or more for K up to 5; reached: 0.96, 0.93, 0.80 of a copy's bandwidth at 8192^2, K
// = 3, 5, 7 (float32). An SM multiplies integers at half the rate: paired.cu needs fewer of these products.

#include "any_filter.h"
#include "queued.h"
#include "slide.h"

constexpr int largest = 7;
template <int K> constexpr bool straight = K == 5 && BLOCK_Y <= 16; // 2 % quicker; for K = 3 and 7 it is 1 to 2 % slower
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <int K> constexpr bool queued = false;
#else
template <int K> constexpr bool queued = K == 7 && BLOCK_Y > 16; // 1 to 3 % quicker; low blocks are slower
#endif
__constant__ scalar_t constant_filter[largest * largest];

template <int K> __device__ __forceinline__ void convolve(const scalar_t* image, scalar_t* out, int rows, int columns)
{
    const auto add_row = [](auto& sums, const auto& row) {
#pragma unroll
        for (int p = K - 1; p >= 0; --p)
#pragma unroll
            for (int i = 0; i < each; ++i) {
                sums[p][i] = p ? sums[p ? p - 1 : 0][i] : scalar_t(0);
#pragma unroll
                for (int q = 0; q < K; ++q) {
                    sums[p][i] += constant_filter[p * K + q] * row[(i + q) / each].values[(i + q) % each];
                    in_order(sums[p][i]);
                }
            }
    };
    if constexpr (queued<K>)
        if (columns % each == 0 && (size_t(image) | size_t(out)) % 16 == 0)
            return slide_queued<K>(image, out, rows, columns, add_row);
    slide<K, straight<K>>(image, out, rows, columns, add_row);
}

#define CONV2D_COLUMNS(K) \
    extern "C" __global__ void __launch_bounds__(threads, (straight<K> ? 640 : queued<K> ? 512 : 384) / threads) \
        conv2d_columns_##K(const scalar_t* image, const scalar_t*, scalar_t* out, int rows, int columns, int) \
    { \
        convolve<K>(image, out, rows, columns); \
    }
CONV2D_COLUMNS(3)
CONV2D_COLUMNS(5)
CONV2D_COLUMNS(7)

extern "C" __global__ void __launch_bounds__(threads)
conv2d_columns(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    convolve_any<threads>(image, filter, out, rows, columns, k);
}
