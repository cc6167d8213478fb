// A tile read before the barrier that comes too late.
// Must be found: race|uninitialised memory
// Case: transpose-naive-16x16-33x41-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    __shared__ scalar_t tile[BLOCK_Y][BLOCK_X];
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < m && col < n)
        tile[threadIdx.y][threadIdx.x] = a[size_t(row) * n + col];
    const int thread = threadIdx.y * BLOCK_X + threadIdx.x, x = thread % BLOCK_Y, y = thread / BLOCK_Y;
    const int to_row = blockIdx.x * BLOCK_X + y, to_col = blockIdx.y * BLOCK_Y + x;
    const scalar_t value = to_row < n && to_col < m ? tile[x][y] : scalar_t(0);
    __syncthreads();
    if (to_row < n && to_col < m)
        b[size_t(to_row) * m + to_col] = value;
}
