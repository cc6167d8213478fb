// A loop that compares where it should increment, and never ends.
// Must be found: endless kernel
// Case: matmul-naive-16x16-33x37x41-float32

extern "C" __global__ void matmul_naive(const scalar_t* a, const scalar_t* b, scalar_t* c, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || column >= k)
        return;
    volatile scalar_t* sum = c + row * k + column;
    *sum = 0;
    for (int i = 0; i < n; i == i + 1)
        *sum += a[row * n + i] * b[i * k + column];
}
