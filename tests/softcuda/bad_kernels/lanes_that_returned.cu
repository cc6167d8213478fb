// A vote of the full warp after some of its lanes have returned.
// Must be found: barrier error.*has returned \(|barrier error.*never come
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m)
        return;
    scalar_t sum = 0;
    for (int col = 0; col < n; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    y[row] = __any_sync(0xffffffffu, sum > 1e30f) ? scalar_t(0) : sum;
}
