// Partial sums of 32 warps added up in a block that has two.
// Must be found: uninitialised memory
// Case: matvec-naive-64-128x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    __shared__ scalar_t partial[32];
    const int row = blockIdx.x * BLOCK_X + threadIdx.x, lane = threadIdx.x % 32;
    scalar_t sum = 0;
    for (int col = 0; col < n && row < m; ++col)
        sum += a[size_t(row) * n + col] * x[col];
    scalar_t largest = sum;
    for (int half = 16; half > 0; half /= 2)
        largest = fmaxf(largest, __shfl_down_sync(0xffffffffu, largest, half));
    if (lane == 0)
        partial[threadIdx.x / 32] = largest;
    __syncthreads();
    for (int warp = 0; warp < 32; ++warp)
        largest = fmaxf(largest, partial[warp]);
    if (row < m)
        y[row] = sum + 0 * largest;
}
