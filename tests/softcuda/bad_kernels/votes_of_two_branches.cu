// Two branches with a vote each, both with the full mask.
// Must be found: barrier error
// Case: matvec-naive-64-128x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x, lane = threadIdx.x % 32;
    scalar_t sum = 0;
    for (int col = 0; col < n && row < m; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    int votes = 0;
    if (lane % 2)
        votes = __ballot_sync(0xffffffffu, sum > 0);
    else
        votes = __any_sync(0xffffffffu, sum > 0);
    if (row < m)
        y[row] = sum + 0 * votes;
}
