// B read with the stride of its height: right for squares only.
// Must be found: out of bounds
// Case: matmul-naive-16x16-33x41x37-float32

extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m || col >= k)
        return;
    scalar_t sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[size_t(row) * n + i] * b[size_t(i) * n + col];
    c[size_t(row) * k + col] = sum;
}
