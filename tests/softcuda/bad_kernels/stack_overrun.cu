// A local array far too large for a thread's stack.
// Must be found: stack overrun
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m)
        return;
    volatile scalar_t all[1 << 18];
    for (int col = 0; col < n; ++col)
        all[(col * 4099) & ((1 << 18) - 1)] = x[col];
    scalar_t sum = 0;
    for (int col = 0; col < n; ++col)
        sum += a[size_t(row) * n + col] * all[(col * 4099) & ((1 << 18) - 1)];
    y[row] = sum;
}
