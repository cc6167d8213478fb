// A float2 store to an odd element.
// Must be found: misaligned access
// Case: transpose-naive-16x16-33x41-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < m && col + 1 < n && (col & 1) == 0)
        *reinterpret_cast<float2*>(b + size_t(col) * m + row) = make_float2(a[size_t(row) * n + col], 0);
}
