// A loop whose threads meet at barriers for ever.
// Must be found: endless kernel
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    for (int i = 0; i < n || m > 0; ++i)
        __syncthreads();
    if (row < m)
        y[row] = a[row] * x[0];
}
