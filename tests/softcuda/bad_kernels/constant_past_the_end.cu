// An index one past a constant array.
// Must be found: out of bounds.*constant weights
// Case: conv2d-naive-16x16-40x37x3-float32

__constant__ scalar_t weights[9];

extern "C" __global__ void conv2d_naive(const scalar_t* image, const scalar_t* filter, scalar_t* out, int rows, int columns, int k)
{
    const int out_rows = rows - k + 1, out_columns = columns - k + 1;
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= out_rows || col >= out_columns)
        return;
    scalar_t sum = 0;
    for (int i = 0; i <= k * k; ++i)
        sum += weights[i];
    out[size_t(row) * out_columns + col] = sum;
}
