// A barrier in a loop that threads leave at different times.
// Must be found: barrier error
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    __shared__ scalar_t partial[BLOCK_X];
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    scalar_t sum = 0;
    for (int col = 0; col < n && row < m; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    for (int i = 0; i < int(threadIdx.x) % 3; ++i) {
        partial[threadIdx.x] = sum;
        __syncthreads();
    }
    if (row < m)
        y[row] = sum;
}
