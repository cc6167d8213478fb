// As if grid.x and grid.y had been taken from height and width the wrong way round.
// Must be found: unwritten|out of bounds
// Case: matmul-naive-16x16-33x37x80-float32

extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    // A grid of (blocks of rows, blocks of columns) has no block whose x is beyond the rows' count.
    if (blockIdx.x >= (m + BLOCK_X - 1) / BLOCK_X || blockIdx.y >= (k + BLOCK_Y - 1) / BLOCK_Y)
        return;
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m || col >= k)
        return;
    scalar_t sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[size_t(row) * n + i] * b[size_t(i) * k + col];
    c[size_t(row) * k + col] = sum;
}
