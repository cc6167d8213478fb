// Matrix product, 2-D tiles of A and B in shared memory.
// A block computes a BLOCK_Y x BLOCK_X tile of C; it walks along n in steps of BLOCK_X, and every element
// that it loads from global memory serves a whole row or column of its threads.
// Costs: global loads fall by the size of the tile; two barriers a step; BLOCK_X * (BLOCK_X + BLOCK_Y)
// elements of shared memory. Elements outside the matrices are loaded as zeros.
// Share on an H200, predicted: 0.17; reached: 0.14 of cuBLAS at 4096^3 (float32).

extern "C" __global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
matmul_tiled(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    __shared__ scalar_t a_tile[BLOCK_Y][BLOCK_X];
    __shared__ scalar_t b_tile[BLOCK_X][BLOCK_X];

    // Blocks past gridDim.y's limit of 65,535 continue in z.
    const int row = (blockIdx.z * gridDim.y + blockIdx.y) * BLOCK_Y + threadIdx.y;
    const int col = blockIdx.x * BLOCK_X + threadIdx.x;

    scalar_t sum = 0;
    for (int start = 0; start < n; start += BLOCK_X) {
        const int a_col = start + threadIdx.x;
        a_tile[threadIdx.y][threadIdx.x] = row < m && a_col < n ? a[size_t(row) * n + a_col] : scalar_t(0);
        for (int i = threadIdx.y; i < BLOCK_X; i += BLOCK_Y) {
            const int b_row = start + i;
            b_tile[i][threadIdx.x] = b_row < n && col < k ? b[size_t(b_row) * k + col] : scalar_t(0);
        }
        __syncthreads();
        for (int i = 0; i < BLOCK_X; ++i)
            sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < k)
        c[size_t(row) * k + col] = sum;
}
