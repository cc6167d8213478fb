// 2-D convolution, a window that slides down BLOCK_Y rows: filter and sums in registers.
// A thread computes COLUMNS columns of BLOCK_Y outputs, 32 apart, so that a warp's are neighbours. It reads each row of
// its windows once, K neighbouring pixels, and adds them to the K outputs that they belong to; the output that is
// complete is written. K = 3, 5 and 7 are unrolled (conv2d_window_3, _5, _7); conv2d_window takes any other K and goes
// as naive.cu does. Memory is written in sectors of 32 bytes, and a part of one costs as much as two: lanes hand their
// outputs on, so that each store of a warp begins where a sector does.
// Costs: K (1 + (K - 1) / BLOCK_Y) reads from the cache an output; K^2 + 2 K COLUMNS registers; no shared memory.
// Share on an H200, predicted: 0.85 or more; reached: 0.75, 0.62, 0.47 of a copy's bandwidth at 8192^2, K = 3, 5, 7
// (float32).

#include "any_filter.h"

constexpr int threads = BLOCK_X / COLUMNS;

template <int K> __device__ __forceinline__ void slide(const scalar_t* __restrict__ image,
    const scalar_t* __restrict__ filter, scalar_t* __restrict__ out, int rows, int columns)
{
    const int out_rows = rows - K + 1, out_columns = columns - K + 1;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y, lane = threadIdx.x % 32;
    const int first_col = blockIdx.x * BLOCK_X + threadIdx.x / 32 * 32 * COLUMNS, col = first_col + lane; // of the warp
    if (first_col >= out_columns || first_row >= out_rows)
        return; // a whole warp
    scalar_t weights[K][K], sums[K][COLUMNS] = {};
#pragma unroll
    for (int p = 0; p < K; ++p)
#pragma unroll
        for (int q = 0; q < K; ++q)
            weights[p][q] = filter[p * K + q];

    const int end = min(first_row + BLOCK_Y, out_rows) + K - 1; // of the rows of the image
    const scalar_t* pixel = image + size_t(first_row) * columns + col;
    scalar_t* result = out + size_t(first_row) * out_columns + first_col;
    bool there[COLUMNS];
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i)
        there[i] = col + i * 32 < out_columns;
    // Row `row + j` of the image goes into outputs row + j - p; which sums are whose turns round with j.
    for (int row = first_row; row < end; row += K) {
#pragma unroll
        for (int j = 0; j < K; ++j) {
            if (row + j >= end)
                break;
            scalar_t values[COLUMNS][K];
#pragma unroll
            for (int i = 0; i < COLUMNS; ++i)
#pragma unroll
                for (int q = 0; q < K; ++q)
                    values[i][q] = there[i] ? pixel[i * 32 + q] : scalar_t(0);
            pixel += columns;
#pragma unroll
            for (int p = 0; p < K; ++p)
#pragma unroll
                for (int q = 0; q < K; ++q)
#pragma unroll
                    for (int i = 0; i < COLUMNS; ++i)
                        sums[(j - p + K) % K][i] += weights[p][q] * values[i][q];
            scalar_t(&done)[COLUMNS] = sums[(j + 1) % K];
            if (row + j >= first_row + K - 1) {
                const int off = int(size_t(result) / sizeof(scalar_t) % (32 / sizeof(scalar_t)));
                scalar_t before = 0;
#pragma unroll
                for (int i = 0; i <= COLUMNS; ++i) {
                    scalar_t mine = 0;
                    if (i < COLUMNS)
                        mine = __shfl_sync(0xffffffffu, done[i], lane - off & 31);
                    const int place = i * 32 + lane - off;
                    if (place >= 0 && place < 32 * COLUMNS && first_col + place < out_columns)
                        result[place] = lane < off ? before : mine;
                    before = mine;
                }
                result += out_columns;
            }
#pragma unroll
            for (int i = 0; i < COLUMNS; ++i)
                done[i] = 0;
        }
    }
}

#define CONV2D_WINDOW(K) \
    extern "C" __global__ void __launch_bounds__(threads) conv2d_window_##K( \
        const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int) \
    { \
        slide<K>(image, filter, out, rows, columns); \
    }
CONV2D_WINDOW(3)
CONV2D_WINDOW(5)
CONV2D_WINDOW(7)

extern "C" __global__ void __launch_bounds__(threads)
conv2d_window(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    convolve_any<threads>(image, filter, out, rows, columns, k);
}
