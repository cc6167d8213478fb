// Two branches with a barrier each, and a block that takes both.
// Must be found: barrier error
// Case: transpose-naive-16x16-32x32-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    __shared__ scalar_t tile[BLOCK_Y][BLOCK_X];
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < m && col < n)
        tile[threadIdx.y][threadIdx.x] = a[size_t(row) * n + col];
    if (threadIdx.y < BLOCK_Y / 2) {
        __syncthreads();
        if (row < m && col < n)
            b[size_t(col) * m + row] = tile[threadIdx.y][threadIdx.x];
    } else {
        tile[threadIdx.y][threadIdx.x] += 0;
        __syncthreads();
        if (row < m && col < n)
            b[size_t(col) * m + row] = tile[threadIdx.y][threadIdx.x];
    }
}
