// float4 loads from rows whose length is no multiple of four.
// Must be found: misaligned access
// Case: matvec-naive-64-100x70-float32

extern "C" __global__ void matvec_naive(const scalar_t* a, const scalar_t* x, scalar_t* y, int m, int n)
{
    const int row = blockIdx.x * BLOCK_X + threadIdx.x;
    if (row >= m)
        return;
    const scalar_t* a_row = a + size_t(row) * n;
    scalar_t sum = 0;
    int col = 0;
    for (; col + 4 <= n; col += 4) {
        const float4 part = *reinterpret_cast<const float4*>(a_row + col);
        sum += part.x * x[col] + part.y * x[col + 1] + part.z * x[col + 2] + part.w * x[col + 3];
    }
    for (; col < n; ++col)
        sum += a_row[col] * x[col];
    y[row] = sum;
}
