// All blocks of a column write the same row: blockIdx.y was forgotten.
// Must be found: race between blocks
// Case: matmul-naive-16x16-33x37x41-float32

extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    const int row = threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m || col >= k)
        return;
    scalar_t sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[size_t(row) * n + i] * b[size_t(i) * k + col];
    c[size_t(row) * k + col] = sum;
}
