// A tile with a halo that nobody loads.
// Must be found: uninitialised memory
// Case: conv2d-naive-16x16-40x37x3-float32

extern "C" __global__ void conv2d_naive(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    __shared__ scalar_t tile[BLOCK_Y + 2][BLOCK_X + 2];
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    tile[threadIdx.y][threadIdx.x] = row < rows && col < columns ? image[size_t(row) * columns + col] : scalar_t(0);
    __syncthreads();
    if (row >= out_rows || col >= out_columns)
        return;
    scalar_t sum = 0;
    for (int p = 0; p < 3; ++p)
        for (int q = 0; q < 3; ++q)
            sum += filter[p * k + q] * tile[threadIdx.y + p][threadIdx.x + q];
    out[size_t(row) * out_columns + col] = sum;
}
