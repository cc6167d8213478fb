// A transpose in place, in the array that other threads still read.
// Must be found: race
// Case: transpose-naive-16x16-16x16-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < m && col < n && row < col && col < m && row < n) {
        scalar_t* square = const_cast<scalar_t*>(a);
        const scalar_t kept = square[size_t(row) * n + col];
        square[size_t(row) * n + col] = square[size_t(col) * n + row];
        square[size_t(col) * n + row] = kept;
    }
    if (row < m && col < n)
        b[size_t(col) * m + row] = a[size_t(col) * n + row];
}
