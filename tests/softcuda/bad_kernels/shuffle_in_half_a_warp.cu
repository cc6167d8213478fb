// A shuffle with the full mask, in a branch that half of the warp takes.
// Must be found: barrier error.*warp function
// Case: matvec-naive-64-128x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x, lane = threadIdx.x % 32;
    scalar_t sum = 0;
    for (int col = 0; col < n && row < m; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    if (lane < 16)
        sum += 0 * __shfl_down_sync(0xffffffffu, sum, 8);
    if (row < m)
        y[row] = sum;
}
