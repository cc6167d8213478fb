// A shared array indexed from -1.
// Must be found: out of bounds.*before the start of shared x_tile
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    __shared__ scalar_t x_tile[BLOCK_X];
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    scalar_t sum = 0;
    for (int start = 0; start < n; start += BLOCK_X) {
        const int mine = start + threadIdx.x;
        x_tile[int(threadIdx.x) - 1] = mine < n ? x[mine] : scalar_t(0);
        __syncthreads();
        for (int i = 0; i < min(BLOCK_X, n - start); ++i)
            sum += row < m ? a[size_t(row) * n + start + i] * x_tile[i - 1] : scalar_t(0);
        __syncthreads();
    }
    if (row < m)
        y[row] = sum;
}
