// Transposed indices checked against the untransposed sizes.
// Must be found: out of bounds
// Case: transpose-naive-16x16-33x80-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    const int x = blockIdx.y * BLOCK_Y + threadIdx.x, y = blockIdx.x * BLOCK_X + threadIdx.y; // in the transposed
    if (x < n && y < m)
        b[size_t(y) * m + x] = a[size_t(x) * n + y];
}
