// One element more of dynamic shared memory than the launch gave.
// Must be found: out of bounds.*dynamic shared memory
// Case: conv2d-shared_filter-16x16-40x37x3-float32

extern "C" __global__ void conv2d_shared_filter(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    extern __shared__ scalar_t filter_tile[];
    for (int i = threadIdx.y * BLOCK_X + threadIdx.x; i <= k * k; i += BLOCK_X * BLOCK_Y)
        filter_tile[i] = i < k * k ? filter[i] : scalar_t(0);
    __syncthreads();
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;
    scalar_t sum = 0;
    for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q)
            sum += filter_tile[p * k + q] * image[size_t(row + p) * columns + col + q];
    out[size_t(row) * out_columns + col] = sum;
}
