// Bins in shared memory that threads count up without atomics.
// Must be found: race
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    __shared__ int bins[8];
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (threadIdx.x < 8)
        bins[threadIdx.x] = 0;
    __syncthreads();
    if (row < m)
        bins[row % 8] += 1;
    __syncthreads();
    scalar_t sum = 0;
    for (int col = 0; col < n && row < m; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    if (row < m)
        y[row] = sum + 0 * bins[row % 8];
}
