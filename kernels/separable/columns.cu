// 2-D convolution with a filter of rank 1 in one pass over the image: along the row, then down the columns.
// As conv2d/columns.cu (slide.h there says how rows come and go), but a row is first made into its sums along the row,
// and those are what is added to K outputs: 2 K multiplications an output in place of K^2. K = 3, 5 and 7 are unrolled;
// separable_columns takes any other K and goes as naive.cu does.
// Costs: (K + 3) (1 + (K - 1) / BLOCK_Y) / 4 reads from the cache an output; 120 to 130 registers, most of them for
// rows on their way; two rows of a block's outputs in shared memory.
// Share on an H200: 0.97, 0.94, 0.91 of a copy's bandwidth at 8192^2, K = 3, 5, 7 (float32).

#include "../conv2d/slide.h"

template <int K> __device__ __forceinline__ void convolve(const scalar_t* image, const scalar_t* column,
    const scalar_t* row, scalar_t* out, int rows, int columns)
{
    scalar_t down[K], along[K];
#pragma unroll
    for (int p = 0; p < K; ++p)
        down[p] = column[p], along[p] = row[p];
    const auto add_row = [&](auto& sums, const auto& pixels) {
        scalar_t across[each] = {};
#pragma unroll
        for (int i = 0; i < each; ++i)
#pragma unroll
            for (int q = 0; q < K; ++q)
                across[i] += along[q] * pixels[(i + q) / each].values[(i + q) % each];
#pragma unroll
        for (int p = K - 1; p >= 0; --p)
#pragma unroll
            for (int i = 0; i < each; ++i)
                sums[p][i] = down[p] * across[i] + (p ? sums[p ? p - 1 : 0][i] : scalar_t(0));
    };
    slide<K, (K > 3), K < 5 ? 10 : 8>(image, out, rows, columns, add_row);
}

#define SEPARABLE_COLUMNS(K) \
    extern "C" __global__ void __launch_bounds__(threads, K < 5 ? 1 : 512 / threads) \
        separable_columns_##K(const scalar_t* image, const scalar_t* column, const scalar_t* row, scalar_t* out, \
            int rows, int columns, int) \
    { \
        convolve<K>(image, column, row, out, rows, columns); \
    }
SEPARABLE_COLUMNS(3)
SEPARABLE_COLUMNS(5)
SEPARABLE_COLUMNS(7)

extern "C" __global__ void __launch_bounds__(threads)
separable_columns(const scalar_t* image, const scalar_t* column, const scalar_t* row, scalar_t* out, int rows, int columns,
    int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y;
    const int last_col = min((blockIdx.x + 1) * BLOCK_X, out_columns);
    for (int x = blockIdx.x * BLOCK_X + threadIdx.x; x < last_col; x += threads)
        for (int y = first_row; y < min(first_row + BLOCK_Y, out_rows); ++y) {
            scalar_t sum = 0;
            for (int p = 0; p < k; ++p)
                for (int q = 0; q < k; ++q)
                    sum += column[p] * (row[q] * image[size_t(y + p) * columns + x + q]);
            out[size_t(y) * out_columns + x] = sum;
        }
}
