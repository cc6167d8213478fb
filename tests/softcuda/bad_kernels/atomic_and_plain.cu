// An element that some threads add to atomically and others read plainly.
// Must be found: race
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    __shared__ int count;
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (threadIdx.x == 0)
        count = 0;
    __syncthreads();
    atomicAdd(&count, 1);
    const int seen = count;
    scalar_t sum = 0;
    for (int col = 0; col < n && row < m; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    if (row < m)
        y[row] = seen < 0 ? 0 : sum;
}
