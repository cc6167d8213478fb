// 2-D convolution, one thread an output, image and filter from global memory.
// The lanes of a warp read the image side by side (coalesced) and the filter all at once (a broadcast).
// Costs: 2 K^2 loads an output, nearly all of them served by L1.
// Share on an H200, predicted: 0.25 to 0.35 for K = 5; reached: 0.26, 0.13 of a copy's bandwidth at 10000^2, K = 3, 5
// (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
conv2d_naive(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;

    scalar_t sum = 0;
    for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q)
            sum += filter[size_t(p) * k + q] * image[size_t(row + p) * columns + col + q];
    out[size_t(row) * out_columns + col] = sum;
}
