// 2-D convolution like naive.cu, with the filter in constant memory.
// All lanes of a warp need the same element at the same time, which is what the constant cache serves in one step,
// beside the loads of the image. The host copies the filter there before the launch.
// Costs: room for 64 x 64 elements of constant memory; a larger filter is read from global memory.
// Share on an H200, predicted: 1.5 to 2 times naive.cu; reached: 0.28, 0.15 of a copy's bandwidth at 10000^2, K = 3, 5
// (float32): the loop over an unknown K costs more.

constexpr int largest = 64;
__constant__ scalar_t constant_filter[largest * largest];

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
conv2d_constant_filter(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;

    scalar_t sum = 0;
    if (k <= largest)
        for (int p = 0; p < k; ++p)
            for (int q = 0; q < k; ++q)
                sum += constant_filter[p * k + q] * image[size_t(row + p) * columns + col + q];
    else
        for (int p = 0; p < k; ++p)
            for (int q = 0; q < k; ++q)
                sum += filter[p * k + q] * image[size_t(row + p) * columns + col + q];
    out[size_t(row) * out_columns + col] = sum;
}
