// A store one byte before an array.
// Must be found: out of bounds.*1 byte before the start of b
// Case: transpose-naive-16x16-33x41-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < m && col < n)
        b[size_t(col) * m + row] = a[size_t(row) * n + col];
    if (row == 0 && col == 0)
        reinterpret_cast<char*>(b)[-1] = 0;
}
