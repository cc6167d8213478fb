// An unsigned index that goes below zero.
// Must be found: out of bounds
// Case: conv2d-naive-16x16-40x37x3-float32

extern "C" __global__ void conv2d_naive(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    const unsigned out_rows = rows - k + 1, out_columns = columns - k + 1;
    const unsigned row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;
    scalar_t sum = 0;
    for (unsigned p = 0; p < k; ++p)
        for (unsigned q = 0; q < k; ++q)
            sum += filter[p * k + q] * image[(row + p - 1) * columns + col + q];
    out[size_t(row) * out_columns + col] = sum;
}
