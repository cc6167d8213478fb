// A store through a null pointer.
// Must be found: out of bounds
// Case: matmul-naive-16x16-33x37x41-float32

extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    const int row = blockIdx.y * BLOCK_Y + threadIdx.y, col = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row == 0 && col == 0)
        *static_cast<volatile scalar_t*>(nullptr) = a[0] * b[0];
    if (row < m && col < k)
        c[size_t(row) * k + col] = 0;
}
