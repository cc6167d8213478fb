// A thread that reads what its neighbour writes in global memory, with no barrier.
// Must be found: race|uninitialised memory
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m)
        return;
    scalar_t sum = 0;
    for (int col = 0; col < n; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    y[row] = sum;
    if (threadIdx.x > 0)
        y[row] += 0 * y[row - 1];
}
