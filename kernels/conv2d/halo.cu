// 2-D convolution, a tile of the image with its halo in shared memory.
// Every pixel is read from global memory once by a block; K^2 - 1 more reads an output go to shared memory, which is
// no faster than the cache that naive.cu reads from. The filter comes from the cache too.
// Costs: (BLOCK_Y + K - 1) (BLOCK_X + K - 1) elements of dynamic shared memory, one barrier.
// Share on an H200, predicted: 1 to 1.2 times naive.cu; reached: 0.22, 0.13, 0.09 of a copy's bandwidth at 8192^2, K =
// 3, 5, 7 (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
conv2d_halo(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    extern __shared__ scalar_t halo_tile[]; // BLOCK_Y + k - 1 rows of BLOCK_X + k - 1
    const int width = BLOCK_X + k - 1, height = BLOCK_Y + k - 1;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int first_row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y, first_col = blockIdx.x * BLOCK_X;
    for (int y = threadIdx.y; y < height; y += BLOCK_Y)
        for (int x = threadIdx.x; x < width; x += BLOCK_X) {
            const int row = first_row + y, col = first_col + x;
            halo_tile[y * width + x] = row < rows && col < columns ? image[size_t(row) * columns + col] : scalar_t(0);
        }
    __syncthreads();

    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int row = first_row + threadIdx.y, col = first_col + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;
    scalar_t sum = 0;
    for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q)
            sum += filter[p * k + q] * halo_tile[(threadIdx.y + p) * width + threadIdx.x + q];
    out[size_t(row) * out_columns + col] = sum;
}
