// A lane that calls a warp function whose mask leaves it out.
// Must be found: barrier error.*does not name its own lane
// Case: matvec-naive-64-128x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x, lane = threadIdx.x % 32;
    scalar_t sum = 0;
    for (int col = 0; col < n && row < m; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    sum += 0 * __shfl_sync(0x0000ffffu, sum, 0);
    if (row < m)
        y[row] = sum;
}
