// 2-D convolution with a filter of rank 1, one thread an output, as if it were any filter.
// Each of K^2 pixels is multiplied by its column's and its row's factor: what a kernel costs that does not use the
// rank.
// Costs: K^2 reads of the image an output, from the caches where neighbours have been; K more of either vector.
// Share on an H200: 0.27, 0.13, 0.09 of a copy's bandwidth at 8192^2, K = 3, 5, 7 (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
separable_naive(const scalar_t* image, const scalar_t* column, const scalar_t* row, scalar_t* out, int rows, int columns,
    int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int y = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    const int x = blockIdx.x * BLOCK_X + threadIdx.x;
    if (y >= out_rows || x >= out_columns)
        return;

    scalar_t sum = 0;
    for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q)
            sum += column[p] * (row[q] * image[size_t(y + p) * columns + x + q]);
    out[size_t(y) * out_columns + x] = sum;
}
