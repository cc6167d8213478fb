// Matrix-vector product, one thread a row.
// The lanes of a warp read A a whole row apart, so a load touches 32 sectors and uses one element of each;
// the rest must survive in the cache until the loop comes to it.
// Costs: A once if the cache holds 32 rows' sectors a warp, many times if not. Few rows leave most of the
// GPU idle: 1,000 rows are 32 warps.
// Share on an H200, predicted: 0.05 to 0.15; reached: 0.13 of a copy's bandwidth at 10000^2 (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X)
matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m)
        return;

    scalar_t sum = 0;
    for (int col = 0; col < n; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    y[row] = sum;
}
