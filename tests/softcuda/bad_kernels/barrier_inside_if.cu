// __syncthreads() inside the bounds check: threads beyond the edge never reach it.
// Must be found: barrier error
// Case: transpose-naive-16x16-33x41-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    __shared__ scalar_t tile[BLOCK_Y][BLOCK_X];
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (col < n && row < m) {
        tile[threadIdx.y][threadIdx.x] = a[size_t(row) * n + col];
        __syncthreads();
        b[size_t(col) * m + row] = tile[threadIdx.y][threadIdx.x];
    }
}
