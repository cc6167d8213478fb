// Rows and columns staged in 1-D shared arrays by threadIdx alone: the rows of a block overwrite each other.
// Must be found: race
// Case: matmul-naive-16x16-33x37x41-float32

extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    __shared__ scalar_t a_row[BLOCK_X], b_column[BLOCK_Y];
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    scalar_t sum = 0;
    for (int start = 0; start < n; start += BLOCK_X) {
        const int i = start + threadIdx.x, j = start + threadIdx.y;
        a_row[threadIdx.x] = row < m && i < n ? a[size_t(row) * n + i] : scalar_t(0);
        b_column[threadIdx.y] = j < n && col < k ? b[size_t(j) * k + col] : scalar_t(0);
        __syncthreads();
        for (int i = 0; i < BLOCK_X; ++i)
            sum += a_row[i] * b_column[i];
        __syncthreads();
    }
    if (row < m && col < k)
        c[size_t(row) * k + col] = sum;
}
