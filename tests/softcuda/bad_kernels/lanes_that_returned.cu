// A shuffle that reads from lanes of the warp that have returned.
// Must be found: barrier error.*has returned \(
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m)
        return;
    scalar_t sum = 0;
    for (int col = 0; col < n; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    const scalar_t other = __shfl_xor_sync(0xffffffffu, sum, 16);
    y[row] = sum + 0 * other;
}
