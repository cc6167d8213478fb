// Two floats read as one double, from addresses that are multiples of four.
// Must be found: misaligned access
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m)
        return;
    scalar_t sum = 0;
    for (int col = 0; col + 1 < n; ++col) {
        const double pair = *reinterpret_cast<const double*>(a + size_t(row) * n + col);
        sum += reinterpret_cast<const float&>(pair) * x[col];
    }
    y[row] = sum;
}
