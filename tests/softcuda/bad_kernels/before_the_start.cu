// A window that begins one element too early.
// Must be found: out of bounds.*before the start of image
// Case: conv2d-naive-16x16-40x37x3-float32

extern "C" __global__ void conv2d_naive(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;
    scalar_t sum = 0;
    for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q)
            sum += filter[p * k + q] * image[ptrdiff_t(row + p) * columns + col + q - 1];
    out[size_t(row) * out_columns + col] = sum;
}
