// Matrix product with threadIdx.x along rows, on purpose: the uncoalesced twin of naive.cu.
// The lanes of a warp read A and write C a whole row apart, so each needs a memory sector of its own.
// Costs: the same arithmetic as naive.cu, up to 32 times its memory transactions.
// Share on an H200, predicted: 0.01 to 0.02; reached: 0.04 of cuBLAS at 2048^3 (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
matmul_strided(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int col = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    if (row >= m || col >= k)
        return;

    scalar_t sum = 0;
    for (int i = 0; i < n; ++i)
        sum += a[size_t(row) * n + i] * b[size_t(i) * k + col];
    c[size_t(row) * k + col] = sum;
}
