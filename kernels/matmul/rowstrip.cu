// Matrix product, one block a strip of one row of C: the partition without 2-D tiles.
// The block stages its row of A through 1-D shared memory, BLOCK_X elements at a time; every thread then
// needs all of them. B comes from global memory, coalesced, and is read again for every row of C.
// Costs: n/BLOCK_X barriers twice; m times all of B through the caches. BLOCK_Y is 1.
// Share on an H200: 0.11 of cuBLAS at 2048^3 (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
matmul_rowstrip(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    static_assert(BLOCK_Y == 1, "a block of rowstrip is one row of threads");
    __shared__ scalar_t a_part[BLOCK_X];

    // Rows past gridDim.y's limit of 65,535 continue in z.
    const int row = blockIdx.z * gridDim.y + blockIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m) // the whole block, so no barrier waits for it
        return;

    scalar_t sum = 0;
    for (int start = 0; start < n; start += BLOCK_X) {
        const int mine = start + threadIdx.x;
        a_part[threadIdx.x] = mine < n ? a[size_t(row) * n + mine] : scalar_t(0);
        __syncthreads();
        const int count = min(BLOCK_X, n - start);
        if (col < k)
            for (int i = 0; i < count; ++i)
                sum += a_part[i] * b[size_t(start + i) * k + col];
        __syncthreads();
    }
    if (col < k)
        c[size_t(row) * k + col] = sum;
}
