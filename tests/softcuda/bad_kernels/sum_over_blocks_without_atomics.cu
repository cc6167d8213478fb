// Blocks that add to one element, and not atomically.
// Must be found: race
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    scalar_t sum = 0;
    for (int col = 0; col < n && row < m; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    if (row < m)
        y[row] = sum;
    if (threadIdx.x == 0)
        y[m - 1] = sum;
}
