// 2-D convolution with threadIdx.x along rows, on purpose: the uncoalesced twin of naive.cu.
// The lanes of a warp read the image and write the result a whole row apart.
// Costs: the same arithmetic as naive.cu, up to 32 times its memory transactions.
// Share on an H200: 0.20, 0.10 of a copy's bandwidth at 10000^2, K = 3, 5 (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
conv2d_strided(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int col = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    if (row >= out_rows || col >= out_columns)
        return;

    scalar_t sum = 0;
    for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q)
            sum += filter[size_t(p) * k + q] * image[size_t(row + p) * columns + col + q];
    out[size_t(row) * out_columns + col] = sum;
}
