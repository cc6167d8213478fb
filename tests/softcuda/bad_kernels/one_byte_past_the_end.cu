// A copy by bytes that is one byte too long.
// Must be found: out of bounds.*reads 1 byte
// Case: transpose-naive-16x16-33x41-float32

extern "C" __global__ void transpose_naive(const scalar_t* a, scalar_t* b, int m, int n)
{
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row < m && col < n)
        b[size_t(col) * m + row] = a[size_t(row) * n + col];
    if (row == 0 && col == 0) {
        const unsigned char* bytes = reinterpret_cast<const unsigned char*>(a);
        unsigned sum = 0;
        for (size_t i = 0; i <= sizeof(scalar_t) * m * n; ++i)
            sum += bytes[i];
        if (sum == 1)
            b[0] = 0;
    }
}
