// A tile with a row too few.
// Must be found: out of bounds.*shared tile
// Case: transpose-naive-16x16-33x41-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    __shared__ scalar_t tile[BLOCK_Y - 1][BLOCK_X];
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < m && col < n)
        tile[threadIdx.y][threadIdx.x] = a[size_t(row) * n + col];
    __syncthreads();
    if (row < m && col < n)
        b[size_t(col) * m + row] = tile[threadIdx.y][threadIdx.x];
}
