// What window.cu and columns.cu do with a K that they have not unrolled: as naive.cu, an output after the other.

#pragma once

template <int threads>
__device__ __forceinline__ void convolve_any(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows,
    int columns, int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y;
    const int last_col = min((blockIdx.x + 1) * BLOCK_X, out_columns);
    for (int col = blockIdx.x * BLOCK_X + threadIdx.x; col < last_col; col += threads)
        for (int row = first_row; row < min(first_row + BLOCK_Y, out_rows); ++row) {
            scalar_t sum = 0;
            for (int p = 0; p < k; ++p)
                for (int q = 0; q < k; ++q)
                    sum += filter[p * k + q] * image[size_t(row + p) * columns + col + q];
            out[size_t(row) * out_columns + col] = sum;
        }
}
