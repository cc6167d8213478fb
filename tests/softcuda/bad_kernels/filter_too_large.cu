// A 5x5 filter in a shared array for 3x3.
// Must be found: out of bounds
// Case: conv2d-shared_filter-16x16-40x37x5-float32

extern "C" __global__ void conv2d_shared_filter(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    __shared__ scalar_t small[3 * 3];
    for (int i = threadIdx.y * BLOCK_X + threadIdx.x; i < k * k; i += BLOCK_X * BLOCK_Y)
        small[i] = filter[i];
    __syncthreads();
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;
    scalar_t sum = 0;
    for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q)
            sum += small[p * k + q] * image[size_t(row + p) * columns + col + q];
    out[size_t(row) * out_columns + col] = sum;
}
