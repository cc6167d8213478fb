// An accumulator that nobody set to zero.
// Must be found: unset variable in matmul_tiled.* of sum \(
// Case: matmul-tiled-16x16-33x37x41-float32

extern "C" __global__ void matmul_tiled(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    __shared__ scalar_t a_tile[BLOCK_Y][BLOCK_X], b_tile[BLOCK_Y][BLOCK_X];
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    scalar_t sum;
    for (int start = 0; start < n; start += BLOCK_X) {
        const int a_col = start + threadIdx.x, b_row = start + threadIdx.y;
        a_tile[threadIdx.y][threadIdx.x] = row < m && a_col < n ? a[size_t(row) * n + a_col] : scalar_t(0);
        b_tile[threadIdx.y][threadIdx.x] = b_row < n && col < k ? b[size_t(b_row) * k + col] : scalar_t(0);
        __syncthreads();
        for (int i = 0; i < BLOCK_X; ++i)
            sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < k)
        c[size_t(row) * k + col] = sum;
}
