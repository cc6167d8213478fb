// The result read before it was written.
// Must be found: uninitialised memory
// Case: transpose-naive-16x16-33x41-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < m && col < n)
        b[size_t(col) * m + row] = a[size_t(row) * n + col] + 0 * b[size_t(col) * m + row];
}
